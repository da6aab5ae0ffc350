"""JUnit properties of a rollout. Values are text; what there is not is absent, a reward above all."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from pytest_rlenv.rollout import reward_of

Record = Mapping[str, Any]

DATADOG = "dd_tags[{}]"
"""Datadog makes tags of properties that are named so."""

_PLAIN = {
    "rlenv.repo": "environment",
    "rlenv.revision": "revision",
    "rlenv.task": "task",
    "rlenv.task_digest": "task_digest",
    "rlenv.framework": "framework",
    "rlenv.agent": "agent",
    "rlenv.agent_version": "agent_version",
    "rlenv.model": "model",
    "rlenv.attempt": "attempt",
    "rlenv.sandbox": "sandbox",
    "rlenv.runner": "runner",
    "rlenv.image": "image",
    "rlenv.verifier": "verifier_level",
    "rlenv.verifier_image": "verifier_image",
    "rlenv.expected": "expected",
    "rlenv.verdict": "verdict",
    "rlenv.reward": "reward",
}


def properties(record: Record, *, datadog: bool = False) -> list[tuple[str, str]]:
    """Return the properties in a fixed order.

    Args:
        record: a rollout's, as it is stored.
        datadog: give each once more as a tag for Datadog.
    """
    found = [_property(name, str(value)) for name, value in _values(record) if value not in (None, "")]
    if datadog:
        found += [_property(DATADOG.format(name), value) for name, value in found]
    return found


@lru_cache(maxsize=1024)
def _property(name: str, value: str) -> tuple[str, str]:
    """Return a pair; an equal one if there was one lately, as pytest keeps those of every rollout."""
    return sys.intern(name), value


def _values(record: Record) -> Iterator[tuple[str, Any]]:
    error = record.get("error") or {}
    yield from ((name, record.get(key)) for name, key in _PLAIN.items())
    yield "rlenv.error", error.get("type")
    yield "rlenv.error_kind", error.get("kind")
    yield "rlenv.error_stage", error.get("stage")
    yield from _tries(record)
    yield "rlenv.quarantine", (record.get("quarantine") or {}).get("reason")
    yield "rlenv.resumed_from", (record.get("resumed_from") or {}).get("run")
    yield "rlenv.logs", record.get("logs")
    yield "rlenv.trajectory", "\n".join(record.get("trajectories") or ())
    yield "rlenv.seconds", record.get("seconds")
    if not error:
        yield from _under("rlenv.reward", record.get("rewards"))
    yield from _under("rlenv.seconds", record.get("stages"))
    yield from _under("rlenv.usage", record.get("usage"))
    if checks := record.get("checks"):
        yield from (("rlenv.checks.passed", checks["passed"]), ("rlenv.checks.failed", checks["failed"]))
    for step in record.get("steps") or ():
        yield f"rlenv.step.{step['name']}", reward_of(step.get("rewards"), record.get("reward_key"))
    yield from _notes(record)


def _tries(record: Record) -> Iterator[tuple[str, Any]]:
    """Yield how often the rollout was tried again after an error, and after which ones."""
    tries = record.get("tries") or ()
    yield "rlenv.retries", len(tries)
    errors = ", ".join(f"{each['error']['type']} [{each['error']['stage']}]" for each in tries)
    yield "rlenv.retried_errors", errors


def _under(name: str, values: Mapping[str, Any] | None) -> Iterator[tuple[str, Any]]:
    yield from ((f"{name}.{key}", value) for key, value in (values or {}).items())


def _notes(record: Record) -> Iterator[tuple[str, str]]:
    """Yield notes by code; several of one code are one property, a line each."""
    texts: dict[str, list[str]] = {}
    for note in record.get("notes") or ():
        texts.setdefault(f"rlenv.note.{note['code']}", []).append(note["text"])
    yield from ((name, "\n".join(lines)) for name, lines in texts.items())
