"""Quarantine: rollouts that are known to be broken and do not gate, for a reason and until a day."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from pytest_rlenv.environments.selection import matches_name
from pytest_rlenv.rollout import QuarantineInfo
from pytest_rlenv.rules.files import RuleEntry, Text, dump_entries, load_entries, read_entries, title

TABLE = "quarantine"


def _day(value: object) -> object:
    """Take a date or its usual text; pydantic would take a number for a time in seconds, too."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        return date.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        raise ValueError("a date is needed, such as 2031-12-24") from None


class QuarantineEntry(RuleEntry):
    """One entry: which rollouts, why, and until when.

    Attributes:
        agent: glob of the agents' names; all if there is none.
        reason: why.
        until: the last day on which it holds, in UTC.
        mode: ``skip``: they are not run; ``run``: they are, and get a verdict that fails no test.
    """

    agent: Text | None = None
    reason: Text
    until: Annotated[date, BeforeValidator(_day)]
    mode: Literal["skip", "run"] = "skip"

    def holds(self, environment: str, task: str, agent: str) -> bool:
        """Return whether it is for a rollout, whatever the day."""
        if self.agent is not None and not matches_name(agent, self.agent):
            return False
        return self.is_for(environment, task)

    def info(self) -> QuarantineInfo:
        """Return what a record says of it."""
        return QuarantineInfo(reason=self.reason, until=self.until, mode=self.mode, task=self.task)


@dataclass(frozen=True)
class Quarantine:
    """The entries of a file.

    Attributes:
        name: the file's name, for messages; empty if there is none.
        entries: in the file's order.
        today: the day that the run goes by, in UTC: its first.
    """

    name: str = ""
    entries: Sequence[QuarantineEntry] = ()
    today: date = date.min

    @classmethod
    def read(cls, path: Path) -> Quarantine:
        """Read a file.

        Raises:
            SpecError: naming the file, the entry, the field and the value.
        """
        today = datetime.now(timezone.utc).date()
        return cls(path.name, tuple(read_entries(path, TABLE, QuarantineEntry)), today)

    def dump(self) -> dict[str, Any]:
        """Return it in a form that JSON can hold."""
        return {"name": self.name, "today": self.today.isoformat(), "entries": dump_entries(self.entries)}

    @classmethod
    def load(cls, raw: Mapping[str, Any]) -> Quarantine:
        """Return what :meth:`dump` made."""
        entries = tuple(load_entries(raw["entries"], QuarantineEntry))
        return cls(raw["name"], entries, date.fromisoformat(raw["today"]))

    def entry_for(self, environment: str, task: str, agent: str) -> QuarantineEntry | None:
        """Return the first entry that holds a rollout today, if any does."""
        return next((e for e in self.entries if self._is_live(e) and e.holds(environment, task, agent)), None)

    def expired(self) -> Iterator[str]:
        """Yield a line for each entry that does not hold any more."""
        for number, entry in enumerate(self.entries, start=1):
            if not self._is_live(entry):
                yield f"{title(self.name, number, entry)} expired on {entry.until}: it holds no longer"

    def unneeded(self, seen: Iterable[Seen]) -> Iterator[str]:
        """Yield a line for each live entry that a run of everything did not need.

        Args:
            seen: all rollouts of the run.
        """
        rollouts = list(seen)
        for number, entry in enumerate(self.entries, start=1):
            if not self._is_live(entry):
                continue
            what = title(self.name, number, entry)
            held = [each for each in rollouts if entry.holds(each.environment, each.task, each.agent)]
            if not any(entry.is_for(each.environment, each.task) for each in rollouts):
                yield f"{what} is not needed: it is for no task of this run"
            elif held and entry.mode == "run" and all(each.verdict == "passed" for each in held):
                count = "its rollout" if len(held) == 1 else f"all of its {len(held)} rollouts"
                yield f"{what} is not needed: {count} passed"

    def _is_live(self, entry: QuarantineEntry) -> bool:
        return entry.until >= self.today


@dataclass(frozen=True)
class Seen:
    """A rollout of a run, as far as rules go by it."""

    environment: str
    task: str
    agent: str
    verdict: str


def skip_text(info: QuarantineInfo, came_of_it: str = "") -> str:
    """Return why a test is skipped.

    Args:
        info: the entry.
        came_of_it: the verdict on what was run, and why.
    """
    text = f"quarantined until {info.until}: {info.reason}"
    return f"{text} ({came_of_it})" if came_of_it else text
