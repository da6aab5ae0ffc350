"""What the report shows of a rollout's folder: instruction, logs, trajectory, files, each in its share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_rlenv.reports.html.folder import StoredFile, list_files, read_end, read_start
from pytest_rlenv.reports.html.trajectory import Trajectory, read_trajectory
from pytest_rlenv.trajectory import TRAJECTORY

TOTAL = 24 * 1024 * 1024
"""Bytes of logs and trajectories in one report: what a browser opens at once."""
EACH = 96 * 1024
"""Bytes of logs and trajectories of one rollout."""
WEIGHT = 4
"""A rollout that did not pass has so many times the share of one that did, where not all have enough."""

INSTRUCTION = "instruction.md"
INSTRUCTION_BYTES = 32 * 1024
FILES_SHOWN = 200
LOGS_SHOWN = 6
"""Logs of the agent, and of the verifier, whose ends are shown; the others are linked."""

_LOG_SHARE = 0.3
"""Part of a rollout's share for the verifier's logs, and for the agent's; the trajectory has what is left."""


@dataclass
class Log:
    """The end of one log.

    Attributes:
        name: the file's name below the rollout's folder.
        text: what is shown.
        size: bytes of the file.
        cut: bytes that are not shown, all of them before what is.
    """

    name: str
    text: str
    size: int
    cut: int


@dataclass
class Evidence:
    """What is shown of one rollout's folder.

    Attributes:
        instructions: what the agent was told, by step (``""`` for a task without), as text and bytes cut.
        verifier, agent: ends of logs.
        trajectories: what the agent did.
        files: names and sizes of the files, the artifacts first.
        more_files: True if there are others.
        problem: why nothing can be shown.
    """

    instructions: dict[str, tuple[str, int]] = field(default_factory=dict)
    verifier: list[Log] = field(default_factory=list)
    agent: list[Log] = field(default_factory=list)
    trajectories: list[Trajectory] = field(default_factory=list)
    files: list[tuple[str, int]] = field(default_factory=list)
    more_files: bool = False
    problem: str = ""


def shares(passed: Sequence[bool], *, total: int = TOTAL, each: int = EACH) -> list[int]:
    """Return how many bytes each rollout may show.

    Args:
        passed: for each rollout, whether it passed: such a one is read more rarely.
        total: bytes of all.
        each: bytes of one.
    """
    weights = [1 if good else WEIGHT for good in passed]
    unit = total / max(sum(weights), 1)
    return [min(each, int(unit * weight)) for weight in weights]


def gather(folder: Path | None, share: int) -> Evidence:
    """Read what can be shown of a rollout's folder.

    Args:
        folder: the folder; ``None`` if it is not there.
        share: bytes of logs and trajectory.
    """
    if folder is None:
        return Evidence(problem="The rollout's folder is not there, so there are no logs to show")
    found = Evidence()
    try:
        _fill(found, folder, share)
    except OSError as error:
        found.problem = f"Not all of the rollout's folder could be read: {error.strerror}"
    return found


def _fill(found: Evidence, folder: Path, share: int) -> None:
    files, found.more_files = list_files(folder)
    listed = sorted(files, key=lambda file: (file.below("artifacts") is None, file.parts))
    found.files = [(file.name, file.size) for file in listed[:FILES_SHOWN]]
    found.more_files = found.more_files or len(files) > FILES_SHOWN
    for file in files:
        if file.parts[-1] == INSTRUCTION and (step := _step_of_instruction(file)) is not None:
            excerpt = read_start(file, INSTRUCTION_BYTES)
            found.instructions[step] = (excerpt.text, excerpt.cut)
    room = int(share * _LOG_SHARE)
    found.verifier = _logs(_of(files, "verifier"), room)
    found.agent = _logs([file for file in _of(files, "agent") if not _is_trajectory(file)], room)
    left = share - sum(len(log.text) for log in (*found.verifier, *found.agent))
    of_agent = [file for file in _of(files, "agent") if _is_trajectory(file)]
    found.trajectories = [read_trajectory(file, left // len(of_agent)) for file in of_agent]


def _of(files: list[StoredFile], kind: str) -> list[StoredFile]:
    """Return the files below ``agent/`` or ``verifier/`` of all steps, what the script printed first."""
    found = [(below, file) for file in files if (below := file.below(kind)) is not None]
    return [file for below, file in sorted(found, key=lambda pair: (pair[0][0], _rank(pair[0][1])))]


def _rank(name: str) -> tuple[int, str]:
    order = ("test-stdout.txt", "oracle.txt", "test-stderr.txt")
    return (order.index(name) if name in order else len(order)), name


def _step_of_instruction(file: StoredFile) -> str | None:
    if len(file.parts) == 1:
        return ""
    return file.parts[1] if len(file.parts) == 3 and file.parts[0] == "steps" else None


def _is_trajectory(file: StoredFile) -> bool:
    below = file.below("agent")
    return below is not None and below[1] == TRAJECTORY


def _logs(files: list[StoredFile], room: int) -> list[Log]:
    """Read the ends of logs; each has an even part of what those before it have left."""
    logs: list[Log] = []
    chosen = [file for file in files if file.size][:LOGS_SHOWN]
    for number, file in enumerate(chosen):
        excerpt = read_end(file, max(room // (len(chosen) - number), 1))
        if excerpt is not None:
            room -= len(excerpt.text)
            logs.append(Log(file.name, excerpt.text, file.size, excerpt.cut))
    return logs
