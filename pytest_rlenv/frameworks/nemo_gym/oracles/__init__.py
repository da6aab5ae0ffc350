"""Reference answers: from what a row expects, the output that its server should give the whole reward.

Rows carry no recorded good answer, but those of many servers say what is expected. A builder makes of a row
the items of a response: messages, and calls of tools, which are made in turn. It returns ``None`` for a row
that it cannot answer.

Builders of your own come by ``--rlenv-nemo-oracle SERVER=module:function`` or by an entry point of the group
``pytest_rlenv.nemo_oracles`` with the server's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

from pytest_rlenv.errors import AgentFailed, SpecError
from pytest_rlenv.frameworks.nemo_gym.responses import Item
from pytest_rlenv.importing import load_object
from pytest_rlenv.text import text_of

Row = Mapping[str, Any]
Builder = Callable[[Row], Sequence[Item] | None]
"""Makes a response's output of a row."""

GROUP = "pytest_rlenv.nemo_oracles"
OPTION = "--rlenv-nemo-oracle"
_SHOWN = 100
_HERE = "pytest_rlenv.frameworks.nemo_gym.oracles"

BUILT_IN = {
    "arc_agi": f"{_HERE}.texts:arc_grid",
    "bunsenbench_chemistry_mcq": f"{_HERE}.texts:boxed",
    "calendar": f"{_HERE}.calendars:schedule",
    "circle_click": f"{_HERE}.actions:click",
    "circle_count": f"{_HERE}.texts:circle_count",
    "equivalence_rule": f"{_HERE}.texts:as_expected",
    "example_session_state_mgmt": f"{_HERE}.actions:count_up",
    "gpqa_diamond": f"{_HERE}.texts:boxed",
    "graphwalks": f"{_HERE}.texts:node_list",
    "hotpotqa_qa": f"{_HERE}.texts:answer_object",
    "imo_gradingbench": f"{_HERE}.texts:as_expected",
    "math_proof_judgement": f"{_HERE}.texts:proof_judgement",
    "math_with_judge": f"{_HERE}.texts:boxed",
    "mcqa": f"{_HERE}.texts:boxed",
    "physics_judge": f"{_HERE}.texts:boxed",
    "polymath": f"{_HERE}.texts:boxed",
    "proof_genselect": f"{_HERE}.texts:best_proof",
    "reasoning_gym": f"{_HERE}.texts:tagged_answer",
    "single_step_tool_use_with_argument_comparison": f"{_HERE}.actions:expected_action",
    "structured_outputs": f"{_HERE}.structured:instance",
    "swe_pivot": f"{_HERE}.actions:expected_action",
    "terminal_multi_harness": f"{_HERE}.actions:expected_action",
    "terminus_judge": f"{_HERE}.texts:as_expected",
    "ugphysics_judge": f"{_HERE}.texts:boxed",
    "workplace_assistant": f"{_HERE}.actions:ground_truth",
    "xlam_fc": f"{_HERE}.actions:expected_answers",
}
"""Where the builder of each server is, by the name of its folder in NeMo Gym."""


def builder_for(server: str, named: Sequence[str] = ()) -> Builder | None:
    """Return the builder for a server's rows: the user's, an installed package's, or ours.

    Args:
        server: the name of its folder.
        named: what the user gave, as ``SERVER=module:function`` each; ``*`` is any server.

    Raises:
        SpecError: one that is named is not there.
    """
    paths = dict(each.split("=", 1) for each in named)
    for name in (server, "*"):
        if name in paths:
            return _function(load_object(paths[name], option=OPTION), paths[name])
    if (point := _installed().get(server)) is not None:
        return _loaded(point)
    if (path := BUILT_IN.get(server)) is not None:
        return _function(load_object(path, option=OPTION), path)
    return None


def builder_by_shape(row: Row) -> Builder | None:
    """Return the builder for a row of a server that nobody knows: where it lists the calls to make.

    ``ground_truth`` with a name and arguments each says so plainly. Nothing else does: what an
    ``expected_answer`` must be wrapped in differs from server to server.
    """
    expected = row.get("ground_truth")
    if not isinstance(expected, list) or not expected:
        return None
    calls = all(isinstance(call, dict) and call.keys() >= {"name", "arguments"} for call in expected)
    return (
        _function(load_object(f"{_HERE}.actions:ground_truth", option=OPTION), "ground_truth")
        if calls
        else None
    )


def check_named(named: Sequence[str]) -> None:
    """See that all builders that the user named are there.

    Raises:
        SpecError: one is not.
    """
    for each in named:
        builder_for(each.partition("=")[0], named)


def built(builder: Builder, row: Row, server: str) -> Sequence[Item] | None:
    """Return what a builder makes of a row.

    Raises:
        AgentFailed: it raised, since what the row expects is of another form than the server's rows have; or
            it returned what is no output.
    """
    try:
        items = builder(row)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a stranger's function may raise anything, SystemExit too
        raise AgentFailed(
            f"the oracle of {server} cannot answer this row: {type(error).__name__}: {text_of(error)}",
            hint="does the row have what its server's rows have?",
        ) from error
    if items is not None and not (isinstance(items, (list, tuple)) and all(map(_is_item, items))):
        shown = text_of(items)
        raise AgentFailed(
            f"the oracle of {server} returned what is no list of items: {shown[:_SHOWN]}",
            hint="make them with message() and function_call() of pytest_rlenv.frameworks.nemo_gym.responses",
        )
    return items


def _is_item(item: object) -> bool:
    """Return whether something can be part of a response: what is needed of it to make its call is there."""
    if not isinstance(item, dict) or not isinstance(item.get("type"), str):
        return False
    named = all(isinstance(item.get(key), str) for key in ("name", "arguments", "call_id"))
    return named or item["type"] != "function_call"


def _function(found: object, path: str) -> Builder:
    if not callable(found):
        raise SpecError(
            f"{OPTION} {path}: {found!r} is no function", hint="it takes a row, and returns items"
        )
    return cast(Builder, found)


def _loaded(point: EntryPoint) -> Builder:
    try:
        found = point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a stranger's module may raise anything, SystemExit too
        raise SpecError(
            f"the entry point {point.name!r} of the group {GROUP} cannot be loaded: {text_of(error)}"
        ) from error
    return _function(found, point.value)


@cache
def _installed() -> Mapping[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
