"""What one container reaches, and how that changes while it runs.

``public`` is the engine's default bridge, anything else is no network at all; an allowlist is that with a
gate. So no network of the engine is ever made here, and none can be left over.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_rlenv.errors import SandboxFailed, Unsupported
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.failures import EngineRefused
from pytest_rlenv.sandboxes.docker.handover import Handover, failure
from pytest_rlenv.sandboxes.docker.postmortem import inspect
from pytest_rlenv.sandboxes.model import ALLOWLIST, PUBLIC, BoxSpec, Entry
from pytest_rlenv.sandboxes.network.policy import Policy
from pytest_rlenv.sandboxes.network.variables import LISTENER_PORT, PORT, proxy_variables
from pytest_rlenv.sandboxes.owners import Owner

if TYPE_CHECKING:
    from pytest_rlenv.sandboxes.network.gate import Gate

BRIDGE, NONE = "bridge", "none"
FOLDER = "gates"
"""The folder below the cache with one folder for each box that has a gate."""


class BoxNetwork:
    """The network of one container, from before it exists to its end.

    Args:
        engine: where the container is.
        spec: how the box was asked for.
        cache_dir: where a gate's folder goes; ``None`` for a network that somebody else has made and keeps.
    """

    def __init__(self, engine: Engine, spec: BoxSpec, cache_dir: Path | None) -> None:
        self._engine = engine
        self._spec = spec
        self._mode = spec.network
        self._policy = Policy.of(spec.network, spec.allowed_hosts)
        self._container = ""
        self._gate: Gate | None = None
        self._lock = threading.Lock()
        self._handover: Handover | None = None
        self._ours = cache_dir is not None
        ports = [PORT] if ALLOWLIST in {spec.network, *spec.later_networks} else []
        ports += [LISTENER_PORT] if spec.take_listener is not None else []
        if cache_dir is not None and ports:
            self._handover = Handover(cache_dir / FOLDER, str(engine.info()["Architecture"]), ports)

    def variables(self) -> dict[str, str]:
        """Return what a command needs to see now, but for what the box's own variables say."""
        found = proxy_variables(self._mode, self._spec.network)
        return {name: value for name, value in found.items() if name not in self._spec.env}

    @property
    def mounts(self) -> list[dict[str, Any]]:
        """What the container has mounted for its gate."""
        return [self._handover.mount] if self._handover is not None else []

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What the container needs in it for its gate, before it starts."""
        return self._handover.entries if self._handover is not None else ()

    def entrypoint(self, own: Sequence[str]) -> dict[str, Any]:
        """Return the container's ENTRYPOINT as a field for the engine: none, to keep the image's ``own``."""
        return {"Entrypoint": self._handover.entrypoint(own)} if self._handover is not None else {}

    def start(self, container: str, look: Callable[[], None], *, again: bool = False) -> None:
        """Start the container, for the first time or again, serve its gate, and hand on its listener.

        Args:
            container: its id.
            look: raises what happened to a container that has ended.
            again: True for a container that has run before.

        Raises:
            SandboxFailed: the gate was not opened, or the container has more of a network than it should.
            EngineRefused, EngineUnavailable: the engine does not start it. Whatever ``look`` raises.
        """
        with self._lock:
            self._container = container
            if again and self._state().get("Running"):
                return  # another thread has started it
            if self._handover is not None:
                self._handover.expect()
            doing = "start the box again" if again else "start the box"
            self._engine.request("POST", f"/containers/{container}/start", doing=doing)
            if self._handover is not None:
                self._serve(self._handover, look)
            if self._ours and (again or self._spec.later_networks):
                self._check()

    def set(self, mode: str, allowed_hosts: Iterable[str]) -> None:
        """See :meth:`pytest_rlenv.sandboxes.protocol.Box.set_network`.

        Raises:
            Unsupported, SandboxFailed, ValueError: as there.
            EngineRefused, EngineUnavailable: the engine does not do it.
        """
        if mode not in {self._spec.network, *self._spec.later_networks}:
            raise Unsupported(f"the box was not made ready for network mode {mode!r}")
        policy = Policy.of(mode, allowed_hosts)
        with self._lock:
            if (mode, policy) == (self._mode, self._policy):
                return
            before, self._mode, self._policy = self._mode, mode, policy
            if self._gate is not None:
                self._gate.set_policy(policy)
            if (before == PUBLIC) != (mode == PUBLIC):
                old, new = (BRIDGE, NONE) if before == PUBLIC else (NONE, BRIDGE)
                self._plug("disconnect", old)
                self._plug("connect", new)
            self._check()

    def take_denied(self) -> dict[str, int]:
        """Return what the gate has refused since last asked."""
        return self._gate.take_denied() if self._gate is not None else {}

    def close(self) -> None:
        """Close the gate, and remove its folder; may be called twice."""
        if self._gate is not None:
            self._gate.close()
        if self._handover is not None:
            self._handover.close()

    def _serve(self, handover: Handover, look: Callable[[], None]) -> None:
        def look_for_the_gate_first() -> None:
            state = self._state()
            failed = None if state.get("Running", True) else failure(int(state.get("ExitCode", 0)))
            if failed:
                raise failed
            look()

        listeners = handover.receive(look_for_the_gate_first)
        if (own := listeners.pop(LISTENER_PORT, None)) is not None and self._spec.take_listener is not None:
            self._spec.take_listener(own)
        if PORT in listeners:
            self._serve_gate(listeners[PORT])

    def _serve_gate(self, listener: socket.socket) -> None:
        if self._gate is None:
            from pytest_rlenv.sandboxes.network.gate import Gate  # and with it asyncio, which few boxes need

            self._gate = Gate(listener, self._policy)
        else:
            self._gate.replace_listener(listener)

    def _state(self) -> dict[str, Any]:
        return (inspect(self._engine, self._container) or {}).get("State") or {}

    def _plug(self, verb: str, network: str) -> None:
        doing = "change the box's network"
        try:
            self._engine.request(
                "POST", f"/networks/{network}/{verb}", body={"Container": self._container}, doing=doing
            )
        except EngineRefused as refused:
            # somebody else was faster, which _check() sees
            if not ("is not connected to" in refused.message or "already exists in" in refused.message):
                raise

    def _check(self) -> None:
        """Raise SandboxFailed if the engine's word is not that the container has what it should."""
        found = inspect(self._engine, self._container)
        networks = set(((found or {}).get("NetworkSettings") or {}).get("Networks") or {})
        held = networks == {BRIDGE} if self._mode == PUBLIC else networks <= {NONE}
        if found is not None and not held:
            raise SandboxFailed(
                f"the box's network should be {self._mode}, but the engine has it on "
                f"{', '.join(sorted(networks)) or 'nothing'}",
                hint="did somebody change the container's networks?",
            )


def sweep_folders(cache_dir: Path) -> int:
    """Remove the folders of gates whose process is gone, and return of how many."""
    removed = 0
    with contextlib.suppress(OSError):
        for folder in (cache_dir / FOLDER).iterdir():
            owner = Owner.parse(folder.name)
            if owner is not None and owner.is_gone():
                shutil.rmtree(folder, ignore_errors=True)
                removed += 1
    return removed
