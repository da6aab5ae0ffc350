"""One session with a server over its WebSocket ``/ws``: the only place where OpenEnv has episodes.

Its HTTP routes ``/reset`` and ``/step`` make a new environment for each request. The protocol has no time
limits of its own, so all of them are kept here; a session that ran into one cannot be used any more, and
neither can its server, whose step may still be running.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pytest_rlenv.agents.ending import AgentTimedOut
from pytest_rlenv.errors import EnvironmentFailed, SandboxFailed, SpecError, Stage, StageTimeout
from pytest_rlenv.frameworks.openenv.frame_log import FrameLog
from pytest_rlenv.frameworks.openenv.frames import (
    OF_THE_SERVER,
    Answer,
    ErrorFrame,
    Frame,
    read_answer,
    read_observation,
)
from pytest_rlenv.frameworks.openenv.server import Server
from pytest_rlenv.frameworks.rewards import shown
from pytest_rlenv.verdict import number

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

LARGEST_FRAME = 100 * 1024 * 1024
"""Bytes of a frame that OpenEnv's own client takes."""
INSTALL = "pip install 'pytest-rlenv[openenv]'"

OLDEST_CLIENT = 15
"""The first version of websockets whose client is told which proxy to use."""

RESET = "reset"
CLOSED = "CLOSED"
"""Said of a server that closed the connection without an answer: a refusal may have been lost with it."""

_CONNECT_SEC = 10.0
_LAST_SEC = 10.0
_CLOSE_SEC = 2.0
_TOO_BIG = 1009
"""The code with which our side closes a connection whose frame is too large."""
_MAY_BLOCK = 32 * 1024
"""Bytes that always fit into a socket's buffer; what is larger may block when it is sent."""


class Refused(Exception):
    """The server has no session for us; the message is its own."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def check_installed() -> None:
    """See that there is a client for WebSockets.

    Raises:
        SpecError: there is none, with the command that installs it.
    """
    try:
        from websockets.version import version

        if int(version.partition(".")[0]) < OLDEST_CLIENT:
            raise ImportError(version)
    except ImportError:
        needed = f"OpenEnv's environments need the package websockets {OLDEST_CLIENT} or later"
        raise SpecError(needed, hint=INSTALL) from None


class Session:
    """A connection with an environment object of its own behind it.

    Args:
        server: where.
        log: gets all frames.
        step_sec: seconds for each answer.
        until: on the monotonic clock, when the whole episode's time is up.

    Raises:
        Refused: the server has no session free.
        SandboxFailed: it cannot be reached. EnvironmentFailed: it has no ``/ws``.
    """

    def __init__(self, server: Server, log: FrameLog, *, step_sec: float, until: float) -> None:
        self._server = server
        self._log = log
        self._step_sec = step_sec
        self.until = until
        self._abandoned = False
        self._open = contextlib.ExitStack()
        self._connection = self._connect()
        self.seen: Mapping[str, Any] = {}
        """The content of the last frame."""

    def reset(self, arguments: Mapping[str, Any]) -> Frame:
        """Begin an episode.

        Raises:
            Refused: the server has no session free.
            ErrorFrame: it answered with an error. RewardInvalid: with a reward that is none.
            EnvironmentFailed, SandboxFailed, StageTimeout, AgentTimedOut: there is no answer to use.
        """
        return read_observation(self._ask({"type": "reset", "data": dict(arguments)}, RESET), RESET)

    def step(self, action: Mapping[str, Any]) -> Frame:
        """Take an action; raises as :meth:`reset` does."""
        return read_observation(self._ask({"type": "step", "data": dict(action)}, "a step"), "a step")

    def state(self) -> Mapping[str, Any]:
        """Return the episode's state; raises as :meth:`reset` does."""
        answer = self._ask({"type": "state"}, "state")
        if answer.type != "state":
            raise EnvironmentFailed(f"the server answered `state` with a frame of type {shown(answer.type)}")
        return answer.data

    def check_in_step(self) -> None:
        """See that each frame had one answer: with one too many, rewards were taken for those of other steps.

        A state is asked for, which comes after all that is still on its way. What else is wrong by now is of
        no concern any more.

        Raises:
            EnvironmentFailed: the answer is one to an earlier frame.
        """
        from websockets.exceptions import ConnectionClosed

        if self._abandoned or time.monotonic() >= self.until:
            return
        frame = {"type": "state"}
        self._log.sent(frame)
        try:
            self._connection.send(json.dumps(frame))
            came = self._connection.recv(min(_LAST_SEC, self._step_sec))
            self._log.received(came)
            answer = read_answer(came)
        except TimeoutError:
            self._server.spoil()  # whatever it does may go on
            return
        except (ConnectionClosed, ErrorFrame, EnvironmentFailed):
            return
        if answer.type != "state":
            raise EnvironmentFailed(
                f"the server has answered more than it was asked: a frame of type {shown(answer.type)} came "
                "when the episode was over",
                hint="each frame has one answer; with more it is not known which reward is whose",
                detail=self._server.tail(),
            )

    def close(self) -> None:
        """Say good-bye; what goes wrong is of no concern any more."""
        with contextlib.suppress(Exception):
            self._connection.send(json.dumps({"type": "close"}))
        with contextlib.suppress(Exception):
            self._open.close()

    def _connect(self) -> ClientConnection:
        from websockets.exceptions import InvalidHandshake
        from websockets.sync.client import connect

        left = max(0.1, min(_CONNECT_SEC, self.until - time.monotonic()))
        try:
            connection = connect(
                f"{self._server.url.replace('http', 'ws', 1)}/ws",
                open_timeout=left,
                close_timeout=_CLOSE_SEC,
                max_size=LARGEST_FRAME,
                compression=None,
                ping_interval=None,  # an environment may think for long; the limits are ours
                proxy=None if self._server.is_near else True,
            )
            return self._open.enter_context(connection)
        except InvalidHandshake as error:
            raise EnvironmentFailed(
                f"the server at {self._server.url} has no WebSocket /ws: {error}",
                hint="episodes of OpenEnv are played over /ws; its HTTP /reset and /step have no memory",
                detail=self._server.tail(),
            ) from None
        except (OSError, TimeoutError) as error:
            raise self._server.failed(f"cannot be reached: {error or 'no answer'}") from None

    def _ask(self, frame: dict[str, Any], doing: str) -> Answer:
        from websockets.exceptions import ConnectionClosed

        text = json.dumps(frame)
        self._log.sent(frame)
        limit = time.monotonic() + self._step_sec
        until = min(limit, self.until)
        try:
            with self._unblocked(len(text), until), contextlib.suppress(ConnectionClosed):
                self._connection.send(text)  # who refuses us may be gone by now, and has said why
            came = self._connection.recv(max(0.0, until - time.monotonic()))
        except TimeoutError:
            raise self._late(doing, limit) from None
        except ConnectionClosed as closed:
            if closed.sent is not None and closed.sent.code == _TOO_BIG:
                raise self._too_big(doing) from None
            if time.monotonic() >= until:
                raise self._late(doing, limit) from None
            if doing == RESET and self._server.ended() is None:
                raise Refused(CLOSED, f"the connection was closed: {closed}") from None
            raise self._server.failed(f"closed the connection at {doing}: {closed}") from None
        self._log.received(came)
        return self._read(came, doing)

    def _too_big(self, doing: str) -> EnvironmentFailed:
        return EnvironmentFailed(
            f"the server's answer to {doing} is larger than {LARGEST_FRAME} bytes, as OpenEnv's own client "
            "would not take it either",
            hint="have the environment show less, or name a file instead",
            detail=self._server.tail(),
        )

    def _late(self, doing: str, limit: float) -> Exception:
        """Return the error for an answer that did not come in time."""
        self._server.spoil()
        self._abandon()
        if self.until < limit:
            return AgentTimedOut()
        return StageTimeout(
            f"the environment has not answered {doing} within {number(self._step_sec)} s",
            hint="--rlenv-openenv-step-timeout gives it more",
            detail=self._server.tail(),
            stage=Stage.AGENT,
        )

    def _read(self, came: str | bytes, doing: str) -> Answer:
        try:
            answer = read_answer(came)
        except ErrorFrame as error:
            if error.code in OF_THE_SERVER and doing == RESET:
                raise Refused(error.code, error.message) from None
            if error.code in OF_THE_SERVER:
                raise self._server.failed(f"ended the session at {doing}: {error}") from None
            raise
        except EnvironmentFailed as error:
            error.detail = error.detail or self._server.tail()
            raise
        self.seen = answer.data
        return answer

    @contextmanager
    def _unblocked(self, size: int, until: float) -> Iterator[None]:
        """Cut the connection when time is up, while something large is sent to a server that may not read."""
        timer = (
            threading.Timer(max(0.0, until - time.monotonic()), self._abandon) if size > _MAY_BLOCK else None
        )
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()

    def _abandon(self) -> None:
        """Cut the connection without a word."""
        import socket

        self._abandoned = True
        with contextlib.suppress(OSError):
            self._connection.socket.shutdown(socket.SHUT_RDWR)


def no_session(refused: Refused, seconds: float, server: Server) -> SandboxFailed:
    """Return the error for a server that had no session free for so long."""
    return SandboxFailed(
        f"the server at {server.url} has no session for this rollout ({refused.code}: {refused.message}), "
        f"asked for {number(seconds)} s",
        hint="does another run use the server? it takes as many sessions as its environment allows",
        detail=server.tail(),
    )
