"""Reference answers, as their servers read them."""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Sequence
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.nemo_gym import row

from pytest_rlenv import toml
from pytest_rlenv.errors import AgentFailed, SpecError
from pytest_rlenv.frameworks.nemo_gym.oracles import (
    BUILT_IN,
    builder_by_shape,
    builder_for,
    built,
    check_named,
)
from pytest_rlenv.frameworks.nemo_gym.oracles.calendars import schedule
from pytest_rlenv.frameworks.nemo_gym.oracles.structured import example
from pytest_rlenv.frameworks.nemo_gym.responses import Item, message


def answer(server: str, **fields: Any) -> Sequence[Item] | None:
    builder = builder_for(server)
    assert builder is not None
    return built(builder, row(**fields), server)


def said(server: str, **fields: Any) -> str:
    items = answer(server, **fields)
    assert items is not None
    (item,) = items
    return str(item["content"][0]["text"])


def called(server: str, **fields: Any) -> list[tuple[str, Any]]:
    items = answer(server, **fields)
    assert items is not None
    return [(i["name"], json.loads(i["arguments"])) for i in items if i["type"] == "function_call"]


CALL = {"type": "function_call", "name": "look", "arguments": '{"at": 1}'}


@pytest.mark.parametrize(
    ("server", "fields", "text"),
    [
        ("mcqa", {"expected_answer": "B"}, r"\boxed{B}"),
        ("gpqa_diamond", {"expected_answer": "C"}, r"\boxed{C}"),
        ("bunsenbench_chemistry_mcq", {"expected_answer": "A"}, r"\boxed{A}"),
        ("math_with_judge", {"expected_answer": r"\(\frac{1}{2}\)"}, r"\boxed{\frac{1}{2}}"),
        ("polymath", {"expected_answer": 4}, r"\boxed{4}"),
        ("physics_judge", {"expected_answer": r"\boxed{h/p}"}, r"\boxed{h/p}"),
        ("ugphysics_judge", {"expected_answer": "$x$"}, r"\boxed{x}"),
        ("equivalence_rule", {"expected_answer": " as it is "}, " as it is "),
        ("imo_gradingbench", {"expected_answer": "almost"}, "almost"),
        ("terminus_judge", {"expected_answer": "{}"}, "{}"),
        ("hotpotqa_qa", {"expected_answer": "yes"}, '{"answer": "yes"}'),
        ("graphwalks", {"expected_answer": '["a", "b"]'}, "Final Answer: [a, b]"),
        ("reasoning_gym", {"answer": "Zoey"}, "<answer>Zoey</answer>"),
        ("arc_agi", {"expected_output": [[1, 2]]}, r"\boxed{[[1, 2]]}"),
        ("math_proof_judgement", {"expected_judgement": "Judgement: No"}, "Judgement: No"),
        ("proof_genselect", {"correct_index": 2}, "<best_solution>2</best_solution>"),
        (
            "circle_count",
            {"circles": [{"color": "red"}, {"color": "blue"}, {"color": "red"}], "target_color": "red"},
            r"\boxed{2}",
        ),
        (
            "single_step_tool_use_with_argument_comparison",
            {"expected_action": {"type": "message", "content": "Which one?"}},
            "Which one?",
        ),
    ],
)
def test_an_answer_in_words(server: str, fields: dict[str, Any], text: str) -> None:
    assert said(server, **fields) == text


@pytest.mark.parametrize(
    ("server", "fields", "calls"),
    [
        (
            "workplace_assistant",
            {"ground_truth": [CALL, {"name": "b", "arguments": "{}"}]},
            [("look", {"at": 1}), ("b", {})],
        ),
        ("workplace_assistant", {"ground_truth": []}, []),
        ("xlam_fc", {"expected_answers": [{"name": "look", "arguments": {"at": 1}}]}, [("look", {"at": 1})]),
        ("swe_pivot", {"expected_action": CALL}, [("look", {"at": 1})]),
        (
            "terminal_multi_harness",
            {"expected_action": {"type": "function_call_batch", "ordered": True, "calls": [CALL, CALL]}},
            [("look", {"at": 1})] * 2,
        ),
        (
            "circle_click",
            {
                "circles": [{"color": "red", "x": 1, "y": 2}, {"color": "blue", "x": 3, "y": 4}],
                "target_color": "blue",
            },
            [("click", {"x": 3, "y": 4})],
        ),
        (
            "example_session_state_mgmt",
            {"initial_count": 3, "expected_count": 6},
            [("increment_counter", {"count": 3}), ("get_counter_value", {})],
        ),
    ],
)
def test_an_answer_in_calls(server: str, fields: dict[str, Any], calls: list[Any]) -> None:
    assert called(server, **fields) == calls


@pytest.mark.parametrize(
    ("server", "fields"),
    [
        ("mcqa", {"expected_answer": None}),
        ("mcqa", {"expected_answer": ""}),
        ("mcqa", {}),
        ("reasoning_gym", {"answer": None}),
        ("workplace_assistant", {}),
        ("xlam_fc", {"expected_answers": []}),
        ("swe_pivot", {}),
        ("circle_click", {"circles": [], "target_color": "red"}),
        ("arc_agi", {}),
    ],
)
def test_a_row_that_names_no_answer_has_none(server: str, fields: dict[str, Any]) -> None:
    assert answer(server, **fields) is None


@pytest.mark.parametrize(
    ("server", "fields"),
    [
        ("graphwalks", {"expected_answer": "no list"}),
        ("structured_outputs", {}),
        ("structured_outputs", {"schema_str": "{"}),
        ("workplace_assistant", {"ground_truth": [{"name": "a"}]}),
        ("calendar", {"exp_cal_state": {"0": {}}}),
    ],
)
def test_a_row_of_another_form_is_told(server: str, fields: dict[str, Any]) -> None:
    with pytest.raises(AgentFailed, match=f"the oracle of {server} cannot answer this row"):
        answer(server, **fields)


@pytest.mark.parametrize(
    "returned",
    [
        "42",
        [42],
        {"type": "message"},
        [{"role": "assistant"}],
        [{"type": "function_call"}],
        [{**CALL, "name": 7}],
    ],
)
def test_what_is_no_output_is_told(returned: Any) -> None:
    with pytest.raises(
        AgentFailed, match="the oracle of riddles returned what is no list of items"
    ) as raised:
        built(lambda row: returned, row(), "riddles")
    assert "message() and function_call()" in raised.value.hint


def test_a_builder_that_exits_fails_its_row() -> None:
    def leave(row: Any) -> list[Item]:
        raise SystemExit(3)

    with pytest.raises(AgentFailed, match="SystemExit: 3"):
        built(leave, row(), "riddles")


def test_all_builders_are_there() -> None:
    assert all(builder_for(name) is not None for name in BUILT_IN)
    assert builder_for("verifif") is None


# ---- one's own


def own(row: Any) -> list[Item]:
    return [message(f"own {row['expected_answer']}")]


HERE = f"{__name__}:own"


@pytest.mark.parametrize("named", [f"mcqa={HERE}", f"*={HERE}"])
def test_a_builder_of_ones_own_comes_first(named: str) -> None:
    builder = builder_for("mcqa", [named])
    assert builder is own
    assert builder_for("polymath", [f"mcqa={HERE}"]) is not own


@pytest.mark.parametrize("named", ["mcqa=no_such:thing", f"mcqa={__name__}:nothing", f"mcqa={__name__}:HERE"])
def test_a_builder_that_is_none_is_a_usage_error(named: str) -> None:
    with pytest.raises(SpecError, match="--rlenv-nemo-oracle"):
        check_named([named])


@pytest.mark.parametrize(
    ("fields", "there"),
    [
        ({"ground_truth": [CALL]}, True),
        ({"ground_truth": []}, False),
        ({"ground_truth": "B"}, False),
        ({"ground_truth": [{"name": "a"}]}, False),
        ({"expected_answer": "4"}, False),
    ],
)
def test_an_unknown_servers_row_may_list_its_calls(fields: dict[str, Any], there: bool) -> None:
    assert (builder_by_shape(row(**fields)) is not None) is there


# ---- schedules


def minutes(clock: str) -> int:
    hours, _, rest = clock.partition(":")
    return int(hours) * 60 + int(rest)


def event(number: int, constraint: str | None, duration: int = 60, **more: Any) -> dict[str, Any]:
    window = {"min_time": "10:00", "max_time": "16:00"}
    return {"event_id": number, "duration": duration, "constraint": constraint, **window, **more}


def scheduled(*events: dict[str, Any]) -> dict[int, int] | None:
    items = schedule({"exp_cal_state": {str(e["event_id"]): e for e in events}})
    if items is None:
        return None
    return {e["event_id"]: minutes(e["start_time"]) for e in json.loads(items[0]["content"][0]["text"])}


@pytest.mark.parametrize(
    ("constraint", "start"),
    [
        (None, 600),
        ("before 11am", 600),
        ("after 12:30pm", 750),
        ("between 1pm and 2pm", 780),
        ("at 12pm", 720),
        ("at 3pm", 900),
    ],
)
def test_an_event_lies_where_it_must(constraint: str | None, start: int) -> None:
    assert scheduled(event(0, constraint)) == {0: start}


@pytest.mark.parametrize(
    "events",
    [
        [event(0, "at 9am")],
        [event(0, "at 12pm"), event(1, "at 12:30pm")],
        [event(0, "before 10:30am")],
        [event(n, None) for n in range(7)],
    ],
)
def test_what_cannot_be_scheduled_has_no_answer(events: list[dict[str, Any]]) -> None:
    assert scheduled(*events) is None


@given(
    st.lists(
        st.sampled_from([None, "before 1pm", "after 11am", "between 11am and 3pm"]), min_size=1, max_size=5
    )
)
def test_a_schedule_has_all_events_and_none_at_the_time_of_another(constraints: list[str | None]) -> None:
    found = scheduled(*(event(n, each) for n, each in enumerate(constraints)))
    if found is not None:
        assert sorted(found) == list(range(len(constraints)))
        assert all(abs(one - other) >= 60 for one, other in itertools.combinations(found.values(), 2))


# ---- schemas

OBJECT = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 8},
        "kind": {"type": ["string", "null"], "enum": [None, "cat", "dog"]},
        "born": {"type": "string", "format": "date"},
        "count": {"type": "integer", "minimum": 3, "maximum": 9, "multipleOf": 2},
        "share": {"type": "number", "exclusiveMaximum": 0.5},
        "good": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 2},
        "inner": {"type": "object", "properties": {"x": {"$ref": "#/$defs/x"}}},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
    },
    "$defs": {"x": {"allOf": [{"type": "object", "properties": {"y": {"const": 7}}}]}},
}


def test_an_instance_fits_its_schema() -> None:
    value = example(OBJECT, OBJECT)
    strict = {**OBJECT, "required": list(OBJECT["properties"]), "additionalProperties": False}
    jsonschema.validate(value, strict, format_checker=jsonschema.FormatChecker())
    assert value["inner"] == {"x": {"y": 7}}


@pytest.mark.parametrize(
    "schema", [{"$ref": "#"}, {"properties": {"a": {"$ref": "#"}}}, {"$ref": "#/nowhere"}]
)
def test_a_schema_without_an_end_has_no_instance(schema: dict[str, Any]) -> None:
    with pytest.raises((AgentFailed, ValueError)):
        example(schema, schema)


SMALL = {"type": "object", "properties": {"a": {"type": "string"}, "n": {"type": "integer"}}}
NESTED = {
    "type": "object",
    "properties": {"box": {**SMALL, "title": "x"}, "list": {"type": "array", "items": SMALL}},
}


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize(
    ("kind", "read", "schema", "value"),
    [
        ("json", json.loads, SMALL, {"a": "text", "n": 1}),
        ("yaml", yaml.safe_load, SMALL, {"a": "text", "n": 1}),
        ("toml", toml.loads, NESTED, {"box": {"a": "text", "n": 1}, "list": [{"a": "text", "n": 1}]}),
        ("csv", read_csv, {"type": "array", "items": SMALL}, [{"a": "text", "n": "1"}]),
    ],
)
def test_an_instance_is_written_in_the_format_asked_for(
    kind: str, read: Any, schema: Any, value: Any
) -> None:
    text = said("structured_outputs", schema_str=json.dumps(schema), schema_type=kind)
    assert read(text) == value


def test_an_instance_in_xml_has_one_root() -> None:
    schema = {"type": "object", "properties": {"pet": SMALL}}
    text = said("structured_outputs", schema_str=json.dumps(schema), schema_type="xml")
    assert text == "<pet><a>text</a><n>1</n></pet>"


@pytest.mark.parametrize(
    ("key", "arguments"), [("result", {"result": {"a": "text", "n": 1}}), (None, {"a": "text", "n": 1})]
)
def test_an_instance_can_be_the_argument_of_a_tool(key: str | None, arguments: Any) -> None:
    fields = {"response_mode": "tool_call", "tool_name": "hand_in", "tool_payload_key": key}
    assert called("structured_outputs", schema_str=json.dumps(SMALL), **fields) == [("hand_in", arguments)]
