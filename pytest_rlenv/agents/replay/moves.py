"""The moves in the trajectory of an episode, whichever agent wrote it, and what came of them then."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_rlenv.agents.conversing.session import CUT, REFUSAL
from pytest_rlenv.agents.moves import ACT, Moves
from pytest_rlenv.trajectory.model import Result, Step, ToolCall, Trajectory, text_of_content

_UNSAID = frozenset({CUT, REFUSAL})
"""What marks a reply that an agent of ours did not pass on."""


@dataclass(frozen=True)
class Move:
    """Something that was done or said, and what came of it.

    Attributes:
        step: the number of its step in the trajectory.
        tool: what was called; empty where something was said.
        arguments: what it was called with; text as it was written, where that was no JSON object.
        said: what was said.
        reasoning: what was thought before that, where it is told.
        call_id: the call's id then.
        beside: what was said beside the calls of the same step; only the first of them has it.
        output: what came back; ``None`` if nothing is recorded.
        done: True if the episode was over by it.
    """

    step: int
    tool: str = ""
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    said: str = ""
    reasoning: str = ""
    call_id: str = ""
    beside: str = ""
    output: str | None = None
    done: bool = False

    @property
    def name(self) -> str:
        """Return it in a few words."""
        if not self.tool:
            return f"saying {self.said!r}"
        written = self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)
        return f"{self.tool}({written})"


@dataclass
class MoveScript:
    """What there is to replay.

    Attributes:
        moves: in order.
        left_out: how often each other tool was called, which the episode cannot have.
    """

    moves: list[Move] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def ended(self) -> bool:
        """True if the episode is known to have been over by one of them."""
        return any(move.done for move in self.moves)


def moves_of(trajectory: Trajectory, episode_moves: Moves) -> MoveScript:
    """Return the moves of a trajectory that an episode can be given.

    Of an episode that is stepped these are the actions. Of one with tools they are all calls, those of tools
    that are not there included, since they cost a step then as now; and what was said.
    """
    script = MoveScript()
    for position, step in enumerate(trajectory.steps):
        if step.source != "agent" or step.is_copied_context:
            continue
        for number, call in enumerate(step.tool_calls or ()):
            if episode_moves.acts and call.function_name != ACT:
                script.left_out[call.function_name] += 1
            else:
                script.moves.append(_called(step, call, first=number == 0))
        if not step.tool_calls and not episode_moves.acts and not _UNSAID.intersection(step.extra or ()):
            script.moves += _said(step, trajectory.steps[position + 1 : position + 2])
    return script


def _said(step: Step, after: list[Step]) -> list[Move]:
    said = text_of_content(step.message)
    if not said.strip():
        return []
    answer = text_of_content(after[0].message) if after and after[0].source == "user" else None
    return [Move(step.step_id, said=said, reasoning=step.reasoning_content or "", output=answer)]


def _called(step: Step, call: ToolCall, *, first: bool) -> Move:
    written = (call.extra or {}).get("unreadable_arguments")
    own = _results(step, call)
    return Move(
        step=step.step_id,
        tool=call.function_name,
        arguments=written if isinstance(written, str) else call.arguments,
        reasoning=(step.reasoning_content or "") if first else "",
        beside=text_of_content(step.message) if first else "",
        call_id=call.tool_call_id,
        output="\n".join(text_of_content(each.content) for each in own) if own else None,
        done=any((each.extra or {}).get("done") is True for each in own),
    )


def _results(step: Step, call: ToolCall) -> list[Result]:
    results = step.observation.results if step.observation else []
    own = [each for each in results if each.source_call_id == call.tool_call_id]
    if not own and len(step.tool_calls or ()) == 1:
        own = [each for each in results if each.source_call_id is None]
    return own
