"""What the report takes of a rollout's folder: within its share, links not followed, whatever is there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rlenv.reports.html import folder as folders
from pytest_rlenv.reports.html.evidence import EACH, FILES_SHOWN, Evidence, gather, shares
from pytest_rlenv.reports.html.figures import BINS, error_causes, histogram, stage_times
from pytest_rlenv.reports.html.folder import StoredFile
from pytest_rlenv.reports.html.trajectory import MAX_STEPS, read_trajectory
from pytest_rlenv.verdict import Outcome

PASSED, FAILED = Outcome.PASSED, Outcome.FAILED


def of(folder: Path, files: dict[str, str | bytes], share: int = EACH) -> Evidence:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return gather(folder, share)


def trajectory_of(folder: Path, content: object, room: int = EACH) -> Any:
    path = folder / "trajectory.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_trajectory(StoredFile(path, ("agent", "trajectory.json"), path.stat().st_size), room)


# ---- shares


@pytest.mark.parametrize(
    ("passed", "expected"),
    [
        ([], []),
        ([True], [100]),
        ([False, False], [100, 100]),
        ([True] * 10, [50] * 10),
        ([True] * 6 + [False], [50] * 6 + [100]),
        ([True] * 96 + [False], [5] * 96 + [20]),
    ],
)
def test_what_there_is_room_for_is_shared(passed: list[bool], expected: list[int]) -> None:
    assert shares(passed, total=500, each=100) == expected


@given(st.lists(st.booleans(), max_size=300))
def test_shares_never_add_up_to_more(passed: list[bool]) -> None:
    assert sum(shares(passed, total=10_000, each=1000)) <= 10_000


def test_nothing_shown_is_more_than_its_share(tmp_path: Path) -> None:
    steps = [{"source": "agent", "message": "m" * 5000} for _ in range(40)]
    files: dict[str, str | bytes] = {f"agent/log{number}.txt": "a" * 40_000 for number in range(9)}
    files |= {"verifier/test-stdout.txt": "v" * 90_000, "agent/trajectory.json": json.dumps({"steps": steps})}
    found = of(tmp_path, files, share=20_000)
    texts = [log.text for log in (*found.verifier, *found.agent)]
    texts += [step.message for each in found.trajectories for step in each.steps]
    assert sum(map(len, texts)) <= 21_000
    assert len(found.agent) == 6
    assert found.trajectories[0].total == 40


# ---- logs


def test_the_end_of_a_log_begins_with_a_whole_line(tmp_path: Path) -> None:
    log = "".join(f"line {number}\n" for number in range(1000))
    (found,) = of(tmp_path, {"verifier/test-stdout.txt": log}, share=1000).verifier
    assert found.text.splitlines()[0].startswith("line ")
    assert found.text.endswith("line 999")
    assert found.size == len(log)
    assert found.cut == log.index(found.text)


def test_a_log_in_one_line_is_cut_in_it(tmp_path: Path) -> None:
    (found,) = of(tmp_path, {"verifier/test-stdout.txt": "x" * 5000}, share=1000).verifier
    assert (len(found.text), found.cut) == (300, 4700)


def test_what_is_no_text_is_listed_and_not_shown(tmp_path: Path) -> None:
    found = of(
        tmp_path, {"agent/dump": b"\x7fELF\0\0", "agent/empty.txt": "", "agent/raw.txt": b"\xff\x1b[31mred"}
    )
    assert [(log.name, log.text) for log in found.agent] == [("agent/raw.txt", "\ufffdred")]
    assert [name for name, _ in found.files] == ["agent/dump", "agent/empty.txt", "agent/raw.txt"]


def test_what_the_scripts_printed_comes_first(tmp_path: Path) -> None:
    found = of(tmp_path, {"verifier/a.txt": "a", "verifier/test-stdout.txt": "b", "agent/z.txt": "c"})
    assert [log.name for log in found.verifier] == ["verifier/test-stdout.txt", "verifier/a.txt"]


def test_steps_have_their_own(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "steps/build/instruction.md": "Build.",
        "steps/build/agent/oracle.txt": "built",
        "steps/fix/instruction.md": "Fix.",
        "steps/fix/verifier/test-stdout.txt": "fixed",
        "steps/fix/agent/trajectory.json": "[]",
        "steps/fix/workdir/agent/notes.txt": "no log",
    }
    found = of(tmp_path, files)
    assert found.instructions == {"build": ("Build.", 0), "fix": ("Fix.", 0)}
    assert [log.name for log in found.agent] == ["steps/build/agent/oracle.txt"]
    assert [log.name for log in found.verifier] == ["steps/fix/verifier/test-stdout.txt"]
    assert [each.name for each in found.trajectories] == ["steps/fix/agent/trajectory.json"]


def test_links_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "test-stdout.txt").write_text("private")
    folder = tmp_path / "rollout"
    (folder / "verifier").mkdir(parents=True)
    (folder / "verifier" / "test-stdout.txt").symlink_to(secret / "test-stdout.txt")
    (folder / "agent").symlink_to(secret)
    (folder / "instruction.md").symlink_to(secret / "test-stdout.txt")
    os.mkfifo(folder / "verifier" / "pipe")
    assert gather(folder, EACH) == Evidence()


def test_a_million_files_are_not_all_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "MAX_FILES", 300)
    found = of(tmp_path, {f"agent/{number:03}": "" for number in range(301)})
    assert (len(found.files), found.more_files) == (FILES_SHOWN, True)


def test_artifacts_are_listed_first(tmp_path: Path) -> None:
    found = of(tmp_path, {"agent/a": "1", "artifacts/z.csv": "22", "verifier/b": "3"})
    assert found.files[0] == ("artifacts/z.csv", 2)


def test_a_folder_that_is_not_there_is_told_of() -> None:
    assert "not there" in gather(None, EACH).problem


# ---- trajectories


@pytest.mark.parametrize(
    ("content", "messages"),
    [
        ({"steps": [{"source": "user", "message": "hi"}]}, ["hi"]),
        ([{"role": "user", "content": "hi"}], ["hi"]),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]}, ["hi"]),
        ({"trajectory": {"steps": [{"message": "hi"}]}}, ["hi"]),
        ({"steps": ["hi", 3, None]}, ["hi", "3", ""]),
        ({"steps": [{"message": {"odd": True}}]}, ['{\n  "odd": true\n}']),
        ({"steps": [{"message": [{"type": "image", "source": {"path": "a.png"}}]}]}, ["[image: a.png]"]),
    ],
)
def test_odd_forms_are_read(tmp_path: Path, content: object, messages: list[str]) -> None:
    assert [step.message for step in trajectory_of(tmp_path, content).steps] == messages


def test_calls_and_results(tmp_path: Path) -> None:
    step = {
        "source": "agent",
        "reasoning_content": "why",
        "tool_calls": [
            {"tool_call_id": "1", "function_name": "bash", "arguments": {"command": "ls"}},
            {"id": "2", "function": {"name": "read", "arguments": "a.txt"}},
            "odd",
        ],
        "observation": {
            "results": [{"source_call_id": "1", "content": "a.txt"}, {"content": [{"text": "b"}]}]
        },
        "metrics": {"prompt_tokens": 12, "nested": {}, "flag": True},
        "timestamp": "2026-11-02T13:03:20Z",
    }
    (found,) = trajectory_of(tmp_path, {"steps": [step]}).steps
    assert found.calls == [("bash", '{\n  "command": "ls"\n}'), ("read", "a.txt"), ("call", "odd")]
    assert found.results == ["a.txt", "b"]
    assert found.reasoning == "why"
    assert found.facts == [("timestamp", "2026-11-02T13:03:20Z"), ("prompt_tokens", "12")]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('"text"', "no list of steps"),
        ("{}", "no list of steps"),
    ],
)
def test_what_is_no_trajectory_is_told_of(tmp_path: Path, content: str, problem: str) -> None:
    assert problem in trajectory_of(tmp_path, content).problem


def test_a_long_one_is_shown_at_both_ends(tmp_path: Path) -> None:
    found = trajectory_of(tmp_path, [{"message": f"{number}"} for number in range(1000)])
    assert (found.total, len(found.steps)) == (1000, MAX_STEPS)
    assert [found.steps[0].number, found.steps[-1].number] == [1, 1000]


def test_a_long_text_says_how_much_is_cut(tmp_path: Path) -> None:
    (step,) = trajectory_of(tmp_path, [{"message": "x" * 9000}]).steps
    assert step.message.endswith("[... 1,000 more characters]")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["steps", "message", "tool_calls", "function", "observation", "results", "content", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(content=json_values)
def test_no_json_breaks_it(tmp_path_factory: pytest.TempPathFactory, content: object) -> None:
    found = trajectory_of(tmp_path_factory.mktemp("any"), {"steps": [content]})
    assert found.total == 1
    assert isinstance(found.steps[0].message, str)


# ---- figures


@pytest.mark.parametrize(
    ("rewards", "low", "high", "bins"),
    [
        (
            [(0.0, FAILED), (1.0, PASSED), (1.0, PASSED)],
            0.0,
            1.0,
            {0: {"failed": 1}, BINS - 1: {"passed": 2}},
        ),
        ([(0.5, FAILED)], 0.0, 1.0, {10: {"failed": 1}}),
        ([(0.3, FAILED), (0.15, FAILED)], 0.0, 1.0, {6: {"failed": 1}, 3: {"failed": 1}}),
        ([(-1.0, FAILED), (3.0, PASSED)], -1.0, 3.0, {0: {"failed": 1}, BINS - 1: {"passed": 1}}),
        ([(1e308, PASSED), (-1e308, FAILED)], -1e308, 1e308, {BINS - 1: {"passed": 1}, 0: {"failed": 1}}),
    ],
)
def test_rewards_by_size(
    rewards: list[tuple[float, Outcome]], low: float, high: float, bins: dict[int, dict[str, int]]
) -> None:
    found = histogram(rewards)
    assert found is not None
    assert (found["low"], found["high"]) == (low, high)
    assert {number: each for number, each in enumerate(found["bins"]) if each} == bins


def test_no_rewards_have_no_distribution() -> None:
    assert histogram([]) is None


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30))
def test_every_reward_is_in_a_bin(rewards: list[float]) -> None:
    found = histogram((reward, PASSED) for reward in rewards)
    assert found is not None
    assert sum(each.get("passed", 0) for each in found["bins"]) == len(rewards)


def test_stages_come_in_the_order_of_a_rollout() -> None:
    found = stage_times(
        [{"verify": 1.0, "agent": 3.0, "odd": 1.0}, {"agent": 5.0}, {"agent": 100.0, "x": "?"}]
    )
    assert [(each["stage"], each["median"], each["total"], each["count"]) for each in found] == [
        ("agent", 5.0, 108.0, 3),
        ("verify", 1.0, 1.0, 1),
        ("odd", 1.0, 1.0, 1),
    ]


def test_the_commonest_cause_comes_first() -> None:
    errors = [
        {"type": "BuildFailed", "stage": "build", "kind": "task", "message": "one", "hint": "h"},
        {"type": "RewardMissing", "stage": "verify", "kind": "task", "message": "first"},
        {"type": "RewardMissing", "stage": "verify", "kind": "task", "message": "second"},
    ]
    found = error_causes(errors)
    assert [(each["type"], each["count"], each["message"], each["hint"]) for each in found] == [
        ("RewardMissing", 2, "first", ""),
        ("BuildFailed", 1, "one", "h"),
    ]
