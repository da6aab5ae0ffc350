"""Events of a stream, however they are cut on their way, and what is read from answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pytest_rlenv.model_proxy.events as events_module
from pytest_rlenv.model_proxy.answers import AnswerReader, Tokens, error_of
from pytest_rlenv.model_proxy.events import MOST, EventReader
from pytest_rlenv.model_proxy.wires import Wire

END = events_module._END
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(
    said=st.lists(st.dictionaries(st.text(), JSON, max_size=3), max_size=6),
    ends=st.sampled_from(["\n\n", "\r\n\r\n"]),
    cuts=st.lists(st.integers(1, 40), max_size=60),
)
def test_events_are_the_same_wherever_they_are_cut(
    said: list[dict[str, Any]], ends: str, cuts: list[int]
) -> None:
    stream = b"".join(f"event: x\ndata: {json.dumps(each)}{ends}".encode() for each in said)
    stream += b": a comment\n\ndata: [DONE]\n\ndata: {"
    reader, left, events = EventReader(), stream, []
    for cut in cuts:
        events += list(reader.feed(left[:cut]))
        left = left[cut:]
    events += list(reader.feed(left))
    assert b"".join(event.raw for event in events) + reader.rest() == stream
    assert [event.data for event in events if event.data is not None] == said
    assert [event.done for event in events] == [False] * (len(said) + 1) + [True]


@given(st.lists(st.binary(max_size=50), max_size=20))
def test_any_bytes_pass_as_they_are(pieces: list[bytes]) -> None:
    reader, out = EventReader(), b""
    for piece in pieces:
        out += b"".join(event.raw for event in reader.feed(piece))
    assert out + reader.rest() == b"".join(pieces)


@given(
    stream=st.lists(st.sampled_from([b"\n", b"\r\n", b"\r", b"data: 1", b": x"]), max_size=40).map(b"".join),
    cuts=st.lists(st.integers(1, 5), max_size=80),
)
def test_ends_of_events_are_found_wherever_they_are_cut(stream: bytes, cuts: list[int]) -> None:
    whole, cut, left = EventReader(), EventReader(), stream
    pieces = []
    for size in [*cuts, len(stream) + 1]:
        pieces.append(left[:size])
        left = left[size:]
    expected = [event.raw for event in whole.feed(stream)]
    assert [event.raw for piece in pieces for event in cut.feed(piece)] == expected
    assert cut.rest() == whole.rest()


def test_a_long_stream_takes_time_in_proportion_to_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte is looked at once and not again with each that follows, which took minutes."""
    looked = 0

    class Counting:
        def finditer(self, held: bytearray, begin: int) -> Iterator[re.Match[bytes]]:
            nonlocal looked
            looked += len(held) - begin
            return END.finditer(held, begin)

    monkeypatch.setattr(events_module, "_END", Counting())
    reader, data = EventReader(), b"data: {" + b"x" * 100_000 + b"}\n\n" + b"data: {}\n\n" * 10_000
    found = [event for at in range(0, len(data), 1000) for event in reader.feed(data[at : at + 1000])]
    assert len(found) == 10_001
    assert looked < 2 * len(data)


def test_an_event_without_end_is_not_kept_for_ever() -> None:
    reader = EventReader()
    (event,) = reader.feed(b"data: " + b"x" * MOST)
    assert event.data is None
    assert reader.rest() == b""


@given(wire=st.sampled_from(list(Wire)), body=st.dictionaries(st.text(), JSON, max_size=4))
def test_no_answer_breaks_its_reader(wire: Wire, body: dict[str, Any]) -> None:
    AnswerReader(wire).whole(body)


@pytest.mark.parametrize(
    ("wire", "body"),
    [
        (Wire.CHAT, {"choices": [{"message": None, "delta": 5}], "usage": []}),
        (Wire.CHAT, {"choices": {"a": 1}, "usage": {"prompt_tokens": "many", "cost": "dear"}}),
        (Wire.CHAT, {"usage": {"prompt_tokens": -5, "completion_tokens": 1e300, "cost": float("inf")}}),
        (Wire.RESPONSES, {"output": [{"content": "x"}, 7], "incomplete_details": "no"}),
        (Wire.MESSAGES, {"usage": {"input_tokens": None, "cache_read_input_tokens": True}}),
    ],
)
def test_odd_answers_take_nothing(wire: Wire, body: dict[str, Any]) -> None:
    reader = AnswerReader(wire)
    reader.whole(body)
    assert reader.tokens in (None, Tokens())
    assert not reader.refused


@pytest.mark.parametrize(
    ("wire", "usage", "tokens"),
    [
        (
            Wire.CHAT,
            {"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 4},
            Tokens(9, 2, 4),
        ),
        (
            Wire.CHAT,
            {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 3}, "cost": 0.5},
            Tokens(9, 0, 3, 0.5),
        ),
        (
            Wire.MESSAGES,
            {
                "input_tokens": 5,
                "cache_read_input_tokens": 3,
                "cache_creation_input_tokens": 2,
                "output_tokens": 1,
            },
            Tokens(10, 1, 3),
        ),
    ],
)
def test_tokens(wire: Wire, usage: dict[str, Any], tokens: Tokens) -> None:
    reader = AnswerReader(wire)
    reader.whole({"usage": usage})
    assert reader.tokens == tokens


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({"error": {"code": "c", "message": "m", "type": "t"}}, ("c", "m")),
        ({"error": {"code": None, "message": "m", "type": "t"}}, ("t", "m")),
        ({"error": {"code": 400, "message": "m", "status": "INVALID_ARGUMENT"}}, ("INVALID_ARGUMENT", "m")),
        ([{"error": {"code": 400, "message": "m", "status": "S"}}], ("S", "m")),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, ("overloaded_error", "m")),
        ({"error": "m"}, ("", "m")),
        ({"detail": "m"}, ("", "m")),
        ({"detail": [{"loc": ["x"]}]}, ("", '[{"loc": ["x"]}]')),
        ("text", ("", "")),
        ([], ("", "")),
        (None, ("", "")),
    ],
)
def test_errors_as_providers_say_them(body: Any, found: tuple[str, str]) -> None:
    assert error_of(body) == found
