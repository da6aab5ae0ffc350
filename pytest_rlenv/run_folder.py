"""The folder of one run: what is in it, a place for each rollout, and what an earlier run has left there."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from pytest_rlenv.disk import OUTPUT_CURE, require_free
from pytest_rlenv.errors import SpecError, Stage

SHARED = ".rlenv-shared"
"""Folder of a run's own locks and notes between its processes, in the run's folder."""


ROLLOUTS = "rollouts"
"""Folder with a folder for each rollout, in the run's folder."""

RECORD = "rlenv.json"
"""Our own record of a rollout, in its folder."""

_SHARE = 16
"""A rollout needs a part of what an image needs: its logs are capped, and most are small."""


def require_space(run_dir: Path, for_an_image: int) -> None:
    """Refuse a rollout whose records and logs may not find a place.

    Args:
        run_dir: the run's folder.
        for_an_image: bytes that an image must find.

    Raises:
        DiskFull: naming the place, what is free there and what is needed.
    """
    doing = "store what a rollout leaves"
    require_free(run_dir, for_an_image // _SHARE, doing=doing, stage=Stage.LOAD, hint=OUTPUT_CURE)


def new_rollout_dir(run_dir: Path, task: str, key: Sequence[str]) -> Path:
    """Make the folder of one rollout's logs and return it; it is empty and nobody else's.

    Args:
        run_dir: the run's folder.
        task: the task's id, for people to know it by.
        key: what tells the rollout from others.
    """
    (run_dir / ROLLOUTS).mkdir(parents=True, exist_ok=True)
    for folder in _places(run_dir, task, key):
        # More than one test may ask for the same rollout, in several processes at once.
        with suppress(FileExistsError):
            folder.mkdir()
            return folder
    raise AssertionError("there is always one more place")


def unfinished_dirs(run_dir: Path, task: str, key: Sequence[str]) -> list[Path]:
    """Return the folders of one rollout that no record tells of: its process was killed, or tried again.

    Args:
        run_dir: the run's folder.
        task: the task's id.
        key: as for :func:`new_rollout_dir`.
    """
    places = itertools.takewhile(Path.is_dir, _places(run_dir, task, key))
    return [folder for folder in places if not (folder / RECORD).exists()]


def _places(run_dir: Path, task: str, key: Sequence[str]) -> Iterator[Path]:
    digest = hashlib.sha256("\0".join(key).encode()).hexdigest()[:7]
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", task)[:32].strip("-.") or "task"
    for again in itertools.count(1):
        yield run_dir / ROLLOUTS / (f"{slug}__{digest}" if again == 1 else f"{slug}__{digest}-{again}")


def clear_earlier_run(run_dir: Path, session: str, *, resumed: bool = False) -> bool:
    """Remove what an earlier run left in an output folder that is used again; nothing else in it.

    Returns whether there were results.

    Of a run that is resumed in its own folder nothing is removed that cannot be made again: until a test has
    had its turn, what is stored there is all there is of it.

    Args:
        run_dir: the folder.
        session: the run that begins; its own things stay.
        resumed: the earlier run's results and logs stay, too.

    Raises:
        SpecError: the folder has files by our names that are no run's of ours.
    """
    present = [name for name in ("results.jsonl", "run.json", ROLLOUTS) if (run_dir / name).exists()]
    if present and not _is_ours(run_dir / "run.json"):
        raise SpecError(
            f"--rlenv-output {run_dir}: it holds {', '.join(present)}, and not from a run of ours",
            hint="choose another folder; these would be overwritten",
        )
    old = [] if resumed else [run_dir / name for name in present]
    old += [path for path in (run_dir / SHARED).glob("*") if path.name not in (session, "lock")]
    for path in old:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    if resumed:
        _end_last_line(run_dir / "results.jsonl")
    return bool(present) and not resumed


def _end_last_line(file: Path) -> None:
    """End a line that a killed run has torn, so that the next is one of its own."""
    if file.exists() and not (content := file.read_bytes()).endswith(b"\n") and content:
        with file.open("ab") as end:
            end.write(b"\n")


def _is_ours(facts_file: Path) -> bool:
    try:
        facts = json.loads(facts_file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(facts, dict) and {"run", "pytest_rlenv"} <= facts.keys()


def machine() -> dict[str, str]:
    """Return the facts of this machine that a result depends on."""
    import platform

    return {
        "platform": platform.platform(),
        "architecture": platform.machine(),
        "python": sys.version.split()[0],
        "cpus": str(os.cpu_count() or ""),
    }
