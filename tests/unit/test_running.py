"""Agents that do not return, raise, or are late."""

from __future__ import annotations

import threading

import pytest

from pytest_rlenv.agents.running import LeftBehind, call_within


def test_results_and_errors_come_through() -> None:
    assert call_within(lambda: 5, 10) == 5
    with pytest.raises(ZeroDivisionError):
        call_within(lambda: 1 // 0, 10)


def test_a_call_that_does_not_return_is_left_behind() -> None:
    release = threading.Event()
    with pytest.raises(LeftBehind):
        call_within(lambda: release.wait(30), 0.05)
    release.set()
