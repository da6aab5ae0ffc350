from __future__ import annotations

import pytest

from pytest_rlenv.sandboxes.docker.refusals import execve_failure, is_refusal, not_started

FAILED = "OCI runtime exec failed: exec failed: unable to start container process: "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            FAILED + 'exec: "tool": executable file not found in $PATH: unknown',
            "command 'tool' is not in the image",
        ),
        (FAILED + 'exec: "tool": stat tool: no such file or directory: unknown', "command 'tool' is not in"),
        (FAILED + 'exec: "tool": permission denied: unknown', "'tool' is not executable"),
        (
            FAILED + 'chdir to cwd ("/w") set in config.json failed: no such file or directory',
            "workdir '/w' does",
        ),
        (FAILED + "Cwd must be an absolute path: unknown", "workdir '/w' does not exist"),
        ("unable to find user me: no matching entries in passwd file", "user 'me' does not exist"),
        (FAILED + "read init-p: connection reset by peer", "the command 'tool' could not be started"),
        (
            FAILED + "can't get final child's PID: Resource temporarily unavailable",
            "no process or memory left",
        ),
    ],
)
def test_not_started(text: str, message: str) -> None:
    assert is_refusal(text)
    error = not_started(text.encode() + b"\r\n", ["tool", "x"], user="me", cwd="/w")
    assert error.message.startswith(message)
    assert error.detail == text


@pytest.mark.parametrize(
    ("stdout", "stderr", "code", "message"),
    [
        (b"exec /usr/bin/sh: argument list too long\n", b"", 1, "longer than the kernel allows"),
        (b"", b"exec /x: exec format error\n", 255, "neither a program"),
        (b"exec /x: no such file or directory\n", b"", 1, "interpreter"),
        (b"", b"exec /x: permission denied\n", 1, "is not executable"),
        (b"exec /x: exec format error\n", b"", 0, None),
        (b"exec /x: exec format error\nmore\n", b"", 1, None),
        (b"", b"", 1, None),
    ],
)
def test_execve_failure(stdout: bytes, stderr: bytes, code: int, message: str | None) -> None:
    error = execve_failure(stdout, stderr, code, ["tool"])
    assert (error is None) is (message is None)
    if error and message:
        assert message in error.message


def test_other_answers_are_no_refusals() -> None:
    assert not is_refusal("Container 123 is not running")
