"""Answers that are calls of tools, as the row expects them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_rlenv.frameworks.nemo_gym.responses import Item, function_call, message

Row = Mapping[str, Any]
DONE = "Done."


def _calls(expected: Sequence[Mapping[str, Any]]) -> list[Item]:
    return [
        function_call(str(call["name"]), call["arguments"], f"call_{number}")
        for number, call in enumerate(expected)
    ]


def ground_truth(row: Row) -> Sequence[Item] | None:
    """Make each call of ``ground_truth``; an empty list is a task in which nothing is to be done."""
    expected = row.get("ground_truth")
    return None if expected is None else [*_calls(expected), message(DONE)]


def expected_answers(row: Row) -> Sequence[Item] | None:
    """Make each call of ``expected_answers``."""
    expected = row.get("expected_answers")
    return None if not expected else _calls(expected)


def expected_action(row: Row) -> Sequence[Item] | None:
    """Do ``expected_action``: a call, several at once, or a message."""
    action = row.get("expected_action")
    if not action:
        return None
    if action["type"] == "message":
        content = action.get("content")
        return [message(content if isinstance(content, str) else DONE)]
    return _calls(action["calls"] if action["type"] == "function_call_batch" else [action])


def click(row: Row) -> Sequence[Item] | None:
    """Click into the middle of the first circle of the colour that is asked for."""
    circle = next((each for each in row["circles"] if each["color"] == row["target_color"]), None)
    return None if circle is None else [function_call("click", {"x": circle["x"], "y": circle["y"]})]


def count_up(row: Row) -> Sequence[Item]:
    """Add what is missing to the session's counter, and look at it."""
    missing = row["expected_count"] - row["initial_count"]
    return [
        function_call("increment_counter", {"count": missing}, "call_0"),
        function_call("get_counter_value", {}, "call_1"),
        message(DONE),
    ]
