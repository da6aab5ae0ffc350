"""The working directory of a box: that it is there, and that it is there again if the agent removed it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from pytest_rlenv.errors import AgentFailed, BoxUnfit, SandboxFailed, Stage
from pytest_rlenv.frameworks.harbor.definitions import BoxDefinition
from pytest_rlenv.frameworks.harbor.emptying import UNVERIFIABLE
from pytest_rlenv.frameworks.harbor.task import HarborTask
from pytest_rlenv.rollout import StepRecord
from pytest_rlenv.sandboxes.model import Entry
from pytest_rlenv.sandboxes.protocol import Box

T = TypeVar("T")

EXEC_TIMEOUT = 60.0
"""Seconds for a command of our own in the box."""

_ENGINE_WORKDIR = re.compile(r'chdir to cwd \("(/[^"]+)"\)')
_DOCKERFILE_WORKDIR = re.compile(r"^[ \t]*WORKDIR[ \t]+(/[^\s$]*)[ \t]*$", re.MULTILINE | re.IGNORECASE)


def check_workdir(box: Box, definition: BoxDefinition) -> None:
    """Refuse a working directory that the image does not have, before an agent can have removed it.

    Raises:
        BoxUnfit: there is none of that name.
    """
    workdir = definition.config.workdir
    if workdir is None:
        return
    where = f"[{definition.where}] workdir = {workdir!r}"
    if not workdir.startswith("/"):
        raise BoxUnfit(f"{where} is not an absolute path", hint="begin it with a slash", stage=Stage.START)
    if box.stat(workdir) is None:
        raise BoxUnfit(
            f"{where} does not exist in the image",
            hint="create it in the Dockerfile, with WORKDIR",
            stage=Stage.START,
        )


def workdir_of(box: Box, user: str | int | None = None) -> str:
    """Return the working directory that commands in the box start in."""
    return box.run(["pwd"], user=user, timeout=EXEC_TIMEOUT).stdout.decode(errors="replace").strip() or "/"


def with_workdir(box: Box, task: HarborTask, record: StepRecord, run: Callable[[], T]) -> T:
    """Run a command, in a new working directory if the agent removed the one that there was.

    Args:
        box: the agent's box.
        task: the task.
        record: where it is noted what had to be done.
        run: the command; it is run again if it could not be started.

    Raises:
        AgentFailed: the agent left the box in a state in which nothing can be verified.
        SandboxFailed: the box died, or the image is not fit to run the command.
    """
    try:
        return run()
    except SandboxFailed as error:
        workdir = _named_workdir(task, error)
        found = box.stat(workdir) if workdir else None
        if workdir is None or (found is not None and found.kind in ("directory", "symlink")):
            if isinstance(error, BoxUnfit):
                raise
            box.quiesce()  # what the agent left running may have used up the box's processes
            record.note("processes-killed", f"what the agent left running was killed: {error.message}")
            return run()
        if found is not None:
            raise AgentFailed(
                f"{UNVERIFIABLE}: the working directory {workdir} is now a {found.kind}",
                detail=str(error),
                stage=Stage.VERIFY,
            ) from error
    box.put([Entry(workdir[1:], mode=0o777)])
    record.note(
        "workdir-restored", f"the agent removed the working directory {workdir}: it is there again, empty"
    )
    return run()


def _named_workdir(task: HarborTask, error: SandboxFailed) -> str | None:
    """Return the working directory that the command should have started in, ``None`` if it is not known."""
    if task.config.environment.workdir:
        return task.config.environment.workdir
    named = _ENGINE_WORKDIR.search(error.detail)
    if named:
        return named[1]
    if task.config.environment.docker_image or task.dockerfile is None:
        return None
    found = _DOCKERFILE_WORKDIR.findall(task.dockerfile.read_text(encoding="utf-8", errors="replace"))
    return str(found[-1]) if found else None
