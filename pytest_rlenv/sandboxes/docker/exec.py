"""One command in a container, read by our own loop: with a deadline, bounded memory and separate streams.

The ``docker`` package's own reader has no deadline, and takes minutes for what this one reads in a second.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pytest_rlenv.errors import EngineUnavailable, SandboxFailed
from pytest_rlenv.sandboxes.docker.client import Engine, reply_of, socket_of
from pytest_rlenv.sandboxes.docker.failures import connection_errors
from pytest_rlenv.sandboxes.output import Demultiplexer, Output

_CHUNK = 256 * 1024
_SLICE = 0.05
_END_LIMIT = 10.0
"""Seconds that the engine has, after a command's output ended, to say how the command did."""


class Exec:
    """A command that has been started in a running container. Close it when done.

    Args:
        engine: where the container is.
        container: its id.
        argv: the command.
        user: name or id, ``None`` for the image's.
        env: further variables.
        workdir: working directory, ``None`` for the image's.
        cap: bytes to keep of each stream.

    Raises:
        EngineRefused: the engine does not start it, such as 409 for a container that is not running.
        EngineUnavailable: the connection broke.
    """

    def __init__(
        self,
        engine: Engine,
        container: str,
        argv: Sequence[str],
        *,
        user: str | int | None = None,
        env: Mapping[str, str] | None = None,
        workdir: str | None = None,
        cap: int,
    ) -> None:
        self._engine = engine
        self.argv = list(argv)
        self.output = Output(cap)
        body: dict[str, Any] = {"Cmd": self.argv, "AttachStdout": True, "AttachStderr": True}
        if user is not None:
            body["User"] = str(user)
        if env:
            body["Env"] = [f"{name}={value}" for name, value in env.items()]
        if workdir is not None:
            body["WorkingDir"] = workdir
        created = engine.request(
            "POST", f"/containers/{container}/exec", body=body, doing="run a command in the box"
        )
        self._id = created.json()["Id"]
        self._open()

    def _open(self) -> None:
        response = self._engine.request(
            "POST",
            f"/exec/{self._id}/start",
            body={"Detach": False, "Tty": False},
            headers={"Connection": "Upgrade", "Upgrade": "tcp"},
            stream=True,
            doing="run a command in the box",
        )
        self._response = response
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            self._socket: socket.socket = socket_of(response)
            self._socket.setblocking(False)
            self._demultiplexer = Demultiplexer(self.output.write)
            self._ended = False
            # the first bytes may have come with the headers, and then sit in the buffer of http.client
            ahead: Any = reply_of(response).fp
            self._feed(ahead.peek())
            undo.pop_all()

    def close(self) -> None:
        """Let go of the connection; the command itself goes on if it has not ended."""
        self._response.close()

    def pump(self, deadline: float | None) -> bool:
        """Read output until the command ends; return False if the deadline came first.

        Args:
            deadline: a time of :func:`time.monotonic`, ``None`` to wait as long as it takes.

        Raises:
            EngineUnavailable: the connection broke.
        """
        doing = "read a command's output"
        with connection_errors(self._engine.endpoint, doing), selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            return self._pump(selector, deadline)

    @contextmanager
    def drained(self) -> Iterator[None]:
        """Read output in the background: an engine that cannot get rid of it serves nothing else of the box.

        Killing a command that prints without end would wait for its own output otherwise.
        """
        done = threading.Event()

        def drain() -> None:
            with contextlib.suppress(EngineUnavailable, SandboxFailed):  # the next pump() tells
                while not done.is_set() and not self.pump(time.monotonic() + _SLICE):
                    pass

        thread = threading.Thread(target=drain, daemon=True, name="rlenv-drain")
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _pump(self, selector: selectors.BaseSelector, deadline: float | None) -> bool:
        while not self._ended:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return False
            try:
                data = self._socket.recv(_CHUNK)
            except (BlockingIOError, ssl.SSLWantReadError):
                selector.select(left)
                continue
            if data:
                self._feed(data)
            else:
                self._ended = True
        return True

    def _feed(self, data: bytes) -> None:
        try:
            self._demultiplexer.feed(data)
        except ValueError as error:
            raise SandboxFailed(f"the engine sent output that cannot be read: {error}") from error

    def result(self) -> tuple[int, bool]:
        """Return the exit code, and whether the command was started at all.

        Raises:
            EngineUnavailable: the engine does not say in time. EngineRefused: it has forgotten the command.
        """
        give_up = time.monotonic() + _END_LIMIT
        pause = 0.002
        while True:
            state = self._engine.get(f"/exec/{self._id}/json", doing="ask how a command ended")
            if not state.get("Running") and state.get("ExitCode") is not None:
                return int(state["ExitCode"]), bool(state.get("Pid"))
            if time.monotonic() > give_up:
                raise EngineUnavailable(
                    f"the Docker engine at {self._engine.endpoint} ended a command's output, "
                    f"but not the command, for {_END_LIMIT:g} s",
                    hint="`docker info`; restart the engine if this repeats",
                )
            time.sleep(pause)
            pause = min(pause * 2, 0.2)
