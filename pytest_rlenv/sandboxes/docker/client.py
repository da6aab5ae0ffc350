"""The connection to one engine: requests with errors that say what to do, and nothing of containers.

A Unix socket is spoken to by :mod:`~.unix_http`, any other endpoint through the ``docker`` package, which
also has the registry credentials. One pool of connections per process, for all its threads.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote, urlencode

from pytest_rlenv.errors import EngineUnavailable
from pytest_rlenv.sandboxes.docker.endpoint import Endpoint, package_client, resolve_endpoint
from pytest_rlenv.sandboxes.docker.failures import EngineRefused, connection_errors
from pytest_rlenv.sandboxes.docker.unix_http import Body, UnixAnswer, UnixHttp

if TYPE_CHECKING:
    import http.client

    from docker import APIClient
    from requests import Response

CONNECT_TIMEOUT = 10.0
"""Seconds that an engine has for its first answer; one that hangs is found out after this long."""
REQUEST_TIMEOUT = 180.0
"""Seconds of silence after which a request is given up; a loaded engine may take a minute to start a box."""
POOL_SIZE = 256
"""Connections kept open; each thread at work on a box uses one or two."""

_SAFE = "/%:@!$&'()*+,;=~"

Answer: TypeAlias = "UnixAnswer | Response"
"""An engine's answer, by whichever way it came."""


class Engine:
    """A connected engine.

    Args:
        endpoint: where it is.

    Raises:
        EngineUnavailable: nothing answers there, or it is not an engine for Linux containers.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._unix = UnixHttp(endpoint.socket_path, POOL_SIZE) if endpoint.socket_path else None
        self._version: dict[str, Any] = {}
        with connection_errors(endpoint, "connect"):
            try:
                self._version = _checked(endpoint, self._send("GET", "/version", timeout=CONNECT_TIMEOUT))
            except BaseException:
                self.close()
                raise
        self._info: dict[str, Any] | None = None

    @cached_property
    def api(self) -> APIClient:
        """The ``docker`` package's client: the way where there is no Unix socket, and the credentials."""
        return package_client(self.endpoint, timeout=CONNECT_TIMEOUT, pool_size=POOL_SIZE)

    def close(self) -> None:
        """Close the kept connections; they are opened again on use."""
        if self._unix is not None:
            self._unix.close()
        if "api" in self.__dict__:
            self.api.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        doing: str,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        data: Any = None,
        headers: Mapping[str, str] | None = None,
        stream: bool = False,
        timeout: float | None = REQUEST_TIMEOUT,
    ) -> Answer:
        """Send one request and return the answer.

        Args:
            method: the HTTP verb.
            path: path below the API version, such as ``/containers/json``.
            doing: what this is for, in the words of an error message ("cannot <doing>").
            params: query parameters.
            body: what to send as JSON.
            data: bytes, a file or an iterator of bytes to send as it is.
            headers: further headers.
            stream: leave the answer's body to be read by the caller, who closes it.
            timeout: seconds of silence after which to give up; ``None`` waits for ever.

        Raises:
            EngineUnavailable: the connection broke. EngineRefused: the answer is an error.
        """
        all_headers = dict(headers or {})
        if body is not None:
            data = json.dumps(body)
            all_headers["Content-Type"] = "application/json"
        with connection_errors(self.endpoint, doing):
            response = self._send(
                method,
                f"/v{self._version['ApiVersion']}{path}",
                params=params,
                data=data,
                headers=all_headers,
                stream=stream,
                timeout=timeout,
            )
            if response.status_code >= 400:
                with response:
                    raise EngineRefused(response.status_code, _message(response), doing)
        return response

    def _send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        data: Body = None,
        headers: Mapping[str, str] | None = None,
        stream: bool = False,
        timeout: float | None,
    ) -> Answer:
        if self._unix is None:
            url = f"{self.api.base_url}{path}"
            limits = (CONNECT_TIMEOUT, timeout)
            return self.api.request(
                method, url, params=params, data=data, headers=headers, stream=stream, timeout=limits
            )
        target = quote(path, safe=_SAFE) + (f"?{urlencode(params, doseq=True)}" if params else "")
        return self._unix.request(
            method,
            target,
            body=data,
            headers=headers,
            stream=stream,
            connect_timeout=CONNECT_TIMEOUT,
            timeout=timeout,
        )

    def get(self, path: str, *, doing: str, params: Mapping[str, Any] | None = None) -> Any:
        """Return the decoded JSON answer to a GET request; raises as :meth:`request` does."""
        return self.request("GET", path, doing=doing, params=params).json()

    def find(self, path: str, *, doing: str) -> Any:
        """Return the decoded JSON answer to a GET request, ``None`` if the engine knows no such thing."""
        try:
            return self.get(path, doing=doing)
        except EngineRefused as refused:
            if refused.status == 404:
                return None
            raise

    def info(self) -> dict[str, Any]:
        """Return what the engine says of itself and its machine; asked once."""
        if self._info is None:
            self._info = self.get("/info", doing="ask the engine about itself")
        return self._info

    def fingerprint(self) -> str:
        """Return a word for this engine that fits into names of files."""
        return hashlib.sha256(str(self.info().get("ID")).encode()).hexdigest()[:16]

    def version(self) -> str:
        """Return the engine's version without its distribution's suffix, such as ``20.10.24``."""
        return str(self._version.get("Version", "?")).split("+")[0]

    def has_buildkit(self) -> bool:
        """Return True if images can be built with BuildKit over the API.

        Docker has it since 18.09 (API 1.39), but before version 23 does not name it as the builder to use;
        other engines that speak this API do not have it unless they say so.
        """
        headers = self.request("GET", "/_ping", doing="ping the engine").headers
        if headers.get("Builder-Version") == "2":
            return True
        major, _, minor = str(self._version["ApiVersion"]).partition(".")
        return headers.get("Server", "").startswith("Docker/") and (int(major), int(minor)) >= (1, 39)


@dataclass
class Cut:
    """Whether a limited response was cut at its limit."""

    happened: bool = False


@contextmanager
def limited(response: Answer, seconds: float | None) -> Iterator[Cut]:
    """Cut the connection of a streamed response after ``seconds``, whatever it is doing; close it at the end.

    A timeout of the socket would not do: it starts anew with every byte. The engine sees the connection
    close and cancels what it does for us.
    """
    cut = Cut()
    connection = socket_of(response)

    def shut() -> None:
        cut.happened = True
        shutdown(connection)

    timer = threading.Timer(seconds, shut) if seconds is not None else None
    if timer:
        timer.daemon = True
        timer.start()
    try:
        yield cut
    finally:
        if timer:
            timer.cancel()
        response.close()


def reply_of(response: Answer) -> http.client.HTTPResponse:
    """Return the standard library's part of a streamed answer, with what was read ahead of its body."""
    raw: Any = response.raw
    reply: http.client.HTTPResponse = getattr(raw, "_fp", raw)
    return reply


def socket_of(response: Answer) -> socket.socket:
    """Return the socket that a streamed answer comes through."""
    fp: Any = reply_of(response).fp
    return fp.raw._sock  # type: ignore[no-any-return]  # http.client has no public way to it


def shutdown(connection: socket.socket) -> None:
    """End a connection under a thread that may be reading from it; a closed one is left alone."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


_engines: dict[tuple[int, Endpoint], Engine] = {}
_engines_lock = threading.Lock()


def shared_engine(endpoint: Endpoint | None = None) -> Engine:
    """Return this process's connection to an engine, made on first use; a forked child gets its own.

    Raises:
        EngineUnavailable: there is no engine to connect to.
    """
    endpoint = endpoint or resolve_endpoint()
    key = (os.getpid(), endpoint)
    with _engines_lock:
        if key not in _engines:
            _engines[key] = Engine(endpoint)
        return _engines[key]


def _checked(endpoint: Endpoint, answer: Answer) -> dict[str, Any]:
    """Return what an engine says of its version, if it is one that can be used."""
    try:
        version = answer.json()
    except ValueError:
        version = answer.text[:200]
    if not isinstance(version, dict) or "ApiVersion" not in version:
        raise EngineUnavailable(f"what answers at {endpoint} is no Docker engine: {version}")
    if version.get("Os", "linux") != "linux":
        raise EngineUnavailable(
            f"the Docker engine at {endpoint} runs {version['Os']} containers; Linux ones are needed",
            hint="switch Docker Desktop to Linux containers",
        )
    return version


def _message(response: Answer) -> str:
    try:
        return str(response.json()["message"]).strip()
    except (ValueError, KeyError, TypeError):
        return response.text.strip() or f"HTTP {response.status_code} {response.reason}"
