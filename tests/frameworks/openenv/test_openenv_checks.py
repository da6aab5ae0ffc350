"""Checks of an environment itself: what each finds, what it skips, and that all of them are told alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.openenv import Listing, Misbehaving, served, write_environment
from support.openenv_rollouts import Done, checking, earn, raw, run

from pytest_rlenv.agents.check import CHECKS
from pytest_rlenv.errors import SpecError
from pytest_rlenv.frameworks.openenv.checks.table import KINDS

DOCS = Path(__file__).parents[3] / "docs" / "openenv.md"
MARGIN = "name: odd\nvalidation: {reward: {oracle_tolerance: 0.1, floor_margin: 0.5}}\n"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served() as address:
        yield address


def check_that(done: Done, failing: list[str]) -> None:
    assert done.told == ("0.0" if failing else "1.0")
    checks = done.rollout.checks
    assert checks is not None
    assert len(checks.failing) == len(failing)
    assert all(told.startswith(words) for told, words in zip(checks.failing, failing, strict=True))


@pytest.mark.parametrize(
    ("check", "actions", "reset", "failing"),
    [
        ("contract", [{"do": "win"}], {}, []),
        ("contract", [earn(None)], {}, ["the episode is graded: all rewards are null"]),
        ("contract", [earn(3.0, True)], {}, ["range of step 1: 3.0 is outside of 0.0 to 1.0"]),
        (
            "contract",
            [raw("true")],
            {},
            ["observation of step 1: it lacks shown", "reward of step 1: it is true"],
        ),
        (
            "contract",
            [{"do": "win"}],
            {"nameless": True},
            ["episode_id after reset", "episode_id after step 1"],
        ),
        ("determinism", [earn(0.5), {"do": "win"}], {}, []),
        ("determinism", [{"do": "draw"}], {}, ["step 1: the observations differ in 'shown'"]),
        ("isolation", [{"do": "win"}], {}, []),
        (
            "isolation",
            [{"do": "win"}],
            {"leaks": True},
            ["reset on the same connection: the obs", "reset on another connection: the obs"],
        ),
    ],
)
def test_checks_tell_what_is_wrong(
    tmp_path: Path, url: str, check: str, actions: list[Any], reset: dict[str, Any], failing: list[str]
) -> None:
    folder = write_environment(tmp_path / "env", t=actions)
    done = run(folder, url, tmp_path, checking(check), data={"reset": reset})
    check_that(done, failing)
    assert done.rollout.checks is not None
    assert done.rollout.checks.passed


@pytest.mark.parametrize("required", [5, True, "shown", None, [["shown"]]])
def test_a_schema_that_is_none_is_no_reason_to_break(tmp_path: Path, required: Any) -> None:
    class Odd(Misbehaving):
        schema: Mapping[str, Any] = {
            **Misbehaving.schema,
            "observation": {"properties": {}, "required": required},
        }

    with served(Odd) as url:
        done = run(write_environment(tmp_path / "env"), url, tmp_path, checking("contract"))
    assert done.told == ("0.0" if isinstance(required, list) else "1.0")


@pytest.mark.parametrize(
    ("actions", "floor", "manifest", "failing"),
    [
        ([earn(0.95, True)], 0.5, MARGIN, []),
        ([{"do": "win"}], 0.9, "name: odd\n", []),
        ([earn(0.85, True)], 0.5, MARGIN, ["oracle: the oracle earns 0.85, doing nothing 0.5: not >= 0.9"]),
        ([{"do": "win"}], 0.75, MARGIN, ["floor: the oracle earns 1.0, doing nothing 0.75: not <= 0.5"]),
        (
            [earn(0.0, True)],
            1.0,
            "name: odd\n",
            [
                "oracle: the oracle earns 0.0, doing nothing 1.0: not >= 1.0",
                "floor: the oracle earns 0.0, doing nothing 1.0: not < 1.0",
            ],
        ),
    ],
)
def test_the_gap_between_oracle_and_floor(
    tmp_path: Path, url: str, actions: list[Any], floor: float, manifest: str, failing: list[str]
) -> None:
    folder = write_environment(tmp_path / "env", manifest, t=actions)
    done = run(folder, url, tmp_path, checking("floor-gap"), data={"reset": {"reward": floor}})
    check_that(done, failing)
    rewards = done.rollout.rewards or {}
    assert (rewards["oracle"], rewards["floor"]) == (actions[0].get("reward", 1.0), floor)


def test_without_an_oracle_or_a_floor_there_is_no_gap_to_see(tmp_path: Path, url: str) -> None:
    folder = write_environment(tmp_path / "env")
    assert "no oracle" in run(folder, url, tmp_path, checking("floor-gap")).skipped
    folder = write_environment(tmp_path / "env", t=[{"do": "win"}])
    assert "the floor is not known" in run(folder, url, tmp_path, checking("floor-gap")).skipped


def test_a_reward_that_is_missing_or_out_of_range_is_an_error_not_a_gap(tmp_path: Path, url: str) -> None:
    folder = write_environment(tmp_path / "env", t=[earn(None, True)], beyond=[earn(7, True)])
    given: dict[str, Any] = {"reset": {"reward": 0.0}}
    assert run(folder, url, tmp_path, checking("floor-gap"), data=given).told == "RewardMissing"
    done = run(folder, url, tmp_path, checking("floor-gap"), name="beyond", data=given)
    assert done.told == "RewardContractBroken"


@pytest.mark.parametrize(
    ("manifest", "failing"),
    [
        ("validation: {capabilities: {declared_task_count: {train: 3, test: 1}}}", []),
        ("tasks: [a, b, c, d]", []),
        ("tasks: [a]", ["tasks: the server has 4, openenv.yaml lists 1"]),
        (
            "validation: {capabilities: {declared_task_count: {train: 4, dev: 1}}}\ntasks: [a]",
            ["split train: the server has 3, declared are 4", "split dev: the server has no such split"],
        ),
    ],
)
def test_tasks_are_counted(tmp_path: Path, manifest: str, failing: list[str]) -> None:
    folder = write_environment(tmp_path / "env", manifest + "\n")
    with served(Listing) as url:
        check_that(run(folder, url, tmp_path, checking("task-count")), failing)


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ("name: odd", "openenv.yaml declares no number of tasks"),
        ("validation: {capabilities: {declared_task_count: {train: many}}}", "declares no number of tasks"),
        ("tasks: [a]", "no task API that counts its tasks"),
    ],
)
def test_tasks_that_cannot_be_counted_are_a_skip(tmp_path: Path, url: str, manifest: str, words: str) -> None:
    folder = write_environment(tmp_path / "env", manifest + "\n")
    assert words in run(folder, url, tmp_path, checking("task-count")).skipped


@pytest.mark.parametrize(
    ("reset", "notes"),
    [
        ({}, []),
        ({"seed": 7}, []),
        ({"seedless": True}, [("seed-ignored", "seeds 0 and 1 begin alike")]),
        ({"seed": 7, "only": 7}, [("seed-refused", "the environment does not take seed 8: ")]),
    ],
)
def test_a_seed_that_decides_nothing_is_a_note(
    tmp_path: Path, url: str, reset: dict[str, Any], notes: list[tuple[str, str]]
) -> None:
    done = run(
        write_environment(tmp_path / "env"), url, tmp_path, checking("seed-control"), data={"reset": reset}
    )
    check_that(done, [])
    found = [note for note in done.rollout.notes if note.code.startswith("seed-")]
    assert [note.code for note in found] == [code for code, _ in notes]
    assert all(note.text.startswith(words) for note, (_, words) in zip(found, notes, strict=True))


def test_all_checks_are_told_alike() -> None:
    assert list(KINDS) == list(CHECKS)
    with pytest.raises(SpecError, match="no check 'manners'") as caught:
        checking("manners").check()
    docs = DOCS.read_text(encoding="utf-8")
    for name, words in CHECKS.items():
        checking(name).check()
        assert name in caught.value.hint
        assert f"| `check:{name}` | {words} |\n" in docs
