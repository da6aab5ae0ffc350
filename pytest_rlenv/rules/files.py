"""Files with rules for some tasks: what their entries have in common, and how they are read and refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pytest_rlenv import toml
from pytest_rlenv.environments.selection import matches_name
from pytest_rlenv.errors import SpecError

_FORMS = ("text", "table")
"""Words for the forms that a value may have; they are in the place of an error, and no field."""

Text = Annotated[str, Field(min_length=1)]


class RuleEntry(BaseModel):
    """Which rollouts an entry is for. Globs are matched with case; a task's as by ``--rlenv-task``."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)  # most runs have no such file

    task: Text
    environment: Text | None = None

    def is_for(self, environment: str, task: str) -> bool:
        """Return whether it is for rollouts of a task."""
        if self.environment is not None and not matches_name(environment, self.environment):
            return False
        return matches_name(task, self.task)


E = TypeVar("E", bound=RuleEntry)


def read_entries(path: Path, table: str, entry: type[E]) -> list[E]:
    """Return the entries of a file.

    Args:
        path: the file.
        table: the name of the array of tables in it.
        entry: what an entry is.

    Raises:
        SpecError: naming the file, the entry, the field and the value.
    """
    try:
        values = toml.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}", hint=f"it is to hold entries as [[{table}]]") from error
    except (UnicodeDecodeError, toml.TOMLDecodeError) as error:
        raise SpecError(f"{path}: {error}", hint=f"it is to hold entries as [[{table}]]") from error
    unknown = sorted(values.keys() - {table})
    listed = values.get(table, [])
    if unknown or not isinstance(listed, list):
        raise SpecError(
            f"{path}: {unknown[0] if unknown else table} is not an entry", hint=f"write [[{table}]]"
        )
    return [_entry(raw, path, number, entry) for number, raw in enumerate(listed, start=1)]


def title(name: str, number: int, entry: RuleEntry) -> str:
    """Return the words by which people find an entry again."""
    return f"{name}, entry {number} (task {entry.task!r})"


def load_entries(raw: Sequence[Any], entry: type[E]) -> list[E]:
    """Return entries that were checked before, in another process."""
    return [entry.model_validate(each) for each in raw]


def dump_entries(entries: Sequence[RuleEntry]) -> list[dict[str, Any]]:
    """Return entries in a form that JSON can hold and :func:`load_entries` reads."""
    return [entry.model_dump(mode="json") for entry in entries]


def _entry(raw: Any, path: Path, number: int, entry: type[E]) -> E:
    try:
        return entry.model_validate(raw)
    except ValidationError as error:
        raise SpecError(
            f"{path}, entry {number}: {'; '.join(_complaints(error))}",
            hint=f"an entry has {', '.join(_fields(entry))}",
        ) from error


def _complaints(error: ValidationError) -> Iterator[str]:
    for each in error.errors()[:3]:
        field = ".".join(part for part in each["loc"] if isinstance(part, str) and part not in _FORMS)
        if each["type"] == "missing":
            yield f"{field} is missing"
        elif each["type"] == "extra_forbidden":
            yield f"there is no field {field}"
        else:
            words = each["msg"].removeprefix("Value error, ")
            yield f"{field} = {each['input']!r}: {words[:1].lower()}{words[1:]}" if field else words


def _fields(entry: type[RuleEntry]) -> Iterator[str]:
    for name, field in entry.model_fields.items():
        yield name if field.is_required() else f"[{name}]"
