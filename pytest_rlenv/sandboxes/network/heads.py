"""The head of an HTTP request: read strictly, and written anew for the server.

A request that two programs could take apart in two ways is how a second one is smuggled past a proxy, so it
is refused: bare line ends, folded lines, two lengths, a length beside chunks, unknown codings.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_HEAD = 64 * 1024
"""Bytes of a request's head."""

CHUNKED = -1
"""The length of a body that comes in chunks."""

_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LINE = re.compile(rb"(?P<method>%s) (?P<target>[\x21-\x7e]+) HTTP/1\.(?P<minor>[01])" % _TOKEN.pattern)
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_ABSOLUTE = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<path>[^#]*)(?:#.*)?")
_OF_THE_CONNECTION = (b"connection", b"keep-alive", b"proxy-connection", b"te", b"upgrade", b"host")
_NEVER_NAMED = (b"content-length", b"transfer-encoding", b"host")


class BadRequest(Exception):
    """A request that is not passed on.

    Args:
        status: HTTP status and reason for the answer.
        reason: what is wrong with it.
    """

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclass(frozen=True)
class Head:
    """A request's head.

    Attributes:
        method: the verb.
        target: what follows it, as the client wrote it.
        minor: the second part of the HTTP version.
        fields: names in small letters, and values.
        body: bytes that follow, or :data:`CHUNKED`.
    """

    method: str
    target: str
    minor: int
    fields: tuple[tuple[bytes, bytes], ...]
    body: int

    def rewritten(self, path: str, authority: str) -> bytes:
        """Return the head as the server gets it: for that host only, and for one request only."""
        dropped = {*_OF_THE_CONNECTION, *_named(self.fields)}
        kept = [
            b"%s: %s\r\n" % field
            for field in self.fields
            if field[0] not in dropped and not field[0].startswith(b"proxy-")
        ]
        first = f"{self.method} {path} HTTP/1.{self.minor}\r\nHost: {authority}\r\n".encode("ascii")
        return b"".join((first, *kept, b"Connection: close\r\n\r\n"))


def parse_head(data: bytes) -> Head:
    """Return the head that ``data`` is, with the empty line that ends it.

    Raises:
        BadRequest: it is none, or could be read in two ways.
    """
    if not data.endswith(b"\r\n\r\n"):
        raise _bad("the head of the request does not end")
    first, *lines = data[:-4].split(b"\r\n")
    match = _LINE.fullmatch(first)
    if match is None:
        raise _bad(f"{first[:200]!r} is not the first line of an HTTP/1 request")
    fields = tuple(_field(line) for line in lines)
    named = _named(fields)
    if any(name in named for name in _NEVER_NAMED):
        raise _bad("the field Connection names one that every server needs")
    minor = int(match["minor"])
    return Head(match["method"].decode(), match["target"].decode(), minor, fields, _body(fields, minor))


def split_url(url: str) -> tuple[str, str, str]:
    """Return scheme, authority and path with query of an absolute URL.

    Raises:
        BadRequest: it is none.
    """
    match = _ABSOLUTE.fullmatch(url)
    if match is None:
        raise _bad("this is a proxy: it takes CONNECT host:port, and URLs that begin with http://")
    path = match["path"]
    return match["scheme"].lower(), match["authority"], path if path.startswith("/") else f"/{path}"


def _field(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    if not colon or not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
        raise _bad(f"{line[:200]!r} is not a header field")
    return name.lower(), value.strip(b" \t")


def _named(fields: tuple[tuple[bytes, bytes], ...]) -> set[bytes]:
    """Return the names of the fields that are for the next hop only, as the client says."""
    values = (value for name, value in fields if name in (b"connection", b"proxy-connection"))
    return {word.strip(b" \t").lower() for value in values for word in value.split(b",")}


def _body(fields: tuple[tuple[bytes, bytes], ...], minor: int) -> int:
    lengths = [value for name, value in fields if name == b"content-length"]
    codings = [value for name, value in fields if name == b"transfer-encoding"]
    if len([name for name, _ in fields if name == b"host"]) > 1:
        raise _bad("more than one Host")
    if not codings and not lengths:
        return 0
    if codings:
        if lengths or len(codings) > 1 or minor == 0:
            raise _bad("more than one way to tell the length of the body")
        if codings[0].lower() != b"chunked":
            raise BadRequest("501 Not Implemented", f"the transfer coding {codings[0][:50]!r} is not known")
        return CHUNKED
    if len(lengths) > 1 or not _LENGTH.fullmatch(lengths[0]):
        raise _bad("more than one way to tell the length of the body")
    return int(lengths[0])


def _bad(reason: str) -> BadRequest:
    return BadRequest("400 Bad Request", reason)
