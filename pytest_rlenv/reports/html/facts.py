"""What ran, where and when: the facts of ``run.json`` and of the records as labelled texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from pytest_rlenv.options import OPTIONS


def labelled(facts: Mapping[str, Any], records: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return the facts, those that are not known left out.

    Args:
        facts: what ``run.json`` says; may be empty.
        records: of the rollouts; what they were really run with.
    """
    rows = list(records)
    machine = _mapping(facts.get("machine"))
    found = {
        "agents": _agents(rows),
        "model": _all(rows, "model"),
        "sandbox": _text(facts.get("sandbox")) or _all(rows, "sandbox"),
        "framework": _all(rows, "framework"),
        "pytest-rlenv": _text(facts.get("pytest_rlenv")),
        "Python": _text(machine.get("python")),
        "machine": " · ".join(
            filter(None, (_text(machine.get("platform")), _cpus(_text(machine.get("cpus")))))
        ),
        "run": _text(facts.get("run")),
        "merged from": _parts(facts.get("merged_from")),
        "exit code": _text(facts.get("exit_code")),
        "options": _options(_mapping(facts.get("settings"))),
    }
    return [(label, value) for label, value in found.items() if value]


def times(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return start and end as written, and the seconds between them; ``None`` for what is not known."""
    start, end = _time(facts.get("started_at")), _time(facts.get("finished_at"))
    return {
        "started": start.isoformat() if start else None,
        "finished": end.isoformat() if end else None,
        "seconds": (end - start).total_seconds() if start and end else None,
    }


def _agents(rows: list[Mapping[str, Any]]) -> str:
    pairs = {(str(row.get("agent")), _text(row.get("agent_version"))) for row in rows}
    return ", ".join(f"{name} {version}".strip() for name, version in sorted(pairs))


def _all(rows: list[Mapping[str, Any]], key: str) -> str:
    return ", ".join(sorted({_text(row.get(key)) for row in rows} - {""}))


def _parts(parts: object) -> str:
    named = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return ", ".join(f"{part.get('path')} ({part.get('rollouts')} rollouts)" for part in named)


def _cpus(count: str) -> str:
    return f"{count} CPU{'' if count == '1' else 's'}" if count else ""


def _options(settings: Mapping[str, Any]) -> str:
    """Return the options that are set to anything, as flags."""
    words = []
    for option in OPTIONS:
        value = settings.get(option.name)
        if value in (None, False, [], "") or option.name not in settings:
            continue
        given = value if isinstance(value, list) else [value]
        words += [option.cli_flag] if value is True else [f"{option.cli_flag}={each}" for each in given]
    return " ".join(words)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _time(value: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo else None
