"""The moves of a stored trajectory, once more, in an episode; and where it now goes otherwise."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from pytest_rlenv.agents.ending import AgentOutcome
from pytest_rlenv.agents.episode import Call, Episode, EpisodeContext
from pytest_rlenv.agents.episode_log import EpisodeLog
from pytest_rlenv.agents.moves import Moves
from pytest_rlenv.agents.replay.comparing import DIFFERS, SAME, UNKNOWN
from pytest_rlenv.agents.replay.moves import Move, MoveScript, moves_of
from pytest_rlenv.errors import AgentFailed
from pytest_rlenv.trajectory.model import Trajectory

REPORT = "replay.json"
_CUT = re.compile(r"\s*\[\.\.\. \d+ characters left out \.\.\.\]\s*")
"""As agents of ours write it into what is too long to show."""
_SHOWN = 60


@dataclass(frozen=True)
class MoveComparison:
    """One move, then and now.

    Attributes:
        move: then.
        output: whether the same came of it but for white space.
        done: whether the episode was over by it now.
    """

    move: Move
    output: str
    done: bool

    def as_json(self) -> dict[str, Any]:
        """Return it as a row of ``replay.json``."""
        return {
            "step": self.move.step,
            "move": self.move.name,
            "recorded_done": self.move.done,
            "done": self.done,
            "output": self.output,
        }


def replay_episode(
    trajectory: Trajectory, source: str, episode: Episode, context: EpisodeContext, log: EpisodeLog
) -> AgentOutcome:
    """Make the moves of a trajectory until they are all made, or the episode is over.

    Args:
        trajectory: the stored one.
        source: where it is, for messages.
        episode: what is played.
        context: of the episode; ``replay.json`` goes to its logs.
        log: where the moves are written down.

    Raises:
        AgentFailed: it has no move of this episode.
    """
    moves = Moves(episode)
    script = moves_of(trajectory, moves)
    _check(script, moves, source)
    done: list[MoveComparison] = []
    try:
        for number, move in enumerate(script.moves):
            if number == 0 or script.moves[number - 1].step != move.step:
                if episode.done:
                    break
                moves.announce(_calls_of(script, move.step))
            came = _again(move, moves, episode, log)
            done.append(MoveComparison(move, _same(move.output, came), episode.done))
    finally:
        rows = [each.as_json() for each in done]
        (context.logs / REPORT).write_text(json.dumps(rows, indent=1) + "\n")
    usage = {"moves": len(done), "outputs_differing": sum(each.output == DIFFERS for each in done)}
    return AgentOutcome(usage=usage, notes=_notes(done, script))


def _check(script: MoveScript, moves: Moves, source: str) -> None:
    if any(not move.tool or moves.has(move.tool) for move in script.moves):
        return
    known = {tool.name for tool in moves.tools}
    called = sorted({*script.left_out, *(move.tool for move in script.moves)})
    raise AgentFailed(
        f"agent replay: {source} has no move of this episode: it calls {', '.join(called) or 'nothing'}, "
        f"and there is {', '.join(sorted(known)) or 'no tool'}"
    )


def _calls_of(script: MoveScript, step: int) -> list[Call]:
    """Return the calls of a step: they were one reply."""
    own = (move for move in script.moves if move.step == step and move.tool)
    return [Call(move.tool, move.arguments, move.call_id) for move in own]


def _again(move: Move, moves: Moves, episode: Episode, log: EpisodeLog) -> str | None:
    if not move.tool:
        log.said(move.said)
        answer = episode.say(move.said, reasoning=move.reasoning)
        if answer is not None:
            log.answered(answer)
        return answer
    plain = move.arguments if not isinstance(move.arguments, str) else {}
    extra: dict[str, Any] = {"replayed_step": move.step}
    if isinstance(move.arguments, str):
        extra["unreadable_arguments"] = move.arguments
    if move.beside.strip() or move.reasoning:
        episode.remark(move.beside, reasoning=move.reasoning)
    call_id = log.call(move.tool, plain, extra=extra)
    came = moves.make(move.tool, move.arguments, call_id=move.call_id or call_id)
    log.came(call_id, came, done=episode.done)
    return came


def _same(then: str | None, now: str | None) -> str:
    if then is None or now is None:
        return SAME if then is now else UNKNOWN
    before, after = _words(then), _words(now)
    if before == after:
        return SAME
    parts = _CUT.split(then)
    if len(parts) == 2 and after.startswith(_words(parts[0])) and after.endswith(_words(parts[1])):
        return SAME
    return DIFFERS


def _words(text: str) -> str:
    return " ".join(text.split())


def _notes(done: list[MoveComparison], script: MoveScript) -> dict[str, str]:
    notes = {}
    total = len(script.moves)
    last = done[-1].done if done else True
    if len(done) < total:
        notes["replay-diverged"] = f"the episode was over after {len(done)} of {total} moves"
    elif script.ended and not last:
        notes["replay-diverged"] = f"the episode was not over after all {total} moves, as it was then"
    differing = [each for each in done if each.output == DIFFERS]
    if differing:
        first = differing[0].move
        name = " ".join(first.name.split())
        shown = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..."
        notes["replay-output"] = (
            f"something else came of {len(differing)} of {total} moves; the first is step {first.step}, "
            f"`{shown}`"
        )
    if script.left_out:
        counted = ", ".join(f"{name} ({count})" for name, count in script.left_out.most_common())
        notes["replay-partial"] = f"not replayed, since they are no actions: {counted}"
    return notes
