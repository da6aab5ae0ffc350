"""Schedules for rows of ``calendar``: each event within its own window, none at the time of another."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_rlenv.frameworks.nemo_gym.responses import Item, message

GRID = 15
"""Minutes between the times that are tried, as in the rows."""
_DAY = 24 * 60


def schedule(row: Mapping[str, Any]) -> Sequence[Item] | None:
    """Return a schedule of all events as a JSON list; ``None`` if there is none."""
    events = list(row["exp_cal_state"].values())
    if not events:
        return [message("There is nothing to schedule.")]
    windows = [_window(event) for event in events]
    room = max(end for _, end in windows) - min(begin for begin, _ in windows)
    if sum(event["duration"] for event in events) > room:
        return None
    # the tighter a window is, the sooner it is filled: that ends the search early
    order = sorted(range(len(events)), key=lambda i: windows[i][1] - windows[i][0] - events[i]["duration"])
    starts = _fill(order, windows, [event["duration"] for event in events], {})
    if starts is None:
        return None
    listed = [
        {"event_id": event["event_id"], "duration": event["duration"], "start_time": _clock(starts[index])}
        for index, event in enumerate(events)
    ]
    return [message(json.dumps(listed))]


def _fill(
    order: Sequence[int], windows: Sequence[tuple[int, int]], durations: Sequence[int], taken: dict[int, int]
) -> dict[int, int] | None:
    """Return the begin of each event, in minutes, having tried all times that are left."""
    if len(taken) == len(order):
        return taken
    index = order[len(taken)]
    begin, end = windows[index]
    for start in range(begin, end - durations[index] + 1, GRID):
        free = all(
            start + durations[index] <= other or start >= other + durations[one]
            for one, other in taken.items()
        )
        if free and (found := _fill(order, windows, durations, {**taken, index: start})) is not None:
            return found
    return None


def _window(event: Mapping[str, Any]) -> tuple[int, int]:
    """Return between which minutes of the day an event must lie."""
    begin, end = _minutes(event["min_time"]), _minutes(event["max_time"])
    kind, _, times = (event["constraint"] or "").partition(" ")
    if kind == "before":
        end = min(end, _minutes(times))
    elif kind == "after":
        begin = max(begin, _minutes(times))
    elif kind == "between":
        first, _, last = times.partition(" and ")
        begin, end = max(begin, _minutes(first)), min(end, _minutes(last))
    elif kind == "at":
        at = _minutes(times)
        if not begin <= at <= end - event["duration"]:
            return _DAY, 0  # outside of its own window: nothing fits
        begin, end = at, at + event["duration"]
    return begin, end


def _minutes(text: str) -> int:
    """Return ``14:30``, ``2pm`` or ``2:30pm`` as minutes of the day."""
    text = text.strip()
    half = text[-2:] if text[-2:] in ("am", "pm") else ""
    hours, _, minutes = text.removesuffix(half).partition(":")
    hour = int(hours) % 12 + (12 if half == "pm" else 0) if half else int(hours)
    return hour * 60 + int(minutes or 0)


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02d}:{minutes % 60:02d}"
