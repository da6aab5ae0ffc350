"""A server's HTTP routes: whether it is up, what its actions look like, and which tasks it has.

Its routes for episodes are not used: each request there gets a new environment.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pytest_rlenv.errors import EnvironmentFailed, SandboxFailed
from pytest_rlenv.frameworks.openenv.server import Server
from pytest_rlenv.frameworks.rewards import shown
from pytest_rlenv.verdict import number

REQUEST_SEC = 30.0
_LARGEST_ANSWER = 64 * 1024 * 1024
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
_PIECES = 3.0
"""Times the limit of a request that an answer in many pieces has."""


class NoRoute(Exception):
    """The server has no such route, or says that its environment has nothing behind it."""


class Routes:
    """Requests to one server.

    Args:
        server: which.
        seconds: for each answer.
    """

    def __init__(self, server: Server, seconds: float = REQUEST_SEC) -> None:
        from requests import Session

        self._server = server
        self._seconds = seconds
        self._session = Session()
        self._session.trust_env = not server.is_near  # no proxy stands before this machine

    def close(self) -> None:
        """Close the connection."""
        self._session.close()

    def healthy(self) -> str:
        """Return why the server is not ready; empty if it is."""
        from requests import RequestException

        address, seconds = f"{self._server.url}/health", min(5.0, self._seconds)
        try:
            with self._session.get(address, timeout=seconds, stream=True, allow_redirects=False) as answer:
                status = answer.status_code
        except RequestException as error:
            return type(error).__name__
        return "" if status == 200 else f"GET /health was answered with {status}"

    def schema(self) -> Mapping[str, Any]:
        """Return the JSON Schemas of ``action``, ``observation`` and ``state``; empty where it tells none.

        Raises:
            EnvironmentFailed, SandboxFailed: the server fails over it.
        """
        try:
            found = self.ask("GET", "/schema")
        except NoRoute:
            return {}
        return found if isinstance(found, Mapping) else {}

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the decoded answer to a request.

        Raises:
            NoRoute: 404, 405 or 501.
            EnvironmentFailed: another error, or no JSON. SandboxFailed: there is no answer.
        """
        from requests import RequestException
        from urllib3.exceptions import HTTPError

        try:
            with (
                _ended_after(self._server, self._seconds * _PIECES),
                self._session.request(
                    method,
                    f"{self._server.url}{path}",
                    json=body,
                    timeout=self._seconds,
                    stream=True,
                    allow_redirects=False,  # a server that is not trusted sends us nowhere else
                ) as answer,
            ):
                content = answer.raw.read(_LARGEST_ANSWER + 1, decode_content=True)
                status, text = answer.status_code, content.decode(errors="replace")
        except (RequestException, HTTPError, OSError) as error:
            raise self._server.failed(f"did not answer {method} {path}: {type(error).__name__}") from None
        if status in (404, 405, 501):
            raise NoRoute(path)
        if status >= 300 or len(content) > _LARGEST_ANSWER:
            raise EnvironmentFailed(
                f"{method} {path} was answered with {status}: {shown(text)}", detail=self._server.tail()
            )
        import json

        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise EnvironmentFailed(
                f"{method} {path} was not answered with JSON: {shown(text)}", detail=self._server.tail()
            ) from None


def wait_ready(server: Server, seconds: float) -> None:
    """Wait until a server is ready.

    Raises:
        SandboxFailed: it ended, or is not ready in time.
    """
    routes = Routes(server)
    try:
        with _ended_after(server, seconds + REQUEST_SEC):
            _await(server, routes, seconds)
    finally:
        routes.close()


def _await(server: Server, routes: Routes, seconds: float) -> None:
    deadline, pause, why = time.monotonic() + seconds, _FIRST_PAUSE, ""
    while True:
        ended = server.ended()
        if ended is None and not (why := routes.healthy()):
            ended = server.ended()  # who answered may be somebody else, where ours has ended over that
            if ended is None:
                return
        if ended is not None:
            raise SandboxFailed(
                f"the server ended before it was ready ({ended})",
                hint="its last lines say why",
                detail=server.tail(),
            )
        if time.monotonic() >= deadline:
            raise SandboxFailed(
                f"the server is not ready after {number(seconds)} s: {why}",
                hint=f"{server.url}/health must answer 200: is it the right port? In a container it must "
                "listen on 0.0.0.0",
                detail=server.tail(),
            )
        time.sleep(pause)
        pause = min(_LONGEST_PAUSE, pause * 1.5)


@contextmanager
def _ended_after(server: Server, seconds: float) -> Iterator[None]:
    """End a server that goes on with its answer for ever: a request's limit is one for each piece of it."""
    timer = threading.Timer(seconds, server.close)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
