"""ATIF documents: our models, a JSON Schema of the format's facts, and Harbor's own models agree on them."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from support.harbor_package import HARBOR_PYTHON, needs_harbor

from pytest_rlenv.trajectory.model import Trajectory, text_of_content
from pytest_rlenv.trajectory.reading import TrajectoryInvalid, parse_trajectory, problems_of, read_trajectory

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((Path(__file__).parent / "atif.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

Json = dict[str, Any]

SMALL: Json = {
    "schema_version": "ATIF-v1.4",
    "session_id": "s",
    "agent": {"name": "a", "version": "1"},
    "steps": [{"step_id": 1, "source": "user", "message": "hello"}],
}
STEP: Json = {
    "step_id": 2,
    "timestamp": "2026-01-02T03:04:05.678Z",
    "source": "agent",
    "model_name": "m",
    "reasoning_effort": 0.5,
    "reasoning_content": "hm",
    "message": [
        {"type": "text", "text": "look"},
        {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}},
        {"type": "audio", "source": {"media_type": "audio/wav", "path": "a.wav", "duration_sec": 1.5}},
    ],
    "tool_calls": [{"tool_call_id": "c", "function_name": "bash", "arguments": {"command": "ls"}}],
    "observation": {
        "results": [
            {"source_call_id": "c", "content": "out", "extra": {"exit_code": 0}},
            {"content": None, "subagent_trajectory_ref": [{"trajectory_id": "t"}]},
        ]
    },
    "metrics": {"prompt_tokens": 1, "completion_tokens": 2, "cost_usd": 0.1, "logprobs": [-0.5]},
    "llm_call_count": 1,
    "is_copied_context": False,
    "extra": {"any": [1, None]},
}
FULL: Json = {
    **SMALL,
    "schema_version": "ATIF-v1.8",
    "agent": {"name": "a", "version": "1", "model_name": "m", "tool_definitions": [{}], "extra": {}},
    "steps": [*SMALL["steps"], STEP],
    "notes": "n",
    "final_metrics": {"total_prompt_tokens": 1, "total_cost_usd": 0.1, "total_steps": 2},
    "continued_trajectory_ref": "next.json",
    "subagent_trajectories": [{**SMALL, "trajectory_id": "t"}],
    "extra": {},
}


def changed(place: str, value: Any, document: Json = FULL) -> Json:
    """Return a document with another value at a place such as ``steps.1.message``; ``...`` removes it."""
    new = copy.deepcopy(document)
    *parents, last = (int(part) if part.isdecimal() else part for part in place.split("."))
    inner: Any = new
    for part in parents:
        inner = inner[part]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return new


GOOD: dict[str, Json] = {
    "small": SMALL,
    "full": FULL,
    **{f"v1.{n}": changed("schema_version", f"ATIF-v1.{n}", SMALL) for n in range(9)},
    "no session": changed("session_id", ..., SMALL),
    "null session": changed("session_id", None, SMALL),
    "effort in words": changed("steps.1.reasoning_effort", "high"),
    "no call of the model": {
        **SMALL,
        "steps": [{"step_id": 1, "source": "agent", "message": "", "llm_call_count": 0}],
    },
    "nanoseconds": changed("steps.1.timestamp", "2026-01-02T03:04:05.123456789Z"),
    "tenths": changed("steps.1.timestamp", "2026-01-02T03:04:05.1Z"),
    "offset": changed("steps.1.timestamp", "2026-01-02T03:04:05+02:00"),
    "observed by the system": {
        **SMALL,
        "steps": [{"step_id": 1, "source": "system", "message": "", "observation": {"results": []}}],
    },
}
BAD: dict[str, tuple[Json, str]] = {
    "version": (changed("schema_version", "ATIF-v2.0"), "schema_version"),
    "no version": (changed("schema_version", ...), "schema_version: field required"),
    "no agent": (changed("agent", ...), "agent: field required"),
    "no steps": (changed("steps", []), "steps"),
    "unknown key": (changed("steps.1.thought", "x"), "steps[1].thought"),
    "unknown key at the top": (changed("messages", []), "messages"),
    "source": (changed("steps.0.source", "assistant"), "steps[0].source"),
    "no message": (changed("steps.0.message", ...), "steps[0].message"),
    "arguments as text": (changed("steps.1.tool_calls.0.arguments", "{}"), "arguments"),
    "a user's metrics": (
        changed("steps.0.metrics", {"prompt_tokens": 1}),
        "a step of the user has no metrics",
    ),
    "metrics without a call": (changed("steps.1.llm_call_count", 0), "without a call of the model"),
    "text part without text": (changed("steps.1.message", [{"type": "text"}]), "needs text"),
    "image that is a sound": (
        changed("steps.1.message.1.source.media_type", "audio/wav"),
        "cannot be audio/wav",
    ),
    "unresolvable reference": (
        changed("steps.1.observation.results.1.subagent_trajectory_ref", [{"session_id": "s"}]),
        "needs trajectory_id or trajectory_path",
    ),
    "negative count": (changed("steps.1.llm_call_count", -1), "llm_call_count"),
}
BETWEEN: dict[str, tuple[Json, str]] = {
    "numbering": (changed("steps.1.step_id", 3), "the step_id of step 2 is 3"),
    "numbered from 2": (changed("steps.0.step_id", 2, SMALL), "the step_id of step 1 is 2"),
    "result of another call": (
        changed("steps.1.observation.results.0.source_call_id", "d"),
        "a result of call 'd'",
    ),
    "time": (changed("steps.1.timestamp", "yesterday"), "is not a time"),
    "embedded without an id": (
        changed("subagent_trajectories.0.trajectory_id", ...),
        "needs a trajectory_id",
    ),
    "two of one id": (
        {**FULL, "subagent_trajectories": FULL["subagent_trajectories"] * 2},
        "have one trajectory_id",
    ),
}
"""What a JSON Schema cannot say: rules between parts."""

TAKEN_BY_HARBOR = ("no version",)
"""Bad documents that Harbor takes all the same: it supposes the latest version."""


@pytest.mark.parametrize("document", GOOD.values(), ids=GOOD)
def test_a_good_document_is_read_and_written_as_it_is(document: Json) -> None:
    VALIDATOR.validate(document)
    read = parse_trajectory(document)
    written = read.model_dump(mode="json", exclude_none=True)
    assert parse_trajectory(written) == read
    VALIDATOR.validate(written)


@pytest.mark.parametrize(("document", "said"), BAD.values(), ids=BAD)
def test_a_bad_document_is_told_what_is_wrong_and_where(document: Json, said: str) -> None:
    assert not VALIDATOR.is_valid(document)
    assert any(said in problem for problem in problems_of(document)), problems_of(document)


@pytest.mark.parametrize(("document", "said"), BETWEEN.values(), ids=BETWEEN)
def test_rules_between_parts_hold(document: Json, said: str) -> None:
    assert any(said in problem for problem in problems_of(document)), problems_of(document)


def test_the_words_of_a_message_of_parts() -> None:
    message = parse_trajectory(FULL).steps[1].message
    assert text_of_content(message) == "look\n[image: a.png]\n[audio: a.wav]"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "cannot be read: No such file"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "the document: "),
        (b"\xff", "not JSON"),
    ],
)
def test_a_file_that_is_no_document_is_refused(data: bytes | None, said: str, tmp_path: Path) -> None:
    file = tmp_path / "trajectory.json"
    if data is not None:
        file.write_bytes(data)
    with pytest.raises(TrajectoryInvalid, match=said):
        read_trajectory(file)


def test_many_problems_are_told_in_one_line() -> None:
    with pytest.raises(TrajectoryInvalid, match=r"; and \d+ more$"):
        parse_trajectory({**SMALL, **{f"key{n}": n for n in range(9)}})


# ---- any document

# a schema takes 1.0 for an integer, so it is left out
VALUES = st.none() | st.booleans() | st.integers(-2, 9) | st.floats(0.1, 0.9) | st.text(max_size=3)
ANYTHING: SearchStrategy[Any] = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
)


def places(value: Any, prefix: str = "") -> list[str]:
    """Return all places of a document, as :func:`changed` takes them."""
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    found = []
    for key, child in children:
        found.append(f"{prefix}{key}")
        found += places(child, f"{prefix}{key}.")
    return found


FREE = ("extra", "arguments", "tool_definitions")
PLACES = [place for place in places(FULL) if not any(f".{name}." in f".{place}" for name in FREE)]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(PLACES), st.just(...) | ANYTHING)
def test_models_and_schema_agree_on_any_change(place: str, value: Any) -> None:
    try:
        document = changed(place, value)
    except TypeError:
        return
    problems = problems_of(document)
    if VALIDATOR.is_valid(document):
        rules = ["step_id", "a result of call", "is not a time", "a trajectory_id", "one trajectory_id"]
        assert all(any(rule in problem for rule in rules) for problem in problems), problems
    else:
        assert problems


@settings(max_examples=100, deadline=None)
@given(ANYTHING)
def test_anything_else_is_refused_without_a_crash(document: Any) -> None:
    assert problems_of(document)


HARBOR = """
import json, sys
from pydantic import ValidationError
from harbor.models.trajectories import Trajectory
for line in sys.stdin:
    try:
        Trajectory.model_validate(json.loads(line))
    except ValidationError as error:
        print("bad", repr(str(error).splitlines()[:3]))
    else:
        print("good")
"""


@needs_harbor
def test_harbor_takes_and_refuses_the_same_documents() -> None:
    good = list(GOOD.values())
    bad = [document for document, _ in [*BAD.values(), *BETWEEN.values()]]
    given_ = "".join(json.dumps(document) + "\n" for document in good + bad)
    done = subprocess.run(
        [HARBOR_PYTHON, "-c", HARBOR], input=given_, capture_output=True, text=True, check=True
    )
    said = [line.split()[0] for line in done.stdout.splitlines()]
    names = [*GOOD, *BAD, *BETWEEN]
    expected = dict(zip(names, ["good"] * len(good) + ["bad"] * len(bad), strict=True))
    assert dict(zip(names, said, strict=True)) == expected | dict.fromkeys(TAKEN_BY_HARBOR, "good")


def test_the_schema_of_the_models_says_the_same_of_the_top() -> None:
    ours = Trajectory.model_json_schema()
    assert set(ours["$defs"]["Trajectory"]["properties"]) == set(SCHEMA["$defs"]["trajectory"]["properties"])
