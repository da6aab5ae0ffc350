"""The frames of a rollout as an ATIF trajectory: an action is a call of a tool, an observation its result."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pytest_rlenv.agents.model_player.playing import shortened
from pytest_rlenv.agents.moves import ACT, shown
from pytest_rlenv.frameworks.openenv.frame_log import FRAMES
from pytest_rlenv.trajectory import TRAJECTORY
from pytest_rlenv.trajectory.model import AgentInfo, Observation, Result, Step, ToolCall
from pytest_rlenv.trajectory.retold import leave_retold

FILE = Path("agent") / TRAJECTORY
SHOWN_CHARS = 64 * 1024
"""Characters of one observation; the frames have all of it."""

_TOLD = ("reset", "step")
_CALL = "call_tool"


def leave_trajectory(folder: Path, agent: AgentInfo, instruction: str, began: datetime) -> None:
    """Write the trajectory of a rollout whose agent has left none, from its frames; never raises.

    Args:
        folder: the rollout's.
        agent: who acted.
        instruction: the task in words; empty where there are none.
        began: when the frames begin.
    """
    leave_retold(folder / FILE, agent, lambda: _steps(folder / FRAMES, instruction, began), record=FRAMES)


def _steps(frames: Path, instruction: str, began: datetime) -> list[Step]:
    with frames.open(encoding="utf-8") as lines:
        told = (each for each in _exchanges(lines) if each.kind in _TOLD)
        return [_step(number, each, instruction, began) for number, each in enumerate(told, 1)]


@dataclass
class _Exchange:
    """What was sent, and the answer; ``None`` where there was none."""

    at: float
    kind: str
    sent: dict[str, Any]
    received: Any = None


def _exchanges(lines: Iterable[str]) -> Iterator[_Exchange]:
    under_way: _Exchange | None = None
    for line in lines:
        try:
            event = json.loads(line, parse_constant=str)  # what reads trajectories may not know NaN
        except ValueError:
            continue  # a line that was cut off
        if "sent" in event:
            if under_way is not None:
                yield under_way
            frame = event["sent"]
            under_way = _Exchange(event["at"], frame["type"], frame.get("data") or {})
        elif "received" in event and under_way is not None:
            under_way.received = event["received"]
    if under_way is not None:
        yield under_way


def _step(number: int, exchange: _Exchange, instruction: str, began: datetime) -> Step:
    """Return a step of the user's for a reset, and one of the agent's for an action."""
    at = (began + timedelta(seconds=exchange.at)).isoformat(timespec="milliseconds")
    text, facts = _answer(exchange.received)
    if exchange.kind == "reset":
        told = "\n\n".join(part for part in (instruction, f"The environment shows:\n{text}") if part)
        extra = {"reset": exchange.sent, **facts}
        return Step(step_id=number, timestamp=at, source="user", message=told, extra=extra)
    call = _call(number, exchange.sent)
    came = Result(source_call_id=call.tool_call_id, content=text, extra=facts or None)
    return Step(
        step_id=number,
        timestamp=at,
        source="agent",
        message="",
        tool_calls=[call],
        observation=Observation(results=[came]) if exchange.received is not None else None,
        llm_call_count=0,
    )


def _call(number: int, action: Mapping[str, Any]) -> ToolCall:
    """Return an action as a call: of a tool of the environment's, else of the one that acts."""
    call_id, arguments = f"call_{number}", action.get("arguments")
    if (
        action.get("type") == _CALL
        and isinstance(action.get("tool_name"), str)
        and isinstance(arguments, dict)
    ):
        return ToolCall(tool_call_id=call_id, function_name=action["tool_name"], arguments=arguments)
    return ToolCall(tool_call_id=call_id, function_name=ACT, arguments=dict(action))


def _answer(frame: Any) -> tuple[str, dict[str, Any]]:
    """Return what an answer shows, and what it says beside that."""
    data = frame.get("data") if isinstance(frame, dict) else None
    if not isinstance(data, dict) or frame.get("type") != "observation":
        return shortened(shown(frame), SHOWN_CHARS), {}
    facts = {key: data[key] for key in ("reward", "done") if data.get(key) not in (None, False)}
    return shortened(shown(data.get("observation")), SHOWN_CHARS), facts
