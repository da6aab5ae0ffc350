"""Traces as plain values, and their records as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .texts import end_of, one_line

_STAGES = ("boot", "setup", "agent", "finalize", "scoring")


def told(trace: Any) -> dict[str, Any]:
    """Return what is judged of a trace. A reward may be ``None`` or not finite: that is told as it is."""
    return {
        "seat": trace.agent.name,
        "ok": trace.ok,
        "stop": trace.stop_condition,
        "rewards": {
            name: None if reward is None else {"score": reward.score, "weight": reward.weight}
            for name, reward in trace.rewards.items()
        },
        "metrics": dict(trace.metrics),
        "errors": errors_of(trace),
        "seconds": {name: getattr(trace.timing, name).duration for name in _STAGES},
        "usage": usage_of(trace),
        "turns": trace.num_turns,
    }


def errors_of(what: Any) -> list[dict[str, Any]]:
    """Return the errors of a trace or an episode, the oldest first."""
    return [
        {
            "type": error.type,
            "message": one_line(error.message),
            "status": error.status_code,
            "detail": end_of(error.traceback or ""),
        }
        for error in what.errors
    ]


def usage_of(trace: Any) -> dict[str, Any]:
    """Return the tokens of a trace's own calls."""
    usage = trace.usage
    if usage is None:
        return {}
    found = {"input_tokens": usage.input_tokens, "output_tokens": usage.completion_tokens}
    return {**found, "cost_usd": usage.cost} if usage.cost is not None else found


def leave_record(what: Any, folder: str, name: str) -> None:
    """Write the whole record of a trace or an episode."""
    text = json.dumps(what.to_record(), indent=1, default=str)
    (Path(folder) / name).write_text(text + "\n", encoding="utf-8")
