"""How a box gives us listening sockets: through a folder that both see, empty but for that moment.

The folder is the only one of this machine that a box ever sees, and only a box with a gate, or with a
listener for its owner, does. It is read-only there; in it is one Unix socket while we wait at its other end,
and nothing otherwise. What waits takes one listening socket for each port and goes.
"""

from __future__ import annotations

import contextlib
import os
import platform
import select
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pytest_rlenv.errors import SandboxFailed, Unsupported
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.failures import EngineRefused
from pytest_rlenv.sandboxes.docker.gate_program import ASSEMBLERS, failed_step, gate_program
from pytest_rlenv.sandboxes.model import Entry
from pytest_rlenv.sandboxes.network.listeners import LIMIT, receive_listener
from pytest_rlenv.sandboxes.network.variables import LISTENER_PORT, PORT
from pytest_rlenv.sandboxes.owners import Owner

FOLDER = "/.rlenv"
"""Where a box sees the folder."""

_NAME = "gate"
_PROGRAMS = {PORT: "/.rlenv-gate", LISTENER_PORT: "/.rlenv-listener"}
_FAILED = 100
_LOOK = 0.1
_OPEN = f"{{}} || exit $(({_FAILED} + $?)); "


class Handover:
    """One box's way to hand over its sockets, for as long as the box lives.

    Args:
        base: folder for such folders; made if need be.
        architecture: the engine's.
        ports: where the sockets listen: :data:`PORT`, :data:`LISTENER_PORT`, or both.

    Raises:
        SandboxFailed: the folder cannot be made.
    """

    def __init__(self, base: Path, architecture: str, ports: Sequence[int] = (PORT,)) -> None:
        self.ports = tuple(ports)
        self.folder = base / Owner.me().new_name()
        with _as_failure(self.folder):
            base.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o755)
            self.folder.chmod(0o755)  # whatever the umask: the image's user must get through
        self.entries = tuple(
            Entry(_PROGRAMS[port][1:], gate_program(architecture, port, f"{FOLDER}/{_NAME}"), mode=0o755)
            for port in ports
        )
        self._server: socket.socket | None = None

    @property
    def mount(self) -> dict[str, Any]:
        """The folder as one of the engine's mounts."""
        return {"Type": "bind", "Source": str(self.folder), "Target": FOLDER, "ReadOnly": True}

    def expect(self) -> None:
        """Wait for the box's sockets from now on.

        Raises:
            SandboxFailed: the folder cannot hold a socket.
        """
        self._end()
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with contextlib.ExitStack() as undo, _as_failure(self.folder):
            undo.callback(server.close)
            folder = os.open(self.folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                # by its descriptor, as the path of a Unix socket must be short
                server.bind(f"/proc/self/fd/{folder}/{_NAME}")
            finally:
                os.close(folder)
            (self.folder / _NAME).chmod(0o666)
            server.listen(len(self.ports))
            undo.pop_all()
        self._server = server

    def receive(self, look: Callable[[], None]) -> dict[int, socket.socket]:
        """Return the box's listening sockets, by their ports.

        Args:
            look: raises what happened to a box that ended meanwhile.

        Raises:
            SandboxFailed: one did not come, or something else did.
        """
        assert self._server is not None, "expect() comes first"
        found: dict[int, socket.socket] = {}
        try:
            for port in self.ports:  # the programs run one after another, in this order
                with _accept(self._server, look) as link:
                    found[port] = receive_listener(link)
        except BaseException:
            for listener in found.values():
                listener.close()
            raise
        finally:
            self._end()
        return found

    def entrypoint(self, own: Sequence[str]) -> list[str]:
        """Return an ENTRYPOINT that opens the sockets, and becomes the image's own before that runs."""
        script = "".join(_OPEN.format(_PROGRAMS[port]) for port in self.ports)
        return ["sh", "-c", f'{script}exec "$@"', "rlenv-gate", *own]

    def close(self) -> None:
        """Remove the folder; may be called twice."""
        self._end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
            with contextlib.suppress(OSError):
                (self.folder / _NAME).unlink()


@contextmanager
def _as_failure(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SandboxFailed(
            f"no socket for the gate of a box can be made in {folder}: {error.strerror or error}",
            hint="set RLENV_CACHE to a folder on a local disk with space left",
        ) from error


def failure(exit_code: int) -> SandboxFailed | None:
    """Return the error for a box that ended with this exit code, if that is one of a gate not opened."""
    if not _FAILED < exit_code < _FAILED + 28:
        return None
    step = failed_step(exit_code - _FAILED)
    return SandboxFailed(
        f"the box could not open its gate to this process: it failed to {step}",
        hint="SELinux or AppArmor may forbid a container to connect to a socket of this machine",
    )


def not_shared(refused: EngineRefused) -> Unsupported | None:
    """Return the skip for an engine that refused a box as it does not see the gate's folder."""
    if "bind source path does not exist" not in refused.message:
        return None
    return Unsupported(
        "a gate to allowed hosts or to a model: the Docker engine does not see this machine's folders "
        "(if this runs in a container too: mount its cache folder from the host, at the same path)"
    )


def impediment(engine: Engine) -> str:
    """Return why boxes of this engine cannot hand over a socket; empty if there is no reason to think so."""
    info = engine.info()
    if not sys.platform.startswith("linux") or engine.endpoint.socket_path is None:
        return "the Docker engine is not on this machine, or in a virtual machine of it"
    if info.get("KernelVersion") != platform.release():
        return "the Docker engine runs on another kernel than this machine's"
    if info.get("Architecture") not in ASSEMBLERS:
        return f"the Docker engine's processor is {info.get('Architecture')}"
    return ""


def _accept(server: socket.socket, look: Callable[[], None]) -> socket.socket:
    give_up = time.monotonic() + LIMIT
    poll = select.poll()
    poll.register(server, select.POLLIN)
    while not poll.poll(_LOOK * 1000):
        look()
        if time.monotonic() > give_up:
            raise SandboxFailed(f"the box did not open its gate within {LIMIT:g} s")
    link, _ = server.accept()
    return link
