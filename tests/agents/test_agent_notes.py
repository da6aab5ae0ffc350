"""What an agent notes is kept as codes and texts, whatever it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from pytest_rlenv.agents.outcomes import clean_notes


class Broken(Mapping[str, str]):
    def __getitem__(self, key: str) -> str:
        raise RuntimeError("no")

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("no")

    def __len__(self) -> int:
        return 1

    def __repr__(self) -> str:
        return "Broken()"


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("notes", "kept"),
    [
        ({}, []),
        (None, []),
        ({"code": "text"}, [("code", "text")]),
        ({1: 2, "a\0": "b\x1b[31m"}, [("1", "2"), ("a\ufffd", "b")]),
        ("a text", [("agent", "a text")]),
        (["a"], [("agent", "['a']")]),
        (Broken(), [("agent", "Broken()")]),
        ({"code": Mute()}, [("code", "<Mute that cannot be shown: RuntimeError>")]),
    ],
)
def test_notes_are_kept(notes: Any, kept: list[tuple[str, str]]) -> None:
    assert clean_notes(notes) == kept
