"""Whose fault it is that a box or a command cannot be started, and addresses that are none."""

from __future__ import annotations

import pytest

from pytest_rlenv.errors import BoxUnfit, EngineUnavailable, Kind, SandboxFailed
from pytest_rlenv.sandboxes.confinement import check_spec
from pytest_rlenv.sandboxes.docker.endpoint import resolve_endpoint
from pytest_rlenv.sandboxes.docker.failures import EngineRefused
from pytest_rlenv.sandboxes.docker.postmortem import start_refused
from pytest_rlenv.sandboxes.docker.refusals import execve_failure, not_started
from pytest_rlenv.sandboxes.model import PUBLIC, BoxSpec, Capabilities

EXEC = "OCI runtime exec failed: exec failed: unable to start container process: "
CREATE = "OCI runtime create failed: runc create failed: unable to start container process: "


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (EXEC + 'exec: "bash": executable file not found in $PATH: unknown', Kind.TASK),
        (EXEC + 'exec: "bash": permission denied: unknown', Kind.TASK),
        (EXEC + 'chdir to cwd ("/w") set in config.json failed: no such file or directory', Kind.TASK),
        (EXEC + "Cwd must be an absolute path: unknown", Kind.TASK),
        ("unable to find user me: no matching entries in passwd file", Kind.TASK),
        (EXEC + 'environment variable value can\'t contain null(\\x00): "A=x"', Kind.TASK),
        (EXEC + "can't get final child's PID: Resource temporarily unavailable", Kind.INFRA),
        (EXEC + "read init-p: connection reset by peer", Kind.INFRA),
    ],
)
def test_kind_of_a_command_that_does_not_start(text: str, kind: Kind) -> None:
    error = not_started(text.encode(), ["bash"], user="me", cwd="/w")
    assert isinstance(error, SandboxFailed)
    assert error.kind is kind


def test_a_working_directory_of_the_image_that_is_gone_is_named() -> None:
    text = EXEC + 'chdir to cwd ("/app") set in config.json failed: no such file or directory: unknown'
    error = not_started(text.encode(), ["bash"], user=None, cwd=None)
    assert error.message == "the working directory /app is gone: something removed it"


def test_a_script_that_cannot_be_executed_is_the_tasks() -> None:
    error = execve_failure(b"exec /x: exec format error\n", b"", 255, ["/x"])
    assert isinstance(error, BoxUnfit)


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (CREATE + 'exec: "/entry": permission denied: unknown', Kind.TASK, "ENTRYPOINT cannot be executed"),
        (CREATE + 'exec: "/entry": no such file or directory', Kind.TASK, "ENTRYPOINT cannot be executed"),
        (CREATE + 'exec: "sh": executable file not found in $PATH', Kind.TASK, "has no shell"),
        ("unable to find user ghost: no matching entries in passwd file", Kind.TASK, "USER does not exist"),
        (CREATE + "environment variable value can't contain null(\\x00)", Kind.TASK, "NUL character"),
        (CREATE + "cgroup: cannot be made", Kind.INFRA, "the engine says"),
    ],
)
def test_kind_of_a_box_that_does_not_start(text: str, kind: Kind, message: str) -> None:
    error = start_refused(EngineRefused(400, text, "start the box"))
    assert error.kind is kind
    assert message in error.message


@pytest.mark.parametrize("host", ["garbage", "localhost:2375", "/var/run/docker.sock", "unix:/x"])
def test_an_address_without_its_kind_is_none(host: str) -> None:
    with pytest.raises(EngineUnavailable, match="not the address of an engine") as raised:
        resolve_endpoint({"DOCKER_HOST": host})
    assert raised.value.message.startswith(f"{host!r} (from DOCKER_HOST)")
    assert all(kind in raised.value.hint for kind in ("unix://", "tcp://", "ssh://"))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (BoxSpec(cpus=0), "task asks for 0 cpus, a box needs 0.01 at least"),
        (BoxSpec(cpus=-1), "task asks for -1 cpus, a box needs 0.01 at least"),
        (BoxSpec(cpus=1e-10), "task asks for 1e-10 cpus, a box needs 0.01 at least"),
        (BoxSpec(cpus=float("nan")), "task asks for nan cpus, a box needs 0.01 at least"),
        (BoxSpec(memory_mb=0), "task asks for 0 MiB of memory, a box needs more than none"),
        (BoxSpec(memory_mb=-5), "task asks for -5 MiB of memory, a box needs more than none"),
    ],
)
def test_a_limit_in_which_nothing_runs_is_refused(spec: BoxSpec, message: str) -> None:
    """An engine takes 0 for no limit, so a box would be less held than its task asks."""
    with pytest.raises(BoxUnfit) as raised:
        check_spec(spec, Capabilities(network_modes=frozenset({PUBLIC})), where="this engine")
    assert raised.value.message == message


@pytest.mark.parametrize("spec", [BoxSpec(), BoxSpec(cpus=0.01, memory_mb=6), BoxSpec(cpus=2)])
def test_other_limits_are_taken(spec: BoxSpec) -> None:
    check_spec(spec, Capabilities(network_modes=frozenset({PUBLIC})), where="this engine")
