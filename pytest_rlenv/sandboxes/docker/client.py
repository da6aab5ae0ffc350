"""The connection to one engine: requests with errors that say what to do, and nothing of containers.

The transport, the choice of the API version and the registry credentials are those of the ``docker``
package. One connection per process, for all its threads.
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
from typing import TYPE_CHECKING, Any

from pytest_rlenv.errors import EngineUnavailable
from pytest_rlenv.sandboxes.docker.endpoint import Endpoint, resolve_endpoint
from pytest_rlenv.sandboxes.docker.failures import EngineRefused, connection_errors

if TYPE_CHECKING:
    from docker import APIClient
    from requests import Response

CONNECT_TIMEOUT = 10.0
"""Seconds that an engine has for its first answer; one that hangs is found out after this long."""
REQUEST_TIMEOUT = 180.0
"""Seconds of silence after which a request is given up; a loaded engine may take a minute to start a box."""
POOL_SIZE = 256
"""Connections kept open; each thread at work on a box uses one or two."""


class Engine:
    """A connected engine.

    Args:
        endpoint: where it is.

    Raises:
        EngineUnavailable: nothing answers there, or it is not an engine for Linux containers.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        with connection_errors(endpoint, "connect"):
            self.api, self._version = _connect(endpoint)
        self._info: dict[str, Any] | None = None

    def close(self) -> None:
        """Close the kept connections; they are opened again on use."""
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
    ) -> Response:
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
            response = self.api.request(
                method,
                f"{self.api.base_url}/v{self._version['ApiVersion']}{path}",
                params=params,
                data=data,
                headers=all_headers,
                stream=stream,
                timeout=(CONNECT_TIMEOUT, timeout),
            )
            if response.status_code >= 400:
                with response:
                    raise EngineRefused(response.status_code, _message(response), doing)
        return response

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
def limited(response: Response, seconds: float | None) -> Iterator[Cut]:
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


def socket_of(response: Response) -> socket.socket:
    """Return the socket that a streamed response comes through."""
    raw: Any = response.raw
    return raw._fp.fp.raw._sock  # type: ignore[no-any-return]  # http.client has no public way to it


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


def _connect(endpoint: Endpoint) -> tuple[APIClient, dict[str, Any]]:
    """Return a client and what the engine says of its version."""
    from docker import APIClient
    from docker.constants import MINIMUM_DOCKER_API_VERSION
    from docker.tls import TLSConfig

    if endpoint.socket_path:
        _try_socket(endpoint.socket_path)
    tls: Any = False
    if endpoint.tls:
        files = endpoint.tls
        pair = (files.cert, files.key) if files.cert and files.key else None
        tls = TLSConfig(client_cert=pair, ca_cert=files.ca or None, verify=files.verify)
    # docker's stub says int, but the value goes to requests, which takes fractions
    timeout: Any = CONNECT_TIMEOUT
    # any version will do: with one given, nothing is sent yet, and a client that fails can be closed
    client = APIClient(
        endpoint.url, version=MINIMUM_DOCKER_API_VERSION, timeout=timeout, tls=tls, max_pool_size=POOL_SIZE
    )
    if endpoint.socket_path:
        client.trust_env = False  # proxies and netrc mean nothing on a Unix socket, and are read per request
    try:
        version = client.version(api_version=False)
        if "ApiVersion" not in version:
            raise EngineUnavailable(f"what answers at {endpoint} is no Docker engine: {version}")
        if version.get("Os", "linux") != "linux":
            raise EngineUnavailable(
                f"the Docker engine at {endpoint} runs {version['Os']} containers; Linux ones are needed",
                hint="switch Docker Desktop to Linux containers",
            )
    except BaseException:
        client.close()
        raise
    return client, version


def _try_socket(path: str) -> None:
    """Raise the plain OSError of a socket that cannot be connected to; the library would leak it open."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as attempt:
        attempt.settimeout(CONNECT_TIMEOUT)
        attempt.connect(path)


def _message(response: Response) -> str:
    try:
        return str(response.json()["message"]).strip()
    except (ValueError, KeyError, TypeError):
        return response.text.strip() or f"HTTP {response.status_code} {response.reason}"
