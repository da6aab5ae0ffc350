"""Expectations file: what rewards must be, by task and agent, kept apart from tasks that belong to others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from pytest_rlenv.environments.selection import matches_name
from pytest_rlenv.errors import SpecError
from pytest_rlenv.rules.files import RuleEntry, Text, dump_entries, load_entries, read_entries, title
from pytest_rlenv.verdict import Expectation

TABLE = "expectation"
_WILD = frozenset("*?[")
_NO_AGENT = re.compile(r".*[<>=].*|[-+.\d]+")
"""What stands first where the agent was forgotten."""
_FORM = 'write the agent first, as in "oracle >= 0.55", or "* >= 0.55" for all'

Number = Annotated[float, Field(allow_inf_nan=False, strict=True)]


class Bounds(BaseModel):
    """An expectation as a table: ``{ agent = "oracle", key = "accuracy", min = 0.4, max = 0.6 }``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    agent: Text
    key: Text | None = None
    min: Number | None = None
    max: Number | None = None

    @model_validator(mode="after")
    def _has_a_bound(self) -> Bounds:
        if self.min is None and self.max is None:
            raise ValueError("min or max is needed, or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError("no reward can meet it: min is above max")
        return self

    def expectation(self) -> Expectation:
        """Return it in its usual form."""
        if self.min is None:
            assert self.max is not None
            return Expectation("<=", self.max, self.key)
        upper = None if self.max is None else ("<=", self.max)
        return Expectation(">=", self.min, self.key, upper=upper)


def _check_text(text: str) -> str:
    """See that a text has an agent and an expectation."""
    agent, _, rest = text.strip().partition(" ")
    if not agent or not rest or _NO_AGENT.fullmatch(agent):
        raise ValueError(f"the agent or the expectation is missing: {_FORM}")
    try:
        Expectation.parse(rest, source=f"agent {agent}")
    except SpecError as error:
        raise ValueError(f"{error.message}; {error.hint}") from None
    return text


def _listed(value: object) -> object:
    """Take one for a list of one, and see that each is of a form that can be read."""
    listed = list(value) if isinstance(value, (list, tuple)) else [value]
    if not all(isinstance(each, (str, dict, Bounds)) for each in listed):
        raise ValueError('a text such as "oracle >= 0.55" is needed, or a table with agent, min and max')
    return listed


def _form(value: object) -> str:
    return "text" if isinstance(value, str) else "table"


Said = Annotated[
    Annotated[str, AfterValidator(_check_text), Tag("text")] | Annotated[Bounds, Tag("table")],
    Discriminator(_form),
]


class ExpectationEntry(RuleEntry):
    """One entry: for which tasks, and what is expected of which agents.

    Attributes:
        expect: texts that name the agent (or a glob of names) first, such as ``oracle >= 0.55``, or tables.
    """

    expect: Annotated[tuple[Said, ...], BeforeValidator(_listed), Field(min_length=1)]

    def rules(self) -> Iterator[tuple[str, Expectation]]:
        """Yield each agent's glob with what is expected."""
        for each in self.expect:
            if isinstance(each, Bounds):
                yield each.agent, each.expectation()
            else:
                agent, _, rest = each.strip().partition(" ")
                yield agent, Expectation.parse(rest, source=each)


@dataclass(frozen=True)
class Expectations:
    """The entries of a file.

    Attributes:
        name: the file's name, for messages; empty if there is none.
        entries: in the file's order.
    """

    name: str = ""
    entries: Sequence[ExpectationEntry] = ()

    @classmethod
    def read(cls, path: Path) -> Expectations:
        """Read a file.

        Raises:
            SpecError: naming the file, the entry, the field and the value.
        """
        return cls(path.name, tuple(read_entries(path, TABLE, ExpectationEntry)))

    def dump(self) -> dict[str, Any]:
        """Return it in a form that JSON can hold."""
        return {"name": self.name, "entries": dump_entries(self.entries)}

    @classmethod
    def load(cls, raw: Mapping[str, Any]) -> Expectations:
        """Return what :meth:`dump` made."""
        return cls(raw["name"], tuple(load_entries(raw["entries"], ExpectationEntry)))

    def expectation_for(self, environment: str, task: str, agent: str) -> Expectation | None:
        """Return what the file expects of a rollout, if anything.

        Of several rules the most particular one holds: a task by its id comes before a glob, then an agent by
        its name before a glob, then a rule for one environment before one for all, then the longer glob for
        the task; and of equals the first in the file.
        """
        found = [
            (_particular(entry, glob), -number, expected)
            for number, entry in enumerate(self.entries, start=1)
            if entry.is_for(environment, task)
            for glob, expected in entry.rules()
            if matches_name(agent, glob)
        ]
        if not found:
            return None
        _, number, expected = max(found, key=lambda each: each[:2])
        return replace(expected, source=f"{self.name}, entry {-number}")

    def unneeded(self, seen: Iterable[tuple[str, str]]) -> Iterator[str]:
        """Yield a line for each entry that is for no task of a run of everything.

        Args:
            seen: environment and task of all rollouts.
        """
        tasks = set(seen)
        for number, entry in enumerate(self.entries, start=1):
            if not any(entry.is_for(environment, task) for environment, task in tasks):
                yield f"{title(self.name, number, entry)} is not needed: it is for no task of this run"

    def agents(self) -> set[str]:
        """Return the globs of agents that the file names."""
        return {glob for entry in self.entries for glob, _ in entry.rules()}


def _particular(entry: ExpectationEntry, agent: str) -> tuple[bool, bool, bool, int]:
    return (
        not _WILD & set(entry.task),
        not _WILD & set(agent),
        entry.environment is not None,
        sum(letter not in _WILD for letter in entry.task),
    )
