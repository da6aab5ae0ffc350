from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rlenv.sandboxes.docker.progress import LOG_LINES, Progress, _fields


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def encode(*fields: tuple[int, int | bytes | str]) -> bytes:
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def trace(*fields: tuple[int, bytes]) -> str:
    return base64.b64encode(encode(*fields)).decode()


def vertex(digest: str, name: str, error: str = "") -> tuple[int, bytes]:
    extra = [(7, error)] if error else []
    return 1, encode((1, digest), (2, "input"), (3, name), (4, 1), (5, encode((1, 5))), *extra)


def log(digest: str, text: str) -> tuple[int, bytes]:
    return 3, encode((1, digest), (2, encode((1, 5))), (3, 1), (4, text))


@given(
    st.lists(st.tuples(st.integers(1, 5000), st.one_of(st.integers(0, 2**63), st.binary(max_size=200)))),
)
def test_fields_round_trip(fields: list[tuple[int, int | bytes]]) -> None:
    assert list(_fields(encode(*fields))) == fields


@given(st.binary(max_size=100))
def test_rubbish_never_breaks_a_build(data: bytes) -> None:
    progress = Progress()
    progress.add_trace(base64.b64encode(data).decode())
    progress.add_trace(data.decode("latin-1"))
    assert isinstance(progress.lines, list)


def test_failed_step_and_its_own_log() -> None:
    progress = Progress()
    progress.add_trace(trace(vertex("a", "[1/3] FROM x"), vertex("b", "[2/3] RUN one")))
    progress.add_trace(
        trace(log("b", "fine\nalso fi"), log("c", "no"), log("b", "ne\n"), log("c", "t found"))
    )
    progress.add_trace(trace(vertex("c", "[3/3] RUN two", "exit code: 1")))
    progress.add_trace(trace(vertex("d", "[x 1/2] RUN other", "exit code: 2")))
    assert progress.failed_step == "[3/3] RUN two"
    assert progress.error == "exit code: 1"
    assert progress.lines == ["not found"]


def test_a_cancelled_step_is_not_the_culprit() -> None:
    progress = Progress()
    progress.add_trace(trace(vertex("a", "RUN slow", "rpc error: context canceled")))
    progress.add_trace(trace(vertex("b", "RUN bad", "exit code: 1")))
    assert progress.failed_step == "RUN bad"


def test_only_the_last_lines_are_kept() -> None:
    progress = Progress()
    progress.add_trace(trace(log("a", "".join(f"{n}\n" for n in range(1000)))))
    assert progress.lines == [str(n) for n in range(1000 - LOG_LINES, 1000)]


@pytest.mark.parametrize("text", ["", "\n", "one\r\ntwo"])
def test_lines(text: str) -> None:
    progress = Progress()
    progress.add_log("a", text)
    assert progress.lines == text.replace("\r", "").splitlines()
