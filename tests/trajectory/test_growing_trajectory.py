"""A trajectory on disk is a whole document after each step, whatever is added."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from pytest_rlenv.trajectory.model import AgentInfo, Metrics, Observation, Result, Step, ToolCall
from pytest_rlenv.trajectory.reading import read_trajectory
from pytest_rlenv.trajectory.writing import GrowingTrajectory, totals, write_trajectory

SCHEMA = json.loads((Path(__file__).parent / "atif.schema.json").read_text())
ME = AgentInfo(name="me", version="1", model_name="p/m")
CALL = ToolCall(tool_call_id="c", function_name="bash", arguments={"command": "ls"})


def grow(path: Path, **more: Any) -> GrowingTrajectory:
    return GrowingTrajectory(path, ME, session_id="s", **more)


def test_a_step_is_there_as_it_is_added_and_changed_when_it_was_observed(tmp_path: Path) -> None:
    file = grow(tmp_path / "t.json", extra={"why": "a test"})
    assert not (tmp_path / "t.json").exists(), "a document has at least one step"
    file.add(source="user", message="do it")
    file.add(source="agent", message="", tool_calls=[CALL], metrics=Metrics(prompt_tokens=5, cost_usd=0.25))
    seen = read_trajectory(tmp_path / "t.json")
    assert [step.source for step in seen.steps] == ["user", "agent"]
    assert seen.steps[1].observation is None
    file.observe(Observation(results=[Result(source_call_id="c", content="a much longer text " * 20)]))
    file.observe(Observation(results=[Result(source_call_id="c", content="short")]))
    file.add(source="agent", message="done", metrics=Metrics(prompt_tokens=7))
    seen = read_trajectory(tmp_path / "t.json")
    assert seen.steps == file.steps
    assert seen.steps[1].observation is not None
    assert seen.steps[1].observation.results[0].content == "short"
    assert seen.final_metrics == totals(file.steps)
    assert seen.final_metrics.total_prompt_tokens == 12
    assert seen.final_metrics.total_cost_usd == 0.25
    assert seen.final_metrics.total_completion_tokens is None, "unknown is not 0"
    assert seen.extra == {"why": "a test"}


def test_what_the_format_does_not_have_is_refused_and_leaves_the_file_whole(tmp_path: Path) -> None:
    file = grow(tmp_path / "t.json")
    file.add(source="user", message="do it")
    with pytest.raises(ValidationError, match="a step of the user has no metrics"):
        file.add(source="user", message="x", metrics=Metrics())
    with pytest.raises(ValidationError, match="which the step lacks"):
        file.observe(Observation(results=[Result(source_call_id="c")]))
    assert len(read_trajectory(tmp_path / "t.json").steps) == 1


def test_an_older_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text("x" * 10_000)
    grow(path).add(source="user", message="new")
    assert read_trajectory(path).steps[0].message == "new"


def test_what_was_copied_is_not_paid_for_twice(tmp_path: Path) -> None:
    file = grow(tmp_path / "t.json")
    file.add(source="agent", message="", is_copied_context=True, metrics=Metrics(prompt_tokens=5))
    file.add(source="agent", message="", metrics=Metrics(prompt_tokens=7))
    assert totals(file.steps).total_prompt_tokens == 7


def test_each_step_costs_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = grow(tmp_path / "t.json")
    for _ in range(50):
        file.add(source="user", message="x" * 1000)
    written = 0
    real = Path.open

    def counting(self: Path, *args: Any, **kwargs: Any) -> Any:
        opened = real(self, *args, **kwargs)
        write = opened.write

        class Counted:
            def __enter__(self) -> Any:
                return self

            def __exit__(self, *_: object) -> None:
                opened.close()

            def write(self, data: bytes) -> int:
                nonlocal written
                written += len(data)
                return int(write(data))

            def __getattr__(self, name: str) -> Any:
                return getattr(opened, name)

        return Counted()

    monkeypatch.setattr(Path, "open", counting)
    file.add(source="user", message="y")
    assert 0 < written < 1000


TEXTS = st.text(max_size=20)
STEPS = st.lists(
    st.fixed_dictionaries(
        {"source": st.sampled_from(["user", "agent", "system"]), "message": TEXTS},
        optional={"extra": st.dictionaries(TEXTS, st.integers() | TEXTS, max_size=2)},
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=50, deadline=None)
@given(STEPS)
def test_any_texts_stay_as_they_are(
    tmp_path_factory: pytest.TempPathFactory, steps: list[dict[str, Any]]
) -> None:
    path = tmp_path_factory.mktemp("any") / "t.json"
    file = grow(path)
    for count, step in enumerate(steps, 1):
        file.add(**step)
        document = json.loads(path.read_bytes())
        jsonschema.Draft202012Validator(SCHEMA).validate(document)
        assert [each["message"] for each in document["steps"]] == [each["message"] for each in steps[:count]]
    whole = read_trajectory(path)
    write_trajectory(path.with_name("again.json"), whole)
    assert read_trajectory(path.with_name("again.json")) == whole


def test_a_step_keeps_a_time_that_it_has(tmp_path: Path) -> None:
    step: Step = grow(tmp_path / "t.json").add(source="user", message="", timestamp="2026-01-01T00:00:00Z")
    assert step.timestamp == "2026-01-01T00:00:00Z"
