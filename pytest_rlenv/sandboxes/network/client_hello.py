"""The server name in a TLS client's first message: whom the client means to talk to, said in the clear.

A tunnel to an allowed host could otherwise be used for any other site that the same servers serve. Nothing
is decrypted.
"""

from __future__ import annotations

from pytest_rlenv.sandboxes.network.stream import Stream

HANDSHAKE = 22
"""The first byte of a TLS connection."""

_HEADER = 5
_CLIENT_HELLO = 1
_SERVER_NAME = 0
_HOST_NAME = 0
_MAX_HELLO = 64 * 1024
_MAX_RECORD = 16 * 1024 + 256


class NotTls(Exception):
    """What was sent is not the start of a TLS connection that names its server."""


async def peek_server_name(client: Stream) -> str:
    """Return the name that a client's first message is for; all of it stays to be read.

    Raises:
        NotTls: with the reason.
    """
    hello, offset = b"", 0
    while len(hello) < 4 or len(hello) < 4 + int.from_bytes(hello[1:4], "big"):
        header = (await client.peek(offset + _HEADER))[offset:]
        length = int.from_bytes(header[3:5], "big")
        if len(header) < _HEADER or header[0] != HANDSHAKE or header[1] != 3 or not 0 < length <= _MAX_RECORD:
            raise NotTls("not TLS")
        end = offset + _HEADER + length
        if end > _MAX_HELLO:
            raise NotTls("a TLS greeting without end")
        record = (await client.peek(end))[offset + _HEADER :]
        if len(record) < length:
            raise NotTls("not TLS")
        hello += record
        offset = end
    return server_name(hello)


def server_name(hello: bytes) -> str:
    """Return the server name in a ClientHello handshake message.

    Raises:
        NotTls: it is none, or names no server, or several.
    """
    if hello[:1] != bytes([_CLIENT_HELLO]):
        raise NotTls("not a TLS greeting")
    message = _Reader(hello[4 : 4 + int.from_bytes(hello[1:4], "big")])
    message.take(2 + 32)  # version, random
    message.vector(1)  # session
    message.vector(2)  # cipher suites
    message.vector(1)  # compression methods
    extensions = _Reader(message.vector(2))
    names = []
    while extensions.left:
        kind = int.from_bytes(extensions.take(2), "big")
        content = _Reader(extensions.vector(2))
        if kind == _SERVER_NAME:
            names += _names(_Reader(content.vector(2)))
    if len(names) != 1:
        raise NotTls("TLS without a server name" if not names else "TLS with several server names")
    try:
        return names[0].decode("ascii")
    except UnicodeDecodeError:
        raise NotTls("TLS with a server name that is none") from None


def _names(entries: _Reader) -> list[bytes]:
    names = []
    while entries.left:
        kind, name = entries.take(1)[0], entries.vector(2)
        if kind == _HOST_NAME:
            names.append(name)
    return names


class _Reader:
    """Takes a message apart from its start."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        if count > self.left:
            raise NotTls("a TLS greeting that is cut short")
        self._at += count
        return self._data[self._at - count : self._at]

    def vector(self, width: int) -> bytes:
        """Take what is preceded by its length, in ``width`` bytes."""
        return self.take(int.from_bytes(self.take(width), "big"))
