from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rlenv.sandboxes.output import Demultiplexer, HeadTail


def frame(stream: int, data: bytes) -> bytes:
    return struct.pack(">BxxxL", stream, len(data)) + data


@given(st.lists(st.binary(max_size=50), max_size=40), st.integers(2, 64).map(lambda half: 2 * half))
def test_head_and_tail_are_those_of_the_whole(pieces: list[bytes], cap: int) -> None:
    kept = HeadTail(cap)
    for piece in pieces:
        kept.write(memoryview(piece))
    whole = b"".join(pieces)
    assert kept.total == len(whole)
    if len(whole) <= cap:
        assert kept.value() == whole
        return
    half = cap // 2
    middle = b"\n[... %d bytes left out ...]\n" % (len(whole) - cap)
    assert kept.value() == whole[:half] + middle + whole[-half:]


def test_memory_is_bounded() -> None:
    kept = HeadTail(1000)
    for _ in range(10_000):
        kept.write(memoryview(b"x" * 99))
    assert len(kept._tail) <= 4 * 500 + 99
    assert kept.total == 990_000


@given(
    st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=30)), max_size=20),
    st.lists(st.integers(1, 13), min_size=1, max_size=10),
)
def test_frames_survive_any_cutting(frames: list[tuple[int, bytes]], cuts: list[int]) -> None:
    got = {1: b"", 2: b""}

    def take(stream: int, data: memoryview) -> None:
        got[stream] += bytes(data)

    demultiplexer = Demultiplexer(take)
    wire = b"".join(frame(*each) for each in frames)
    turn = 0
    while wire:
        size = cuts[turn % len(cuts)]
        demultiplexer.feed(wire[:size])
        wire, turn = wire[size:], turn + 1
    for stream in (1, 2):
        assert got[stream] == b"".join(data for number, data in frames if number == stream)


def test_what_is_no_frame_is_refused() -> None:
    with pytest.raises(ValueError, match="not a frame"):
        Demultiplexer(lambda *_: None).feed(b"plain text, as from a terminal")
