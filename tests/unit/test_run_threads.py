"""What several rollouts of one process share: made once, asked for in turn, gone for all at the end."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from pytest_rlenv.environments.model import HUB, Environment, TaskRef
from pytest_rlenv.errors import FetchFailed, SandboxFailed
from pytest_rlenv.execution import SelectedTask
from pytest_rlenv.fetching import REFUSALS
from pytest_rlenv.identity import Identity
from pytest_rlenv.run import Run
from pytest_rlenv.settings import Settings

THREADS = 8


class SlowSandbox:
    """A sandbox that takes its time to be made."""

    made = 0
    name = "slow"
    capabilities = describe = check = prepare = start = None

    def __init__(self, context: Any) -> None:
        threading.Event().wait(0.02)
        type(self).made += 1
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(SlowSandbox, "made", 0)
    identity = Identity("s", tmp_path / "run", tmp_path, tmp_path)
    return Run(identity, Settings(sandbox=f"{__name__}:SlowSandbox", sources={}))


def at_once(call: Any) -> list[Any]:
    """Call from several threads at once, and return what came of it."""
    together, found = threading.Barrier(THREADS), []

    def one() -> None:
        together.wait()
        try:
            found.append(call())
        except Exception as error:
            found.append(error)

    threads = [threading.Thread(target=one) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_one_sandbox_is_made_for_all(run: Run) -> None:
    found = at_once(lambda: run.sandbox)
    assert SlowSandbox.made == 1
    assert len(set(map(id, found))) == 1


def test_it_is_closed_once_and_no_other_is_made(run: Run) -> None:
    sandbox: Any = run.sandbox
    at_once(run.close)
    assert sandbox.closed == 1
    assert run.sandbox is sandbox
    assert SlowSandbox.made == 1


def test_after_the_end_none_is_made(run: Run) -> None:
    run.close()
    with pytest.raises(SandboxFailed, match="the run has ended"):
        run.sandbox  # noqa: B018 - a property
    assert SlowSandbox.made == 0


def test_a_hub_that_refuses_is_not_asked_by_every_thread(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = Environment("o/r", HUB, run.identity.base / "files", repo_id="o/r", revision="0" * 40)
    asked = []

    def fetch(tasks: Any) -> None:
        asked.append(tasks)
        threading.Event().wait(0.02)
        raise FetchFailed("refused")

    monkeypatch.setattr(run.fetching, "fetch", fetch)
    found = at_once(lambda: run.fetching.ensure(SelectedTask(environment, TaskRef("t", "t"))))
    assert {type(error) for error in found} == {FetchFailed}
    assert len(asked) == REFUSALS
