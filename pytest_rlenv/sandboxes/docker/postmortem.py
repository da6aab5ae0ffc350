"""Why a container is not running when it should be."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from pytest_rlenv.errors import BoxUnfit, EntrypointExited, RlenvError, SandboxFailed, Stage
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.failures import EngineRefused
from pytest_rlenv.sandboxes.docker.refusals import execve_failure, is_unknown_user, nul_in_variable
from pytest_rlenv.sandboxes.keeper import NO_SLEEP
from pytest_rlenv.sandboxes.output import Demultiplexer, HeadTail

_LOG_LINES = 40
_KILLED = 137
_LOG_CAP = 64 * 1024
_NOT_EXECUTABLE = ("executable file not found", "no such file", "permission denied", "exec format error")


@dataclass(frozen=True)
class ImageFacts:
    """What an image says about how it wants to be run.

    Attributes:
        entrypoint: its ENTRYPOINT.
        healthcheck: True if it has a HEALTHCHECK.
        as_root: True if it starts as root, as most do.
        service: the name of the Compose service whose own command is run, and no keeper.
    """

    entrypoint: tuple[str, ...] = ()
    healthcheck: bool = False
    service: str = ""
    as_root: bool = True

    @property
    def may_end(self) -> bool:
        """True if PID 1 is a program of the image, which may end with what it waits for."""
        return bool(self.entrypoint or self.service)

    @property
    def is_idle(self) -> bool:
        """True if nothing of the image's own runs in a box on it."""
        return not (self.may_end or self.healthcheck)

    @classmethod
    def of(cls, inspected: dict[str, Any]) -> ImageFacts:
        """Read them from the engine's description of the image."""
        config = inspected.get("Config") or {}
        test = (config.get("Healthcheck") or {}).get("Test") or []
        return cls(
            tuple(config.get("Entrypoint") or ()),
            bool(test) and test[0] not in ("NONE", ""),
            as_root=is_root(str(config.get("User") or "")),
        )


def is_root(user: str) -> bool:
    """True for the user of an image or service, with or without a group, that is root."""
    return user.partition(":")[0] in ("", "0", "root")


def inspect(engine: Engine, container: str) -> dict[str, Any] | None:
    """Return the engine's description of a container, ``None`` if there is none."""
    found: dict[str, Any] | None = engine.find(f"/containers/{container}/json", doing="look at the box")
    return found


def cause_of_death(
    engine: Engine, container: str, image: ImageFacts, *, stage: Stage | None = None
) -> RlenvError | None:
    """Return the error that says why a container is not running; ``None`` if it is."""
    found = inspect(engine, container)
    if found is None:
        return SandboxFailed("the box is gone: somebody removed its container", stage=stage)
    state = found["State"]
    if state.get("Running"):
        return None
    code = state.get("ExitCode")
    oom = ", out of memory" if state.get("OOMKilled") else ""
    output = tail_of_log(engine, container) if image.may_end else ""
    detail = "\n".join(part for part in (state.get("Error", ""), output) if part)
    if image.service:
        error = SandboxFailed if code == _KILLED else BoxUnfit
        return error(
            f"service {image.service!r} ended with exit code {code}{oom}", detail=detail, stage=stage
        )
    if image.entrypoint:
        argv = shlex.join(image.entrypoint)
        if never := execve_failure(output.encode(), b"", code, image.entrypoint):
            message = f"the image's ENTRYPOINT cannot be executed: {never}"
            return BoxUnfit(message, hint=never.hint, detail=detail, stage=stage)
        return EntrypointExited(
            f"the image's ENTRYPOINT ended instead of running the command it was given: {argv} "
            f"(exit code {code}{oom})",
            hint='an ENTRYPOINT script must end with exec "$@"',
            detail=detail,
            stage=stage,
        )
    if code == NO_SLEEP:
        return BoxUnfit("the image has no `sleep`, which keeps a box up", detail=detail, stage=stage)
    hint = "it was killed from outside, or by the machine for want of memory" if code == 137 else ""
    return SandboxFailed(
        f"the box died: PID 1 ended with exit code {code}{oom}", hint=hint, detail=detail, stage=stage
    )


def tail_of_log(engine: Engine, container: str) -> str:
    """Return the last lines that PID 1 of a container printed."""
    output = HeadTail(_LOG_CAP)
    params = {"stdout": 1, "stderr": 1, "tail": _LOG_LINES}
    try:
        answer = engine.request(
            "GET", f"/containers/{container}/logs", params=params, doing="read the box's log"
        )
        Demultiplexer(lambda _, data: output.write(data)).feed(answer.content)
    except (EngineRefused, ValueError) as error:
        return f"(no log: {error})"
    return output.value().decode("utf-8", "replace").strip()


def start_refused(refused: EngineRefused) -> RlenvError:
    """Return the error for a container that the engine could not start."""
    low = refused.message.lower()
    if '"sh"' in low and ("executable file not found" in low or "no such file" in low):
        return BoxUnfit(
            "the image has no shell (`sh`), which a box needs",
            hint="base the image on one with a shell; distroless and scratch images cannot be used",
            detail=refused.message,
        )
    if "oci runtime create failed" in low and any(why in low for why in _NOT_EXECUTABLE):
        return BoxUnfit(
            "the image's ENTRYPOINT cannot be executed",
            hint="is it in the image, with its executable bit set and a #! line?",
            detail=refused.message,
        )
    if is_unknown_user(low):
        return BoxUnfit(
            "the image's USER does not exist in it", hint="add it in the Dockerfile", detail=refused.message
        )
    return nul_in_variable(refused.message) or refused.as_error()
