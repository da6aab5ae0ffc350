"""Sizes and durations as people write and read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rlenv.amounts import parse_duration, parse_size, show_size


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0),
        ("1024", 1024),
        ("1k", 1024),
        ("500M", 500 << 20),
        ("2G", 2 << 30),
        ("2GB", 2 << 30),
        ("2 GiB", 2 << 30),
        ("1.5g", 3 << 29),
        (" 7 B ", 7),
        ("1T", 1 << 40),
    ],
)
def test_sizes(text: str, count: int) -> None:
    assert parse_size(text) == count


@pytest.mark.parametrize("text", ["", "G", "-1G", "1e9", "1 banana", "nan", "1.G", "1GiBB", "1ib", "7d"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size such as 500M"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("90s", 90), ("30m", 1800), ("12h", 43200), ("1.5 h", 5400), ("7d", 604800), ("2W", 1209600)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "d", "7", "-1d", "7 days", "inf", "1d12h"])
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration such as 30m"):
        parse_duration(text)


@given(st.text())
def test_any_text_is_an_amount_or_refused(text: str) -> None:
    for parse in (parse_size, parse_duration):
        refused = ""
        try:
            amount = parse(text)
        except ValueError as error:
            amount, refused = 0, str(error)
        assert amount >= 0
        assert not refused or repr(text) in refused


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (150 << 20, "150 MiB"),
        (1536 << 20, "1.5 GiB"),
        (5 << 50, "5120 TiB"),
    ],
)
def test_shown_sizes(count: int, text: str) -> None:
    assert show_size(count) == text


@given(st.integers(0, 1 << 50))
def test_a_shown_size_is_read_as_about_what_it_was(count: int) -> None:
    assert parse_size(show_size(count)) == pytest.approx(count, rel=0.06, abs=1)
