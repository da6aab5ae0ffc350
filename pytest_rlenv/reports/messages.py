"""What a person reads below a test that did not pass: short, with the stage, the evidence and the cure."""

from __future__ import annotations

from pytest_rlenv.errors import RlenvError
from pytest_rlenv.execution import Judged
from pytest_rlenv.rollout import ErrorInfo, Rollout


def error_text(judged: Judged) -> str:
    """Return the message of an error; its first word is the error's class, for whoever matches on it."""
    error = judged.rollout.error
    if error is None:
        raise ValueError("the rollout has no error")
    lines = [error_line(error)]
    if error.hint:
        lines.append(f"hint: {error.hint}")
    if error.detail:
        lines += ["output:", *(f"    {line}" for line in error.detail.splitlines())]
    return "\n".join([*lines, *_footer(judged.rollout)])


def failure_text(judged: Judged) -> str:
    """Return the message of a failure."""
    return "\n".join([judged.verdict.message, *_footer(judged.rollout)])


def error_line(error: ErrorInfo) -> str:
    """Return an error in one line: ``RewardMissing [verify]: no reward file ...``."""
    return f"{error.type} [{error.stage.value}]: {error.message}"


def usage_text(error: RlenvError) -> str:
    """Return the message of what the user asked for and cannot have."""
    text = f"rlenv: {error.message}"
    if error.detail:
        text += "\n" + "\n".join(f"    {line}" for line in error.detail.splitlines())
    return f"{text}\n  {error.hint}" if error.hint else text


def _footer(rollout: Rollout) -> list[str]:
    lines = [f"note: {note.text}" for note in rollout.notes if note.code != "task-warning"]
    if rollout.logs:
        lines.append(f"logs: {rollout.logs}")
    return lines
