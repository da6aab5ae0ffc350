"""The sandbox for who names none: Docker where an engine answers, else local boxes, else one clear error."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from pytest_rlenv.errors import EngineUnavailable
from pytest_rlenv.sandboxes.protocol import (
    Box,
    BoxSpec,
    Capabilities,
    Entry,
    ImageRef,
    ImageSpec,
    Sandbox,
    SandboxContext,
)

FIXES = (
    "1) start Docker or set DOCKER_HOST; "
    "2) pip install 'pytest-rlenv[local]' on Linux, for tasks whose Dockerfile runs nothing; "
    "3) name a sandbox of your own with --rlenv-sandbox module:Class"
)


class AutoSandbox:
    """Chooses at first use, and is what it has chosen from then on.

    Args:
        context: what it is told of the run.
    """

    def __init__(self, context: SandboxContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._chosen: Sandbox | None = None

    @property
    def name(self) -> str:
        """The chosen sandbox's name; raises EngineUnavailable if there is none to choose."""
        return self._choice().name

    def describe(self) -> str:
        """Return the chosen sandbox's description; raises EngineUnavailable if there is none to choose."""
        return self._choice().describe()

    @property
    def capabilities(self) -> Capabilities:
        """What the chosen sandbox's boxes can hold; raises EngineUnavailable if there is none to choose."""
        return self._choice().capabilities

    def check(self) -> None:
        """Raise EngineUnavailable, with what was tried and three fixes, if there is none to choose."""
        self._choice()

    def prepare(self, image: ImageSpec, *, timeout: float | None = None) -> ImageRef:
        """Prepare an image in the chosen sandbox; raises what that raises."""
        return self._choice().prepare(image, timeout=timeout)

    def start(self, image: ImageRef, spec: BoxSpec, entries: Iterable[Entry] = ()) -> Box:
        """Start a box of the chosen sandbox; raises what that raises."""
        return self._choice().start(image, spec, entries)

    def close(self) -> None:
        """Close what was chosen, if anything was."""
        with self._lock:
            chosen, self._chosen = self._chosen, None
        if chosen is not None:
            chosen.close()

    def _choice(self) -> Sandbox:
        with self._lock:
            if self._chosen is None:
                self._chosen = _choose(self._context)
            return self._chosen


def _choose(context: SandboxContext) -> Sandbox:
    """Return the first sandbox that works; an engine that refuses us is as good as none.

    Raises:
        EngineUnavailable: none does.
    """
    from pytest_rlenv.sandboxes.docker.sandbox import DockerSandbox
    from pytest_rlenv.sandboxes.local.sandbox import LocalSandbox

    reasons: list[EngineUnavailable] = []
    makers: tuple[type[DockerSandbox | LocalSandbox], ...] = (DockerSandbox, LocalSandbox)
    for maker in makers:
        sandbox = maker(context)
        try:
            sandbox.check()
        except EngineUnavailable as reason:
            sandbox.close()
            reasons.append(reason)
        else:
            return sandbox
    docker, local = reasons
    raise EngineUnavailable(
        f"no sandbox works on this machine. docker: {docker}. local: {local}",
        hint=FIXES,
        detail="\n".join(f"{name}: {reason.hint}" for name, reason in (("docker", docker), ("local", local))),
    )
