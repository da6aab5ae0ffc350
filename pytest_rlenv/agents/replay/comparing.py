"""Whether a command came to the same as when it was recorded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pytest_rlenv.agents.conversing.session import Shown
from pytest_rlenv.agents.replay.commands import Recorded

SAME, DIFFERS, UNKNOWN = "same", "differs", "unknown"

_ENDING = re.compile(r"\[(?:exit code -?\d+|killed[^\]]*)\](?: \[a process was killed[^\]]*\])?\s*\Z")
_SHOWN = 60


@dataclass(frozen=True)
class Comparison:
    """One command, then and now.

    Attributes:
        recorded: then.
        now: now.
        end: whether it ended alike: by exit code or time limit.
        output: whether it printed the same but for white space. Other agents are shown more than the output
            alone: it counts as the same if all of it is in there.
    """

    recorded: Recorded
    now: Shown
    end: str
    output: str

    @property
    def diverged(self) -> bool:
        """True if it ended otherwise."""
        return self.end == DIFFERS

    def as_json(self) -> dict[str, Any]:
        """Return it as a row of ``replay.json``."""
        return {
            "step": self.recorded.step,
            "command": self.recorded.command,
            "recorded_exit_code": self.recorded.exit_code,
            "exit_code": self.now.facts.get("exit_code"),
            "end": self.end,
            "output": self.output,
        }


def compare(recorded: Recorded, now: Shown) -> Comparison:
    """Compare what came of a command with what is recorded of it."""
    timed_out = now.facts.get("timed_out") is True
    code = now.facts.get("exit_code")
    if recorded.timed_out or timed_out:
        known = recorded.timed_out or recorded.exit_code is not None
        end = SAME if recorded.timed_out and timed_out else DIFFERS if known else UNKNOWN
    elif recorded.exit_code is None:
        end = UNKNOWN
    else:
        end = SAME if recorded.exit_code == code else DIFFERS
    return Comparison(recorded, now, end, _output(recorded.output, now.text))


def notes_of(comparisons: Sequence[Comparison]) -> dict[str, str]:
    """Return what there is to note of a replay, by code; nothing if all was the same."""
    total = len(comparisons)
    diverged = [each for each in comparisons if each.diverged]
    printed = [each for each in comparisons if each.output == DIFFERS and not each.diverged]
    notes = {}
    if diverged:
        first = diverged[0]
        notes["replay-diverged"] = (
            f"{len(diverged)} of {total} commands ended differently; the first is {_name(first)}: "
            f"{_end(first.now.facts.get('exit_code'))}, was {_end(first.recorded.exit_code)}"
        )
    if printed:
        notes["replay-output"] = (
            f"{len(printed)} of {total} commands ended alike, but printed something else; the first is "
            f"{_name(printed[0])}"
        )
    return notes


def _output(then: str | None, now: str) -> str:
    if then is None:
        return UNKNOWN
    before, after = _words(then), _words(now)
    if before == after:
        return SAME
    if _ENDING.search(then):  # as we write it, so it is all there is
        return DIFFERS
    return UNKNOWN if not after else SAME if after in before else DIFFERS


def _words(text: str) -> str:
    return " ".join(_ENDING.sub("", text).split())


def _name(comparison: Comparison) -> str:
    command = " ".join(comparison.recorded.command.split())
    shown = command if len(command) <= _SHOWN else f"{command[:_SHOWN]}..."
    return f"step {comparison.recorded.step}, `{shown}`"


def _end(exit_code: object) -> str:
    return "killed for its time" if exit_code is None else f"exit code {exit_code}"
