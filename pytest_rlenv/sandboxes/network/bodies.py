"""The body of a request, passed on to its last byte and not a byte further."""

from __future__ import annotations

import re

from pytest_rlenv.sandboxes.network.heads import CHUNKED, BadRequest
from pytest_rlenv.sandboxes.network.stream import Stream

_SIZE = re.compile(rb"(?P<size>[0-9A-Fa-f]{1,15})(?:[\t ]*;[\t\x20-\x7e]*)?\r\n")
_MAX_LINE = 8 * 1024
_MAX_TRAILERS = 64 * 1024


async def copy_body(client: Stream, server: Stream, length: int) -> None:
    """Send a body on.

    Args:
        client: where it comes from.
        server: where it goes.
        length: its bytes, or :data:`~pytest_rlenv.sandboxes.network.heads.CHUNKED`.

    Raises:
        BadRequest: chunks that could be read in two ways. Ended, TooLong: it is cut short, or a line is long.
    """
    if length != CHUNKED:
        await client.copy(server, length)
        return
    while True:
        line = await client.read_until(b"\n", _MAX_LINE)
        match = _SIZE.fullmatch(line)
        if match is None:
            raise BadRequest("400 Bad Request", f"{line[:50]!r} is not the size of a chunk")
        size = int(match["size"], 16)
        await server.send(b"%x\r\n" % size)  # without extensions, which nobody needs
        if size == 0:
            break
        await client.copy(server, size)
        if await client.read_until(b"\n", _MAX_LINE) != b"\r\n":
            raise BadRequest("400 Bad Request", "a chunk is longer than it says")
        await server.send(b"\r\n")
    await _skip_trailers(client)
    await server.send(b"\r\n")


async def _skip_trailers(client: Stream) -> None:
    """Read the fields after the last chunk; they are dropped, as most servers do."""
    total = 0
    while (line := await client.read_until(b"\n", _MAX_LINE)) != b"\r\n":
        total += len(line)
        if total > _MAX_TRAILERS or not line.endswith(b"\r\n"):
            raise BadRequest("400 Bad Request", "what follows the last chunk cannot be read")
