"""What is read of an environment's files and of its server's words, however they are written."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rlenv.errors import (
    EnvironmentFailed,
    RewardContractBroken,
    RewardInvalid,
    RewardMissing,
    TaskInvalid,
)
from pytest_rlenv.frameworks.openenv.frames import ErrorFrame, Frame, read_answer, read_observation
from pytest_rlenv.frameworks.openenv.manifest import (
    Manifest,
    ManifestInvalid,
    image_of_space,
    read_manifest,
    read_pointer,
)
from pytest_rlenv.frameworks.openenv.plans import Plan, parse_plan, read_frames
from pytest_rlenv.frameworks.openenv.playground import check_selection
from pytest_rlenv.frameworks.openenv.scoring import Score

JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
WORDS = """
validation reward range resources cpu memory_mb capabilities oracle form tasks port app network mode name
episode_timeout_s reward_range execution canaries
"""
KEYS = st.sampled_from(WORDS.split())
MANIFESTS = st.recursive(
    JSON, lambda inner: st.dictionaries(KEYS, inner, max_size=4) | st.lists(inner, max_size=3), max_leaves=20
)


def manifest(folder: Path, text: str) -> Manifest:
    (folder / "openenv.yaml").write_text(text)
    return read_manifest(folder, "openenv.yaml")


def test_all_that_matters_is_read(tmp_path: Path) -> None:
    found = manifest(
        tmp_path,
        """
name: guess
app: pkg.server:app
port: 7860
validation:
  reward: {range: [-2, 3], oracle_tolerance: 0.1, floor_margin: 0.2}
  resources: {cpu: 2, memory_mb: 512, episode_timeout_s: 30, gpus: 1}
  network: {mode: allowlist, allowed_hosts: [example.org]}
  capabilities:
    oracle: {form: injected_state, location: solved.json}
    set_state: true
    canaries: traps
  execution: {requires_credentials: true, dockerfile: docker/D, context: docker, probe_path: probe.json}
""",
    )
    assert found == Manifest(
        name="guess",
        file="openenv.yaml",
        app="pkg.server:app",
        port=7860,
        reward_range=(-2.0, 3.0),
        oracle_tolerance=0.1,
        floor_margin=0.2,
        timeout_sec=30.0,
        cpus=2.0,
        memory_mb=512,
        gpus=1,
        network="allowlist",
        requires_credentials=True,
        oracle_form="injected_state",
        oracle_location="solved.json",
        set_state=True,
        canaries="traps",
        probe="probe.json",
        dockerfile="docker/D",
        context="docker",
    )
    assert not found.warnings


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: x\nruntime: {kind: fastapi}\napp: {module: a}\n", {"app": "server.app:app"}),
        ("reward: {range: [0, 5]}", {"reward_range": (0.0, 5.0)}),
        ("reward_range: {min: -1, max: 1}", {"reward_range": (-1.0, 1.0)}),
        ("reward_range: [1, 0]", {"reward_range": None}),
        ("port: many", {"port": None}),
        ("validation: yes", {"timeout_sec": 600.0}),
        ("validation: {resources: {cpu: 0, memory_mb: .nan}}", {"cpus": None, "memory_mb": None}),
        ("tasks: easy", {"tasks": ()}),
        ("tasks: [easy, {id: hard}]", {"tasks": ("easy", {"id": "hard"})}),
    ],
)
def test_what_is_of_another_form_is_as_if_it_were_not_there(
    tmp_path: Path, text: str, expected: dict[str, Any]
) -> None:
    found = manifest(tmp_path, text)
    assert {name: getattr(found, name) for name in expected} == expected


@given(MANIFESTS)
def test_any_content_is_read_or_told(tmp_path_factory: pytest.TempPathFactory, content: Any) -> None:
    folder = tmp_path_factory.mktemp("any")
    text = json.dumps(content)
    try:
        found = manifest(folder, text)
    except ManifestInvalid:
        return
    assert found.timeout_sec > 0
    assert found.cpus is None or found.cpus > 0
    assert found.reward_range is None or found.reward_range[0] < found.reward_range[1]


@pytest.mark.parametrize("text", ["[", "- a", "3", "", "a: \x00"])
def test_what_is_no_map_is_told(tmp_path: Path, text: str) -> None:
    with pytest.raises(ManifestInvalid, match=r"openenv\.yaml"):
        manifest(tmp_path, text)


def test_the_port_may_be_on_the_card_of_the_space(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("---\nsdk: docker\napp_port: 7860\n---\n# x\n")
    assert manifest(tmp_path, "name: x").port == 7860
    assert manifest(tmp_path, "name: x\nport: 9000").port == 9000


def test_a_dataset_names_an_image_or_a_space(tmp_path: Path) -> None:
    (tmp_path / "environment.yaml").write_text("frameworks: {openenv: {space_id: A/b_C.1}}")
    found = read_pointer(tmp_path, "environment.yaml")
    assert found is not None
    assert found.image == image_of_space("A/b_C.1") == "registry.hf.space/a-b-c-1:latest"
    (tmp_path / "environment.yaml").write_text("frameworks: {verifiers: {}}")
    assert read_pointer(tmp_path, "environment.yaml") is None


# ---- recorded episodes


def test_openenvs_own_plans_are_read() -> None:
    text = (
        '{"plan_schema_version": "1", "reset": {"episode_id": "e", "seed": 4, "options": {"level": 1}}, '
        '"actions": [{"a": 1}]}'
    )
    assert parse_plan(text, "p") == Plan(({"a": 1},), {"seed": 4, "level": 1}, "e")
    assert parse_plan('{"actions": []}', "p") == Plan(())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not JSON"),
        ("[]", "no object"),
        ("{}", "actions is no list"),
        ('{"actions": [1]}', "actions is no list"),
        ('{"actions": [], "reset": []}', "reset is no object"),
        ('{"actions": [], "reset": {"options": 1}}', "options is no object"),
        (json.dumps({"actions": [{}] * 101}), "101 actions"),
        ('{"actions": ' + '[{"a": ' + "[" * 40 + "]" * 40 + "}]}", "more than 32 deep"),
    ],
)
def test_what_is_no_plan_is_told(text: str, words: str) -> None:
    with pytest.raises(TaskInvalid, match=words):
        parse_plan(text, "p.json")


def test_frames_of_a_killed_run_are_read(tmp_path: Path) -> None:
    lines = [
        {"at": 0, "sent": {"type": "reset", "data": {"seed": 1, "episode_id": "e"}}},
        {"at": 0, "received": {"type": "observation", "data": {}}},
        {"at": 0, "sent": {"type": "step", "data": {"a": 1}}},
        {"at": 0, "sent": {"type": "state"}},
        {"cut": "..."},
    ]
    (tmp_path / "frames.jsonl").write_text("\n".join(map(json.dumps, lines)) + '\n{"at": 1, "se')
    assert read_frames(tmp_path / "frames.jsonl") == Plan(({"a": 1},), {"seed": 1}, "e")


# ---- frames


@given(JSON)
def test_any_answer_is_a_frame_or_an_error(content: Any) -> None:
    for frame in (content, {"type": "observation", "data": content}, {"type": "error", "data": content}):
        try:
            answer = read_answer(json.dumps(frame))
            read = read_observation(answer, "a step")
        except (ErrorFrame, EnvironmentFailed, RewardInvalid):
            continue
        assert read.reward is None or math.isfinite(read.reward)


def test_what_is_wrong_with_an_action_is_told_place_by_place() -> None:
    errors = [{"loc": ["a", 0], "msg": "is not an integer"}, {"type": "missing"}, "odd"]
    data = {"code": "VALIDATION_ERROR", "message": "Invalid message", "errors": errors}
    with pytest.raises(ErrorFrame) as caught:
        read_answer(json.dumps({"type": "error", "data": data}))
    assert caught.value.problems == "a.0: is not an integer; the action: missing"
    assert caught.value.of_the_request


# ---- rewards


def score(rule: str, *rewards: float | None, begin: float | None = None, done: bool = True) -> Score:
    frames = [Frame({}, reward, done and index == len(rewards)) for index, reward in enumerate(rewards, 1)]
    return Score(rule, Frame({}, begin), frames)


@pytest.mark.parametrize(
    ("made", "reward"),
    [
        (score("last", 0.25, None), 0.25),
        (score("sum", 0.25, None, 0.5), 0.75),
        (score("max", 0.25, 1.0, 0.5), 1.0),
        (score("final", 1.0, 0.5), 0.5),
        (score("last", begin=0.5), 0.5),  # no step was made
        (score("last", None, begin=0.5), None),  # what a reset gives is not what a step earned
        (score("final", 1.0, None), None),
        (score("final", 1.0, done=False), None),
        (score("last"), None),
    ],
)
def test_which_reward_counts(made: Score, reward: float | None) -> None:
    assert made.value() == reward
    if reward is None:
        with pytest.raises(RewardMissing):
            made.reward(None)
    else:
        assert made.reward(None) == reward


@pytest.mark.parametrize("declared", [None, (0.0, 0.5)])
def test_a_reward_out_of_range_is_an_error(declared: tuple[float, float] | None) -> None:
    with pytest.raises(RewardContractBroken):
        score("last", 1.5).reward(declared)


# ---- the task that is played


@pytest.mark.parametrize(
    ("asked", "state", "observation", "said"),
    [
        ({"index": 3}, {"index": 3}, {}, True),
        ({"index": "3"}, {"index": 3}, {}, True),
        ({"task": "a"}, {}, {"task": "a"}, True),
        ({"task": "a"}, {}, {}, False),
        ({"seed": 1}, {"seed": 9}, {}, False),
        ({"options": {"a": 1}}, {"options": {}}, {}, False),
    ],
)
def test_what_was_asked_for_is_compared_with_what_is_said(
    asked: dict[str, Any], state: dict[str, Any], observation: dict[str, Any], said: bool
) -> None:
    assert check_selection(asked, state, observation) == (said, "")
