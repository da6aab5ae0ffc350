"""Why a command could not be started at all: the container runtime's words, in ours."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pytest_rlenv.errors import BoxUnfit, SandboxFailed

_EXECVE = re.compile(
    rb"exec \S+: (argument list too long|no such file or directory|exec format error|permission denied)\s*"
)
_ABSENT = ("executable file not found", "no such file or directory", ": not a directory")
_TOO_LONG = ("argument list too long", "exceed maximum message size")
_UNKNOWN_USER = (
    "unable to find user",
    "unable to find group",
    "in passwd file",
    "uids and gids must be in range",
)
_IN_FILES = "pass long texts in files"
_NUL = ("the value of an environment variable holds a NUL character", "remove it")
_CWD = re.compile(r'chdir to cwd \("([^"]+)"\)')


def is_refusal(message: str) -> bool:
    """Return True if an engine's answer is the runtime's refusal to start a command."""
    low = message.lower()
    return "oci runtime exec failed" in low or is_unknown_user(low)


def is_unknown_user(low: str) -> bool:
    """Return True if an answer, in lower case, says that a user or group is not in the image."""
    return any(each in low for each in _UNKNOWN_USER)


def not_started(
    text: bytes, argv: Sequence[str], *, user: str | int | None, cwd: str | None
) -> SandboxFailed:
    """Return the error for a command that the runtime refused.

    Args:
        text: what the runtime said, which the engine gives as the command's output.
        argv: the command.
        user: as whom it was to run.
        cwd: where it was to run, ``None`` for the image's own working directory.
    """
    said = text.decode("utf-8", "replace").strip()
    low = said.lower()
    command = argv[0] if argv else ""
    if is_unknown_user(low):
        message, hint = f"user {str(user)!r} does not exist in the image", "add it in the Dockerfile"
    elif "can't contain null" in low:
        message, hint = _NUL
    elif "chdir to cwd" in low and cwd is None:
        # the engine makes an image's WORKDIR when it makes a container
        message, hint = f"the working directory{_path_in(said)} is gone: something removed it", ""
    elif "chdir to cwd" in low or "cwd must be" in low:
        message = f"workdir {cwd!r} does not exist in the image"
        hint = "create it in the Dockerfile, with WORKDIR"
        if "not a directory" in low:
            message = f"workdir {cwd!r} cannot be used: Not a directory"
    elif any(each in low for each in _ABSENT):
        message, hint = f"command {command!r} is not in the image", "install it in the Dockerfile"
    elif any(each in low for each in _TOO_LONG):
        message, hint = f"the arguments of {command!r} are longer than the kernel allows", _IN_FILES
    elif "permission denied" in low:
        message, hint = f"{command!r} is not executable", "set its executable bit, or run it through a shell"
    elif "resource temporarily unavailable" in low or "cannot allocate memory" in low:
        message = f"no process or memory left in the box to start {command!r}"
        hint = "processes that are still running use up the box's limits"
        return SandboxFailed(message, hint=hint, detail=said)
    else:
        return SandboxFailed(f"the command {command!r} could not be started", detail=said)
    return BoxUnfit(message, hint=hint, detail=said)


def execve_failure(stdout: bytes, stderr: bytes, exit_code: int, argv: Sequence[str]) -> SandboxFailed | None:
    """Return the error for a command that the runtime could not execute in the last step, ``None`` otherwise.

    By then the runtime runs inside the box, so its one line is all that tells it from the command's own.
    """
    said = stdout + stderr
    if exit_code == 0 or len(said) > 4096 or not _EXECVE.fullmatch(said):
        return None
    detail = said.decode("utf-8", "replace").strip()
    command = argv[0]
    if b"argument list too long" in said:
        message, hint = f"the arguments of {command!r} are longer than the kernel allows", _IN_FILES
    elif b"exec format error" in said:
        message = f"{command!r} is neither a program for this machine nor a script with a #! line"
        hint = "give the script a #! line, or build the image for this machine's architecture"
    elif b"permission denied" in said:
        message, hint = f"{command!r} is not executable", "set its executable bit, or run it through a shell"
    else:
        message = f"{command!r} cannot be executed: its #! line names an interpreter that is not in the image"
        hint = "install the interpreter; a line that ends in CR LF (Windows) has this effect too"
    return BoxUnfit(message, hint=hint, detail=detail)


def nul_in_variable(message: str) -> BoxUnfit | None:
    """Return the error for a box or command that was given a variable with a NUL, ``None`` otherwise."""
    return BoxUnfit(_NUL[0], hint=_NUL[1], detail=message) if "can't contain null" in message else None


def _path_in(said: str) -> str:
    found = _CWD.search(said)
    return f" {found[1]}" if found else ""
