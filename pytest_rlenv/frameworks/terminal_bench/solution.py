"""The reference solution: ``solution.sh``, or else ``solution.yaml``, as files for the oracle to run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_rlenv.agents.oracle import SOLUTION_DIR
from pytest_rlenv.errors import TaskInvalid
from pytest_rlenv.frameworks.harbor.files import carriage_returns, is_lfs_pointer
from pytest_rlenv.frameworks.harbor.inside import holding, read_inside
from pytest_rlenv.frameworks.terminal_bench.keystrokes import as_script, first_interactive, parse_commands
from pytest_rlenv.sandboxes.model import Entry

SCRIPT, COMMANDS = "solution.sh", "solution.yaml"

MAX_SOLUTION_BYTES = 64 * 1024 * 1024

_START = f"#!/bin/sh\nexec bash {SOLUTION_DIR}/{SCRIPT}\n"


@dataclass(frozen=True)
class Solution:
    """What the oracle is given.

    Attributes:
        entries: the files for ``/solution``, with a ``solve.sh`` among them.
        missing: why there is nothing to run, in one line; empty if there is.
        warnings: what its author should know, one line each.
    """

    entries: tuple[Entry, ...] = ()
    missing: str = ""
    warnings: tuple[str, ...] = ()


def read_solution(root: Path) -> Solution:
    """Return the reference solution of a task; as in Terminal-Bench 1, a script wins over commands.

    Args:
        root: the task's folder, resolved.

    Raises:
        TaskInvalid: the file that counts cannot be used.
    """
    if (root / SCRIPT).exists():
        script = read_inside(root, SCRIPT, cap=MAX_SOLUTION_BYTES)
        if is_lfs_pointer(script[:512]):
            raise TaskInvalid(f"{SCRIPT}: a git-lfs pointer, not the file itself")
        wrong = carriage_returns(SCRIPT, script[:512])
        return _solution(script, (f"{SCRIPT}: {wrong}",) if wrong else ())
    if not (root / COMMANDS).exists():
        told = f"no reference solution: neither {SCRIPT} nor {COMMANDS} ({holding(root, root)})"
        return Solution(missing=told)
    commands = parse_commands(read_inside(root, COMMANDS, cap=MAX_SOLUTION_BYTES), COMMANDS)
    interactive = first_interactive(commands)
    if interactive:
        return Solution(
            missing=f"{COMMANDS}: {interactive}, which needs a terminal; only {SCRIPT} can be run"
        )
    return _solution(as_script(commands).encode())


def _solution(script: bytes, warnings: tuple[str, ...] = ()) -> Solution:
    entries = (Entry("solve.sh", _START.encode(), 0o755), Entry(SCRIPT, script, 0o755))
    return Solution(entries, warnings=warnings)
