"""What is said of a pull, to whom it takes long."""

from __future__ import annotations

from typing import Any

from pytest_rlenv.sandboxes.docker.pullprogress import FIRST_AFTER, THEN_EVERY, PullProgress

MIB = 1 << 20


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def layer(name: str, status: str, current: int = 0, total: int = 0) -> dict[str, Any]:
    detail = {"current": current * MIB, "total": total * MIB} if total else {}
    return {"id": name, "status": status, "progressDetail": detail}


MESSAGES = [
    {"id": "1", "status": "Pulling from some/image"},
    layer("a", "Pulling fs layer"),
    layer("b", "Pulling fs layer"),
    layer("c", "Already exists"),
    layer("a", "Downloading", 10, 100),
    layer("b", "Downloading", 50, 60),
]


def told(*steps: dict[str, Any] | float) -> list[str]:
    """Return what is said; a number among the messages is seconds that go by."""
    lines: list[str] = []
    clock = Clock()
    progress = PullProgress("x:1", lines.append, clock)
    for step in steps:
        if isinstance(step, float):
            clock.now += step
        else:
            progress.take(step)
    progress.finish()
    return lines


def test_nothing_is_said_of_a_short_pull() -> None:
    assert told(*MESSAGES, FIRST_AFTER - 1.0) == []


def test_a_long_pull_is_told_of_now_and_then() -> None:
    lines = told(
        *MESSAGES,
        FIRST_AFTER,
        layer("a", "Downloading", 20, 100),
        1.0,
        layer("a", "Downloading", 30, 100),
        THEN_EVERY,
        layer("b", "Pull complete"),
        layer("a", "Downloading", 100, 100),
    )
    assert lines == [
        "pulling x:1: 70.0 MiB of 160 MiB, 1 of 3 layers",
        "pulling x:1: 90.0 MiB of 160 MiB, 2 of 3 layers",
        "pulled x:1 in 21 s",
    ]


def test_a_pull_of_unknown_size() -> None:
    assert told(MESSAGES[1], FIRST_AFTER, layer("b", "Waiting"))[0] == "pulling x:1: 0 of 2 layers"


def test_odd_messages_are_passed_over() -> None:
    odd = [{}, {"status": None}, {"progressDetail": None, "id": "a"}, {"id": "a", "status": "Downloading"}]
    assert told(*odd, FIRST_AFTER + 1.0, {"status": "Digest: sha256:x"})[0].startswith("pulling x:1: 0 of 1")


def test_nobody_has_to_listen() -> None:
    progress = PullProgress("x:1", None)
    progress.take(MESSAGES[0])
    progress.retry("busy", 2.0, 2, 4)
    progress.finish()
