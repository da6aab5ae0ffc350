"""HTTP as a program in a box speaks it: requests one after another, answers whole or in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

import h11

from pytest_rlenv.sandboxes.network.stream import Stream

MOST_BODY = 64 * 1024 * 1024
"""Bytes of a request that are taken: a long talk with pictures in it."""

_MOST_HEAD = 64 * 1024
_LINGER_BYTES = 1024 * 1024


class Request(NamedTuple):
    """A request.

    Attributes:
        target: path and query.
        headers: by their names in small letters; of several by one name the last.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


class Responder:
    """Answers one request."""

    def __init__(self, connection: h11.Connection, client: Stream) -> None:
        self._connection = connection
        self._client = client
        self.begun = False
        """True once a status has been sent."""

    async def whole(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Send an answer in one piece; JSON, unless the headers say otherwise."""
        found = {"content-type": "application/json", **(headers or {}), "content-length": str(len(body))}
        await self.begin(status, found)
        await self.data(body)
        await self.end()

    async def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Send status and headers; the body follows in pieces."""
        self.begun = True
        await self._send(h11.Response(status_code=status, headers=list(headers.items())))

    async def data(self, data: bytes) -> None:
        """Send a piece of the body."""
        if data:
            await self._send(h11.Data(data=data))

    async def end(self) -> None:
        """Say that the body is complete."""
        await self._send(h11.EndOfMessage())

    async def _send(self, event: h11.Event) -> None:
        data = self._connection.send(event)
        if data:
            await self._client.send(data)


Handler = Callable[[Request, Responder], Awaitable[None]]


class _TooLong(Exception):
    """A body is longer than is taken."""


async def serve_http(client: Stream, handle: Handler) -> None:
    """Serve one connection to its end; nothing that a client does raises.

    Args:
        client: the connection.
        handle: answers a request; it is cancelled when the client goes away.
    """
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_MOST_HEAD)
    try:
        while True:
            request = await _next_request(connection, client)
            if request is None or not await _answer(connection, client, request, handle):
                return
            connection.start_next_cycle()
    except _TooLong:
        await _refuse(connection, client, 413, f"a request is longer than {MOST_BODY} bytes")
    except h11.RemoteProtocolError as error:
        await _refuse(connection, client, error.error_status_hint, str(error))
    except (h11.LocalProtocolError, OSError):
        pass  # the client went away, or an answer broke off


async def _next_request(connection: h11.Connection, client: Stream) -> Request | None:
    head: h11.Request | None = None
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            if connection.they_are_waiting_for_100_continue:
                go_on = connection.send(h11.InformationalResponse(status_code=100, headers=[]))
                await client.send(go_on or b"")
            connection.receive_data(await client.read())
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > MOST_BODY:
                raise _TooLong
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
            return Request(head.method.decode("ascii"), head.target.decode("latin-1"), headers, bytes(body))
        else:
            return None  # nothing more comes


async def _answer(connection: h11.Connection, client: Stream, request: Request, handle: Handler) -> bool:
    """Answer a request; False if the connection is of no more use."""
    answering = asyncio.ensure_future(handle(request, Responder(connection, client)))
    gone = asyncio.ensure_future(client.hung_up())
    try:
        await asyncio.wait({answering, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            return False
        answering.result()
    finally:
        for task in (answering, gone):
            task.cancel()
        await asyncio.gather(answering, gone, return_exceptions=True)
    return connection.our_state is h11.DONE and connection.their_state is h11.DONE


async def _refuse(connection: h11.Connection, client: Stream, status: int, text: str) -> None:
    if connection.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
        return
    headers = {"content-type": "text/plain; charset=utf-8", "connection": "close"}
    try:
        await Responder(connection, client).whole(status, f"pytest-rlenv: {text}\n".encode(), headers)
        client.end()
        await client.discard(_LINGER_BYTES)  # a connection closed with unread input is reset, answer and all
    except (h11.LocalProtocolError, OSError):
        pass
