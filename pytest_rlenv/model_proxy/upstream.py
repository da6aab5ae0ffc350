"""The model's provider, asked with the real key."""

from __future__ import annotations

import importlib
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pytest_rlenv.model_proxy.requests import Asked, headers_to_send
from pytest_rlenv.model_proxy.wires import Wire

CONNECT_TIMEOUT = 30.0
"""Seconds for the provider to take a connection."""
READ_TIMEOUT = 900.0
"""Seconds without a byte from it: models think for long before they answer in one piece."""

_KEPT_HEADERS = frozenset({"content-type", "retry-after", "retry-after-ms", "x-should-retry", "request-id"})
_KEPT_PREFIXES = ("x-ratelimit-", "anthropic-ratelimit-", "x-request-id")


class Unreachable(Exception):
    """The provider cannot be reached, or broke off."""


@dataclass
class Answer:
    """An answer that is under way.

    Attributes:
        headers: those that the client is given.
        pieces: the body, as it comes; raises Unreachable if it breaks off.
    """

    status: int
    pieces: AsyncIterator[bytes]
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def in_events(self) -> bool:
        """True for a body of server-sent events."""
        return self.headers.get("content-type", "").partition(";")[0].strip() == "text/event-stream"


class Upstream:
    """A provider. Made and used on one event loop.

    Args:
        url_of: tells its base URL for a wire.
        key: the real key; empty for none.
        messages_key: see :class:`~pytest_rlenv.model_proxy.providers.Provider`.
    """

    def __init__(self, url_of: Callable[[Wire], str], key: str, messages_key: str = "") -> None:
        self._url_of = url_of
        self._key = key
        self._messages_key = messages_key
        self._library = http_library()
        self._client = self._library.AsyncClient(
            verify=_tls(),
            timeout=self._library.Timeout(CONNECT_TIMEOUT, read=READ_TIMEOUT, pool=None),
            limits=self._library.Limits(max_connections=None),
            follow_redirects=False,  # the key is for this address
        )

    @asynccontextmanager
    async def ask(
        self, wire: Wire, path: str, asked: Asked, headers: Mapping[str, str]
    ) -> AsyncIterator[Answer]:
        """Ask, and give the answer while it comes.

        Args:
            wire: in which form.
            path: below the base URL.
            asked: what.
            headers: the client's.

        Raises:
            Unreachable: there is no answer.
        """
        sent = {**headers_to_send(headers), **self._authorisation(wire)}
        content = json.dumps(asked.body).encode()
        base = self._url_of(wire)
        request = self._client.build_request(
            "POST", f"{base}{path}{asked.query}", content=content, headers=sent
        )
        try:
            response = await self._client.send(request, stream=True)
        except (self._library.HTTPError, OSError, ssl.SSLError) as error:
            raise Unreachable(f"{base}: {_told(error)}") from error
        try:
            kept = {
                name: value
                for name, value in response.headers.items()
                if name in _KEPT_HEADERS or name.startswith(_KEPT_PREFIXES)
            }
            yield Answer(int(response.status_code), self._pieces(base, response), kept)
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def _pieces(self, base: str, response: Any) -> AsyncIterator[bytes]:
        try:
            async for piece in response.aiter_bytes():
                yield piece
        except (self._library.HTTPError, OSError) as error:
            raise Unreachable(f"{base} broke off: {_told(error)}") from error

    def _authorisation(self, wire: Wire) -> dict[str, str]:
        if not self._key:
            return {}
        if wire is Wire.GOOGLE:
            return {"x-goog-api-key": self._key}
        if wire is Wire.MESSAGES and self._messages_key:
            return {self._messages_key: self._key}
        return {"authorization": f"Bearer {self._key}"}


def http_library() -> Any:
    """Return the HTTP client that is here: ``httpx2``, or ``httpx`` on Python 3.10, where it does not run."""
    try:
        return importlib.import_module("httpx2")
    except ImportError:
        return importlib.import_module("httpx")


@cache
def _tls() -> ssl.SSLContext:
    """One for all rollouts of the process: reading the authorities takes longer than a call."""
    found: ssl.SSLContext = http_library().create_ssl_context()
    return found


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}{f': {error}' if str(error) else ''}"
