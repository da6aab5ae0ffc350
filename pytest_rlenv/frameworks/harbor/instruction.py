"""The text that an agent is given: ``instruction.md`` without its canary lines."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_rlenv.errors import TaskInvalid
from pytest_rlenv.frameworks.harbor.inside import read_inside

MAX_INSTRUCTION_BYTES = 16 * 1024 * 1024
LEFT_CHARS = 256 * 1024
"""Characters of the instruction that are left with a rollout."""

_CANARY = re.compile(r"(<!--.*canary.*-->|#.*canary.*)", re.IGNORECASE)


def read_instruction(root: Path, name: str = "instruction.md") -> tuple[str, list[str]]:
    """Return the instruction and warnings about it.

    An empty one is a warning, because Harbor accepts it. A byte order mark is dropped.

    Args:
        root: the task's folder.
        name: the file relative to it.

    Raises:
        TaskInvalid: missing, not a regular file inside the task, too large, or not UTF-8.
    """
    data = read_inside(root, name, cap=MAX_INSTRUCTION_BYTES)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TaskInvalid(
            f"{name}: not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}",
            hint="Save the file as UTF-8.",
        ) from None
    stripped = strip_canary(text.replace("\r\n", "\n").replace("\r", "\n"))
    return stripped, [] if stripped.strip() else [f"{name}: empty, so the agent is told nothing"]


def leave_instruction(folder: Path, text: str) -> None:
    """Leave what an agent is told with its rollout, for the reports; the begin of it, where it is very long.

    Args:
        folder: the step's folder, or the rollout's.
        text: the instruction as the agent has it.
    """
    (folder / "instruction.md").write_text(text[:LEFT_CHARS], encoding="utf-8", errors="replace")


def strip_canary(text: str) -> str:
    """Return the text without leading canary lines and the blank lines after them.

    A canary marks benchmark data so that it can be kept out of training sets: a line of the form
    ``<!-- ... canary ... -->`` or ``# ... canary ...``, in any letter case.
    """
    lines = text.split("\n")
    start = 0
    while start < len(lines) and _CANARY.fullmatch(lines[start].strip()):
        start += 1
    while start < len(lines) and not lines[start].strip():
        start += 1
    return "\n".join(lines[start:])
