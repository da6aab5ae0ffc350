"""``task.yaml``, as Terminal-Bench 0.2 reads it, and its older form with ``descriptions``.

What has no effect on a run (who wrote the task, how long people need for it) is not checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, Field, ValidationError, model_validator

from pytest_rlenv.errors import TaskInvalid
from pytest_rlenv.frameworks.harbor.config_findings import config_warnings, invalid_config
from pytest_rlenv.frameworks.harbor.limits import TimeLimit
from pytest_rlenv.frameworks.terminal_bench.yaml_text import parse_yaml

BASE = "base"
"""The key, among several ``descriptions``, of the one that is the task."""


class ParserName(str, Enum):
    """Who reads results from the output of the tests: the parsers that Terminal-Bench 0.2 has."""

    PYTEST = "pytest"
    SWEBENCH = "swebench"
    SWELANCER = "swelancer"
    MLEBENCH = "mlebench"
    SWEPERF = "sweperf"


class TaskYaml(BaseModel):
    """The fields of a ``task.yaml``."""

    DEPRECATED: ClassVar[dict[str, str]] = {"descriptions": "instruction"}

    instruction: str
    parser_name: ParserName = ParserName.PYTEST
    max_agent_timeout_sec: TimeLimit = 360.0
    max_test_timeout_sec: TimeLimit = 60.0
    run_tests_in_same_shell: bool = False

    author_name: Any = None
    author_email: Any = None
    difficulty: Any = None
    category: Any = None
    tags: Any = None
    disable_asciinema: Any = None
    estimated_duration_sec: Any = None
    expert_time_estimate_min: Any = None
    junior_time_estimate_min: Any = None
    env_name: Any = None
    test_scripts: Any = None

    descriptions: Any = Field(default=None, exclude=True)

    @model_validator(mode="before")
    @classmethod
    def _older_form(cls, data: Any) -> Any:
        if isinstance(data, dict) and "instruction" not in data and "descriptions" in data:
            return {**data, "instruction": _described(data["descriptions"])}
        return data


def parse_config(text: bytes | str, path: Path | str) -> tuple[TaskYaml, list[str]]:
    """Return the configuration in a ``task.yaml`` and one warning for each field that is ignored or old.

    Args:
        text: the file's content.
        path: the file's name for messages.

    Raises:
        TaskInvalid: not YAML, or fields that cannot be used; names file, fields, values and what is expected.
    """
    raw = parse_yaml(text, path)
    if not isinstance(raw, dict):
        raise TaskInvalid(f"{path}: holds {_kind(raw)}, not a mapping with the field `instruction`")
    if not all(isinstance(key, str) for key in raw):
        odd = next(key for key in raw if not isinstance(key, str))
        raise TaskInvalid(f"{path}: the key {odd!a} is not a text")
    try:
        config = TaskYaml.model_validate(raw)
    except ValidationError as error:
        raise invalid_config(error, raw, path) from None
    findings = config_warnings(raw, TaskYaml) + _variants(raw)
    if not config.instruction.strip():
        findings.append("instruction: empty, so the agent is told nothing")
    return config, [f"{path}: {finding}" for finding in findings]


def _described(descriptions: Any) -> str:
    """Return the description of the key ``base``.

    Raises:
        ValueError: there is none.
    """
    text = dict(_by_key(descriptions)).get(BASE)
    if not isinstance(text, str):
        raise ValueError(f'descriptions: no entry with the key "{BASE}" and a text as description')
    return text


def _variants(raw: Mapping[str, Any]) -> list[str]:
    others = [ascii(key) for key, _ in _by_key(raw.get("descriptions")) if key != BASE]
    return [f'descriptions: only "{BASE}" is run, not {", ".join(others)}'] if others else []


def _by_key(descriptions: Any) -> Iterator[tuple[str, Any]]:
    for entry in descriptions if isinstance(descriptions, list) else ():
        if isinstance(entry, Mapping) and isinstance(entry.get("key", BASE), str):
            yield entry.get("key", BASE), entry.get("description")


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    return "a list" if isinstance(value, list) else "a single value"
