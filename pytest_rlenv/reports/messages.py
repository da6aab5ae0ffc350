"""What a person reads below a test that did not pass: short, with the stage, the evidence and the cure."""

from __future__ import annotations

import os

from pytest_rlenv.errors import RlenvError
from pytest_rlenv.execution import Judged
from pytest_rlenv.rollout import ErrorInfo
from pytest_rlenv.secrets import SECRETS


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
    return "\n".join([*lines, *_footer(judged)])


def failure_text(judged: Judged) -> str:
    """Return the message of a failure."""
    return "\n".join([judged.verdict.message, *_footer(judged)])


def error_line(error: ErrorInfo) -> str:
    """Return an error in one line: ``RewardMissing [verify]: no reward file ...``."""
    return f"{error.type} [{error.stage.value}]: {error.message}"


def usage_text(error: RlenvError) -> str:
    """Return the message of what the user asked for and cannot have; a stranger's code may have worded it."""
    text = f"rlenv: {error.message}"
    if error.detail:
        text += "\n" + "\n".join(f"    {line}" for line in error.detail.splitlines())
    return SECRETS.redact("\n".join([text, *(f"  {line}" for line in error.hint.splitlines())]))


def _footer(judged: Judged) -> list[str]:
    lines = [f"note: {note.text}" for note in judged.rollout.notes if note.code != "task-warning"]
    if judged.folder is not None:
        lines.append(f"logs: {os.path.relpath(judged.folder)}")
    return lines
