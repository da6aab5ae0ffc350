"""Chooses the sandbox of a run that names none: Docker where an engine answers, else this machine's userland.

The userland only if that is the same to everything in the run: where something needs the image that its
Dockerfile starts from, the run is refused before anything is started. Nothing is ever run weaker in silence.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from pytest_rlenv.errors import BuildFailed, EngineUnavailable, TaskInvalid, Unsupported
from pytest_rlenv.sandboxes.loading import DOCKER, LOCAL_HOST, create
from pytest_rlenv.sandboxes.model import BuildOptions, ImageSpec, SandboxContext
from pytest_rlenv.sandboxes.protocol import Sandbox

EXPLICIT = ("DOCKER_HOST", "DOCKER_CONTEXT")
"""Variables that name an engine: who sets one wants that one, and no other sandbox."""

_OWN = "bring a sandbox of your own: --rlenv-sandbox module:Class"

SHOWN = 3
"""How many of those that need an image are named in a message."""


class Need(NamedTuple):
    """What somebody in the run needs of a sandbox.

    Attributes:
        who: the name for messages.
        images: what their boxes start from.
        refusal: why they need a container engine whatever the images are; empty if they do not.
    """

    who: str
    images: Sequence[ImageSpec] = ()
    refusal: str = ""


class Choice(NamedTuple):
    """The chosen sandbox, and the name by which other processes make theirs."""

    name: str
    sandbox: Sandbox


def choose(
    context: SandboxContext,
    needs: Callable[[], Iterable[Need]],
    *,
    environ: Mapping[str, str] | None = None,
    make: Callable[[str, SandboxContext], Sandbox] = create,
    platform: str = sys.platform,
) -> Choice:
    """Return the sandbox to use.

    Args:
        context: of the run.
        needs: tells what everybody in the run needs; asked only where no engine answers.
        environ: where an engine may be named.
        make: makes a sandbox by its name.
        platform: as in ``sys.platform``.

    Raises:
        EngineUnavailable: the engine that the user named does not answer; or none does, and this machine's
            userland will not do, with what was tried and what to do.
    """
    docker = _working(DOCKER, context, make)
    if not isinstance(docker, EngineUnavailable):
        return Choice(DOCKER, docker)
    if named := _named_engine(os.environ if environ is None else environ):
        also = f"{named} names this engine, so nothing else is tried: unset {named} for that"
        raise EngineUnavailable(
            docker.message, hint="; ".join(filter(None, (docker.hint, also))), detail=docker.detail
        )
    linux = platform.startswith("linux")
    local = _working(LOCAL_HOST, context, make) if linux else _not_here(platform)
    if isinstance(local, EngineUnavailable):
        raise _nothing_works(docker, local, linux=linux)
    try:
        everybody = list(needs())
        refusals = [(need.who, reason) for need in everybody if (reason := _refusal(need))]
    except BaseException:
        local.close()
        raise
    if refusals:
        local.close()
        raise _images_needed(docker, refusals, len(everybody))
    return Choice(LOCAL_HOST, local)


def _working(
    name: str, context: SandboxContext, make: Callable[[str, SandboxContext], Sandbox]
) -> Sandbox | EngineUnavailable:
    """Return the sandbox of that name, or why it cannot start boxes."""
    sandbox = make(name, context)
    try:
        sandbox.check()
    except EngineUnavailable as reason:
        sandbox.close()
        return reason
    return sandbox


def _not_here(platform: str) -> EngineUnavailable:
    """Return why there are no local boxes on such a system, whose modules cannot even be imported there."""
    return EngineUnavailable(
        f"it needs Linux namespaces, which {platform} does not have",
        hint="a container engine is needed here: Docker Desktop, colima, OrbStack or podman machine",
    )


def _named_engine(environ: Mapping[str, str]) -> str | None:
    return next((name for name in EXPLICIT if environ.get(name, "").strip()), None)


def _refusal(need: Need) -> str:
    """Return why this machine's userland will not do; empty if it will.

    What cannot be read at all is no reason: it is an error of its own, wherever it is run.
    """
    if need.refusal:
        return need.refusal
    from pytest_rlenv.sandboxes.local.recipe import BUILT_OTHERWISE, check_recipe
    from pytest_rlenv.sandboxes.local.userland import is_writable

    for image in need.images:
        if image.context is None:
            return f"it starts from the prebuilt image {image.name}"
        if image.options != BuildOptions():
            return BUILT_OTHERWISE
        try:
            check_recipe(image.context, is_writable)
        except Unsupported as reason:
            return reason.reason
        except (BuildFailed, TaskInvalid, OSError):
            continue
    return ""


def _nothing_works(docker: EngineUnavailable, local: EngineUnavailable, *, linux: bool) -> EngineUnavailable:
    without = "for tasks that need no image: " if linux else ""
    fixes = [_start(docker), f"{without}{local.hint}", _OWN]
    return EngineUnavailable(
        "no sandbox works on this machine, so nothing was started",
        detail="\n".join((f"docker: {docker.message}", f"local: {local.message}")),
        hint=_numbered(fixes),
    )


def _images_needed(
    docker: EngineUnavailable, refusals: Sequence[tuple[str, str]], total: int
) -> EngineUnavailable:
    count = len(refusals)
    lines = [
        f"docker: {docker.message}",
        f"local: an image is needed by {count} of {total} {_tasks(total)}:",
        *(f"    {who}: {reason}" for who, reason in refusals[:SHOWN]),
    ]
    if count > SHOWN:
        lines.append(f"    and {count - SHOWN} more")
    fixes = [_start(docker)]
    if count < total:
        fixes += [
            f"run the {total - count} that need no image, and skip the others: --rlenv-sandbox local",
            "select tasks that need no image: --rlenv-task GLOB",
        ]
    else:
        fixes.append(_OWN)
    return EngineUnavailable(
        f"no Docker engine answers, and {count} of {total} {_tasks(total)} cannot run without one; "
        "nothing was started",
        detail="\n".join(lines),
        hint=_numbered(fixes),
    )


def _start(docker: EngineUnavailable) -> str:
    return f"have a Docker engine: {docker.hint or 'start it'}; or set DOCKER_HOST to one elsewhere"


def _tasks(count: int) -> str:
    return "task" if count == 1 else "tasks"


def _numbered(fixes: Iterable[str]) -> str:
    return "\n".join(f"{number}) {fix}" for number, fix in enumerate(fixes, 1))
