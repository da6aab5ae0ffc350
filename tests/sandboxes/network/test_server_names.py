"""The server name in a TLS client's greeting."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.gates import client_hello

from pytest_rlenv.sandboxes.network.client_hello import NotTls, server_name

HELLO = client_hello("good.test")[5:]


def with_extensions(*extensions: bytes) -> bytes:
    """Return a greeting with these extensions."""
    joined = b"".join(extensions)
    body = b"\3\3" + bytes(32) + b"\0" + b"\0\2\x13\1" + b"\1\0" + len(joined).to_bytes(2, "big") + joined
    return b"\1" + len(body).to_bytes(3, "big") + body


def names(*entries: tuple[int, bytes]) -> bytes:
    """Return the extension with these names."""
    joined = b"".join(bytes([kind]) + len(name).to_bytes(2, "big") + name for kind, name in entries)
    listed = len(joined).to_bytes(2, "big") + joined
    return b"\0\0" + len(listed).to_bytes(2, "big") + listed


def test_a_real_greeting() -> None:
    assert server_name(HELLO) == "good.test"


def test_the_name_is_found_among_other_extensions() -> None:
    other = b"\0\x2b\0\3\2\3\4"
    assert server_name(with_extensions(other, names((1, b"odd"), (0, b"good.test")), other)) == "good.test"


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        (client_hello(None)[5:], "without a server name"),
        (with_extensions(), "without a server name"),
        (with_extensions(names((1, b"good.test"))), "without a server name"),
        (with_extensions(names((0, b"good.test"), (0, b"evil.test"))), "several"),
        (with_extensions(names((0, b"good.test")), names((0, b"evil.test"))), "several"),
        (with_extensions(names((0, b"b\xfccher.test"))), "that is none"),
        (with_extensions(b"\0\0\0\5\0\7\0\0\4"), "cut short"),
        (b"\2" + HELLO[1:], "not a TLS greeting"),
        (b"", "not a TLS greeting"),
    ],
)
def test_greetings_that_name_no_server(hello: bytes, reason: str) -> None:
    with pytest.raises(NotTls, match=reason):
        server_name(hello)


@given(st.integers(0, len(HELLO) - 1))
def test_a_greeting_that_is_cut_short_names_no_other_server(length: int) -> None:
    with contextlib.suppress(NotTls):
        assert server_name(HELLO[:length]) == "good.test"


@given(st.binary(max_size=200))
def test_whatever_comes_names_a_server_or_none(data: bytes) -> None:
    for hello in (data, b"\1" + len(data).to_bytes(3, "big") + data):
        with contextlib.suppress(NotTls):
            assert isinstance(server_name(hello), str)
