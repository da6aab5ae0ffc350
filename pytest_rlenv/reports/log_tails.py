"""The last lines of a rollout's logs, and where the whole of them is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pytest_rlenv.text import decode, tail
from pytest_rlenv.trajectory import TRAJECTORY

LINES = 40
CHARS = 3000
_READ = 64 * 1024
_KINDS = {"agent": "oracle.txt", "verifier": "test-stdout.txt"}
"""What a rollout's folder has of the agent and of the verifier, and where each mostly prints to."""


class LogTail(NamedTuple):
    """The end of a log.

    Attributes:
        kind: ``agent`` or ``verifier``.
        path: the whole log, relative to the run's folder.
        size: its bytes.
        text: its last lines, safe to show.
    """

    kind: str
    path: str
    size: int
    text: str

    def titled(self) -> str:
        """Return the text below a line that says what it is."""
        return f"--- {self.kind}: the end of {self.path} ({self.size} bytes) ---\n{self.text}\n"


def log_tails(run_dir: Path, record: Mapping[str, Any]) -> list[LogTail]:
    """Return the ends of the agent's and the verifier's log, as far as there are any.

    Of a task of several steps they are those of the last step that was run.
    """
    if not record.get("logs"):
        return []
    folder = run_dir / str(record["logs"])
    steps = record.get("steps") or ()
    if steps:
        folder = folder / "steps" / str(steps[-1]["name"])
    return [found for kind in _KINDS if (found := _tail_of(run_dir, folder / kind, kind))]


def trajectories(folder: Path) -> Iterator[Path]:
    """Yield the trajectories that the agent has left in a rollout's folder, those of the steps in order."""
    for place in (folder, *sorted((folder / "steps").glob("*"))):
        if (path := place / "agent" / TRAJECTORY).is_file():
            yield path


def _tail_of(run_dir: Path, folder: Path, kind: str) -> LogTail | None:
    path = folder / _KINDS[kind]
    try:
        if not path.is_file():
            others = sorted(other for other in folder.iterdir() if other.suffix in (".txt", ".log"))
            if not others:
                return None
            path = others[0]
        size = path.stat().st_size
        with path.open("rb") as file:
            file.seek(max(0, size - _READ))
            text = decode(file.read())
    except OSError:
        return None
    if not text.strip():
        return None
    return LogTail(kind, path.relative_to(run_dir).as_posix(), size, tail(text, lines=LINES, chars=CHARS))
