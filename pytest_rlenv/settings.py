"""The checked settings of a run, made from the option table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from pytest_rlenv.amounts import parse_size
from pytest_rlenv.disk import MIN_FREE
from pytest_rlenv.errors import SpecError
from pytest_rlenv.options import OPTIONS, Value


def _split(raw: Any) -> Any:
    """Split ``a,b`` and lists of such texts into single words."""
    parts = [raw] if isinstance(raw, str) else raw
    return tuple(word for part in parts for word in re.split(r"[,\s]+", part.strip()) if word)


def _lines(raw: Any) -> Any:
    """Take a text from the environment as words, a list as it is."""
    return tuple(raw.split()) if isinstance(raw, str) else tuple(raw)


def _texts(raw: Any) -> Any:
    """Take each text as it is, and ``@FILE`` as what the file holds; from the environment it is one."""
    return tuple(_text(given) for given in ([raw] if isinstance(raw, str) else raw))


def _text(given: str) -> str:
    if not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).expanduser().read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{given[1:]} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{given[1:]} is not UTF-8") from None


def _unique(words: tuple[str, ...]) -> tuple[str, ...]:
    for word in words:
        if words.count(word) > 1:
            raise ValueError(f"{word} is named twice")
    return words


def _size(raw: Any) -> Any:
    return parse_size(raw) if isinstance(raw, str) else raw


Size = Annotated[int, BeforeValidator(_size)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Words = Annotated[tuple[str, ...], BeforeValidator(_split)]
Agents = Annotated[Words, Field(min_length=1), AfterValidator(_unique)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_texts)]
Globs = Annotated[tuple[str, ...], BeforeValidator(_lines)]


class Settings(BaseModel):
    """What the user asked for. Field names are the option names of :data:`pytest_rlenv.options.OPTIONS`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    repos: Globs = ()
    agent: Agents = ("oracle",)
    model: str | None = None
    task: Globs = ()
    exclude_task: Globs = ()
    limit: Annotated[int, Field(ge=1)] | None = None
    dataset: str | None = None
    threshold: Finite = 1.0
    reward_key: str | None = None
    sandbox: str = "auto"
    jobs: Annotated[int, Field(ge=1)] = 1
    build: bool = False
    min_free: Size = MIN_FREE
    output: Path | None = None
    timeout_multiplier: Annotated[Finite, Field(gt=0)] = 1.0
    limits: Literal["enforce", "ignore"] = "enforce"
    verifier: Literal["shared", "quiesce", "fresh"] = "shared"
    extra_instruction: Texts = ()
    allow_unsafe_compose: bool = False
    allow_unscored: bool = False

    sources: Annotated[Mapping[str, str], Field(default_factory=dict)]
    """Where each value that is not a default came from, by option name."""


def load_settings(values: Mapping[str, Value]) -> Settings:
    """Check the given values.

    Raises:
        SpecError: naming the option, its source and the value.
    """
    try:
        return Settings(
            **{name: value.raw for name, value in values.items()},
            sources={name: value.source for name, value in values.items()},
        )
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        value = values[name]
        help_text = next(option.help for option in OPTIONS if option.name == name)
        raise SpecError(
            f"{value.source} = {value.raw!r}: {first['msg'].lower()}", hint=f"{name}: {help_text}"
        ) from error
