"""What is kept up between rollouts: leased to one at a time, and ended with the run."""

from __future__ import annotations

import threading

import pytest

from pytest_rlenv.errors import SandboxFailed
from pytest_rlenv.frameworks.kept import Kept


class Thing:
    def __init__(self) -> None:
        self.alive = True

    def close(self) -> None:
        self.alive = False


def test_it_is_given_to_the_next_one() -> None:
    kept = Kept()
    with kept.lease("a", Thing) as first:
        pass
    with kept.lease("a", Thing) as second, kept.lease("b", Thing) as other:
        assert second is first
        assert other is not first
    kept.close()
    assert not first.alive
    assert not other.alive


def test_one_that_has_died_is_made_anew() -> None:
    kept = Kept()
    with kept.lease("a", Thing) as first:
        first.close()
    with kept.lease("a", Thing) as second:
        assert second is not first


def test_what_cannot_be_made_takes_nobodys_place() -> None:
    kept = Kept()

    def fail() -> Thing:
        raise SandboxFailed("not today")

    for _ in range(3):
        with pytest.raises(SandboxFailed, match="not today"), kept.lease("a", fail):
            pass
    with kept.lease("a", Thing) as thing:
        assert thing.alive


def test_what_cannot_be_made_after_the_end_says_why_all_the_same() -> None:
    kept = Kept()

    def fail() -> Thing:
        kept.close()
        raise SandboxFailed("not today")

    with pytest.raises(SandboxFailed, match="not today"), kept.lease("a", fail):
        pass


def test_what_is_made_while_all_is_ended_is_ended_too() -> None:
    kept, made = Kept(), Thing()

    def make() -> Thing:
        kept.close()
        return made

    with pytest.raises(SandboxFailed, match="the run has ended"), kept.lease("a", make):
        pass
    assert not made.alive


def test_the_end_ends_what_is_in_use_and_who_waits() -> None:
    kept, told = Kept(), []

    def wait() -> None:
        try:
            with kept.lease("a", Thing):
                told.append("leased")
        except SandboxFailed as error:
            told.append(error.message)

    with kept.lease("a", Thing) as thing:
        waiting = threading.Thread(target=wait)
        waiting.start()
        kept.close()
        assert not thing.alive
        waiting.join(10)
    assert told == ["the run has ended: nothing is started any more"]
