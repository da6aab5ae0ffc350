"""A recorded response once more: its calls or steps are made again, and what now comes otherwise is told."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pytest_rlenv.agents.replay.comparing import DIFFERS, SAME, UNKNOWN
from pytest_rlenv.agents.replay.episode import REPORT
from pytest_rlenv.errors import AgentFailed, Stage, Unsupported
from pytest_rlenv.frameworks.context import RolloutContext
from pytest_rlenv.frameworks.nemo_gym.conversation import text_of_item
from pytest_rlenv.frameworks.nemo_gym.recorded import Recorded
from pytest_rlenv.frameworks.nemo_gym.responses import Item, turns_of
from pytest_rlenv.frameworks.nemo_gym.session import Session

_SHOWN = 60


@dataclass(frozen=True)
class Came:
    """What came of a call or a step.

    Attributes:
        what: the call, or which step.
        output: ``same`` or ``differs``; ``unknown`` where the recording does not tell.
    """

    what: str
    output: str


def output_of(recorded: Recorded) -> list[Item]:
    """Return the items of a recorded response.

    Raises:
        AgentFailed: it has none.
    """
    output = (recorded.response or {}).get("output")
    if not isinstance(output, list) or not all(isinstance(item, dict) for item in output):
        raise AgentFailed(f"agent replay: {recorded.where} has no response to judge")
    return output


def again(
    context: RolloutContext, session: Session, recorded: Recorded, output: Sequence[Item]
) -> Mapping[str, Any] | None:
    """Make the calls of a recorded response again, for servers that keep a state; it is judged as it was.

    What came otherwise is a note and, call by call, in ``replay.json``; only the reward is judged.

    Returns:
        The whole response, which is to be judged; ``None`` for a server that is stepped.

    Raises:
        Unsupported: calls were made that cannot be made here.
        RlenvError: the server breaks or hangs.
    """
    came: list[Came] = []
    with context.clock.stage(Stage.AGENT):
        try:
            for each in _steps(session, output) if session.gymnasium else _calls(session, output):
                came.append(each)
        finally:
            _report(context, came)
    if session.gymnasium and (left := _steps_in(output) - len(came)):
        context.rollout.note(
            "replay-diverged", f"the episode was over after {len(came)} of {len(came) + left} steps"
        )
    return None if session.gymnasium else recorded.response


def _calls(session: Session, output: Sequence[Item]) -> Iterator[Came]:
    for position, item in enumerate(output):
        if item.get("type") != "function_call":
            continue
        name, arguments = str(item.get("name")), str(item.get("arguments") or "{}")
        then = _answer_to(item, output[position + 1 :])
        if not session.has_tool(name) and then is None:
            continue  # it was only noted then, too
        if not session.has_tool(name) and session.speaks_mcp:
            raise Unsupported(
                f"the recorded call of {name} went to an MCP server, which is not spoken here, and what is "
                "judged may depend on it"
            )
        now = session.call(name, arguments)
        yield Came(f"{name}({arguments})", UNKNOWN if then is None else _compared(then, now))


def _answer_to(call: Item, later: Iterable[Item]) -> str | None:
    own = (
        item
        for item in later
        if item.get("type") == "function_call_output" and item.get("call_id") == call.get("call_id")
    )
    return next((text_of_item(item) for item in own), None)


def _steps(session: Session, output: Sequence[Item]) -> Iterator[Came]:
    turns = [turn for turn in turns_of(output) if turn.items]
    for number, turn in enumerate(turns, start=1):
        if session.ended:
            return
        before = len(session.output) + len(turn.items)
        session.step(turn.items)
        then, now = (_words(turn.answers), _words(session.output[before:]))
        told = bool(turn.answers) or number < len(turns)  # a recording ends with what the model said
        yield Came(f"step {number}", _compared(then, now) if told else UNKNOWN)


def _steps_in(output: Sequence[Item]) -> int:
    return sum(bool(turn.items) for turn in turns_of(output))


def _words(items: Sequence[Item]) -> str:
    return "\n".join(text_of_item(item) for item in items)


def _compared(then: str, now: str) -> str:
    if then.split() == now.split():
        return SAME
    try:
        return SAME if json.loads(then) == json.loads(now) else DIFFERS
    except (ValueError, RecursionError):
        return DIFFERS


def _report(context: RolloutContext, came: Sequence[Came]) -> None:
    if not came:
        return
    file = context.folder / "agent" / REPORT
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps([asdict(each) for each in came], indent=1) + "\n")
    differing = [each for each in came if each.output == DIFFERS]
    if differing:
        first = " ".join(differing[0].what.split())
        shown = first if len(first) <= _SHOWN else f"{first[:_SHOWN]}..."
        context.rollout.note(
            "replay-output",
            f"the server says something else to {len(differing)} of {len(came)} calls than was recorded; the "
            f"first is `{shown}`",
        )
