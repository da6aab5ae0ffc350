"""The head of a request is read in one way only, or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rlenv.sandboxes.network.heads import CHUNKED, BadRequest, parse_head, split_url


def head(*lines: str, first: str = "POST http://good.test/ HTTP/1.1") -> bytes:
    return "\r\n".join([first, *lines, "", ""]).encode("latin-1")


def test_a_head_is_written_anew_for_one_request_to_one_host() -> None:
    parsed = parse_head(
        head(
            "Host: evil.test",
            "accept: */*",
            "Connection: keep-alive, X-Hop",
            "X-Hop: 1",
            "Keep-Alive: 5",
            "Proxy-Authorization: Basic abc",
            "Proxy-Connection: keep-alive",
            "TE: trailers",
            "Upgrade: h2c",
            "Content-Length:  12 ",
            "X-Own: a: b\t",
            "x-own: again",
            "Empty:",
            "Bytes: \xe9",
        )
    )
    assert (parsed.method, parsed.target, parsed.body) == ("POST", "http://good.test/", 12)
    assert parsed.rewritten("/a?b", "good.test:81") == (
        b"POST /a?b HTTP/1.1\r\nHost: good.test:81\r\naccept: */*\r\ncontent-length: 12\r\nx-own: a: b\r\n"
        b"x-own: again\r\nempty: \r\nbytes: \xe9\r\nConnection: close\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        ((), 0),
        (("Content-Length: 0",), 0),
        (("Content-Length: 00012",), 12),
        (("Transfer-Encoding: chunked",), CHUNKED),
        (("TRANSFER-ENCODING: Chunked",), CHUNKED),
    ],
)
def test_the_length_of_a_body(fields: tuple[str, ...], body: int) -> None:
    assert parse_head(head(*fields)).body == body


AMBIGUOUS = {
    "both lengths": head("Content-Length: 3", "Transfer-Encoding: chunked"),
    "two lengths": head("Content-Length: 3", "Content-Length: 4"),
    "the same length twice": head("Content-Length: 3", "Content-Length: 3"),
    "a list of lengths": head("Content-Length: 3, 3"),
    "a signed length": head("Content-Length: +3"),
    "a negative length": head("Content-Length: -3"),
    "a hexadecimal length": head("Content-Length: 0x3"),
    "no length": head("Content-Length:"),
    "digits of another script": head("Content-Length: \xb2"),
    "an endless length": head("Content-Length: " + "9" * 30),
    "an unknown coding": head("Transfer-Encoding: gzip"),
    "chunks within another coding": head("Transfer-Encoding: gzip, chunked"),
    "a coding that is hardly one": head("Transfer-Encoding: chunked;x"),
    "two codings": head("Transfer-Encoding: chunked", "Transfer-Encoding: identity"),
    "chunks in HTTP/1.0": head("Transfer-Encoding: chunked", first="POST http://good.test/ HTTP/1.0"),
    "two hosts": head("Host: good.test", "Host: evil.test"),
    "a length for the next hop only": head("Connection: Content-Length", "Content-Length: 3"),
    "a coding for the next hop only": head("Connection: x, transfer-encoding", "Transfer-Encoding: chunked"),
    "a host for the next hop only": head("Proxy-Connection: host"),
    "a space before the colon": head("Content-Length : 3"),
    "a space before the name": head(" Content-Length: 3"),
    "a folded line": head("X: a", " Content-Length: 3"),
    "no colon": head("Content-Length 3"),
    "no name": head(": 3"),
    "a NUL": head("X: a\0b"),
    "a bare CR": head("X: a\rContent-Length: 3"),
    "a bare LF": head("X: a\nContent-Length: 3"),
    "a vertical tab": head("Content-Length: 3\x0b"),
    "an empty line first": b"\r\n" + head(),
    "a bare LF after the first line": head().replace(b"\r\n", b"\n", 1),
    "a tab in the first line": head(first="GET\thttp://good.test/ HTTP/1.1"),
    "two spaces in the first line": head(first="GET  http://good.test/ HTTP/1.1"),
    "a space in the URL": head(first="GET http://good.test/ a HTTP/1.1"),
    "a NUL in the URL": head(first="GET http://good.test/\0 HTTP/1.1"),
    "bytes in the URL": head(first="GET http://good.test/\xe9 HTTP/1.1"),
    "a space at the end of the first line": head(first="GET http://good.test/ HTTP/1.1 "),
    "no version": head(first="GET http://good.test/"),
    "HTTP/0.9": head(first="GET http://good.test/ HTTP/0.9"),
    "HTTP/2": head(first="PRI * HTTP/2.0"),
    "HTTP/1.2": head(first="GET http://good.test/ HTTP/1.2"),
    "a method that is no word": head(first="G(T http://good.test/ HTTP/1.1"),
    "nothing": b"\r\n\r\n",
    "no end": head()[:-1],
}


@pytest.mark.parametrize("data", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_what_could_be_read_in_two_ways_is_refused(data: bytes) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_head(data)
    assert caught.value.status.split()[0] in ("400", "501")


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("http://a.test", ("http", "a.test", "/")),
        ("HTTP://A.test:81/b?c#d", ("http", "A.test:81", "/b?c")),
        ("http://a.test?c", ("http", "a.test", "/?c")),
        ("http://a.test#d", ("http", "a.test", "/")),
        ("http://good.test\\@evil.test/", ("http", "good.test\\@evil.test", "/")),
        ("http://good.test/@evil.test", ("http", "good.test", "/@evil.test")),
        ("https://a.test/", ("https", "a.test", "/")),
        ("http:///b", ("http", "", "/b")),
    ],
)
def test_absolute_urls(url: str, parts: tuple[str, str, str]) -> None:
    assert split_url(url) == parts


@pytest.mark.parametrize("url", ["/", "*", "a.test:80", "//a.test/", "http:/a.test/", ""])
def test_what_is_no_absolute_url(url: str) -> None:
    with pytest.raises(BadRequest, match="this is a proxy"):
        split_url(url)


@given(st.binary(max_size=80))
def test_whatever_comes_is_read_or_refused(data: bytes) -> None:
    for tried in (data, data + b"\r\n\r\n", b"GET http://a.test/ HTTP/1.1\r\n" + data + b"\r\n\r\n"):
        try:
            parsed = parse_head(tried)
        except BadRequest:
            continue
        # what was read is read again in the same way by whoever comes next
        again = parse_head(parsed.rewritten("/", "a.test"))
        assert again.body == parsed.body
        assert [value for name, value in again.fields if name == b"host"] == [b"a.test"]
