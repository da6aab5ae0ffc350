"""A server that is a process of this machine, and the port that it gets."""

from __future__ import annotations

import socket

from pytest_rlenv.frameworks.openenv.server import Server
from pytest_rlenv.processes.guarded import GuardedProcess


class ProcessServer(Server):
    """A server that is a process of this machine."""

    def __init__(self, process: GuardedProcess, port: int, words: str) -> None:
        super().__init__(f"http://127.0.0.1:{port}", words)
        self._process = process

    def ended(self) -> str | None:
        """Return its exit code."""
        code = self._process.exit_code
        return None if code is None else f"exit code {code}"

    def tail(self) -> str:
        """Return the end of its log."""
        return self._process.tail()

    def close(self) -> None:
        """End it with all it started."""
        self._process.close()


class reserved_port:  # noqa: N801 - it is used as a function, in a with statement
    """A free port that nobody else is given while the block runs, though a server may listen on it.

    A bound socket keeps the port from whoever asks for any; with SO_REUSEADDR on both, as servers have it,
    another socket can still listen there as long as this one does not.
    """

    def __enter__(self) -> int:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        return int(self._socket.getsockname()[1])

    def __exit__(self, *_: object) -> None:
        self._socket.close()
