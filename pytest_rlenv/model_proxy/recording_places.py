"""Where the recording of a rollout is, and which one is meant where an environment lies elsewhere by now."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pytest_rlenv.errors import RecordingUnusable

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_DIGEST = 7
"""Characters of what tells folders of one name apart."""


class RolloutName(NamedTuple):
    """Which rollout a recording is of.

    Attributes:
        environment, task, agent, attempt: as the rollout's record has them.
        task_digest: of the task's contents; empty if there is none.
    """

    environment: str
    task: str
    agent: str
    attempt: int
    task_digest: str = ""


def recording_file(folder: Path, rollout: RolloutName) -> Path:
    """Return where a rollout is recorded.

    An environment outside of the project is named by its whole path: the last part of that is for people, and
    a digest tells it from others.
    """
    home = _word(rollout.environment)
    if _is_outside(rollout.environment):
        digest = hashlib.sha256(rollout.environment.encode("utf-8", "surrogateescape")).hexdigest()
        home = f"{_last(rollout.environment)}-{digest[:_DIGEST]}"
    return folder / home / _below(rollout)


def find_recording(folder: Path, rollout: RolloutName) -> Path:
    """Return the file of a rollout's recording, which may not be there.

    An environment outside of the project may have lain elsewhere when it was recorded: then it is known by
    the contents of its task. Recordings that have no digest of these, as older ones, go by the folder's name.

    Raises:
        RecordingUnusable: what is there in its place is of another environment, or of several.
    """
    file = recording_file(folder, rollout)
    if not _is_outside(rollout.environment):
        _check(file, rollout)
        return file
    if file.exists():
        return file
    facts = _of_that_folder_name(folder, rollout)
    if not facts:
        return file
    if meant := _meant(facts, rollout):
        return meant
    of_whom = " and ".join(sorted({str(of.get("environment", "nobody knows")) for of in facts.values()}))
    raise RecordingUnusable(
        f"no recording of {rollout.environment}, task {rollout.task}: those below {folder} are of {of_whom}",
        hint="record it with --rlenv-record; one that was moved is known by tasks that are unchanged",
    )


def _of_that_folder_name(folder: Path, rollout: RolloutName) -> dict[Path, dict[str, Any]]:
    """Return what recordings say of themselves that may be the rollout's, by their files."""
    last = _last(rollout.environment)
    places = [folder / last, *sorted(folder.glob(f"{last}-{'[0-9a-f]' * _DIGEST}"))]
    files = [place / _below(rollout) for place in places]
    return {file: _facts(file) for file in files if file.is_file()}


def _meant(recorded: Mapping[Path, Mapping[str, Any]], rollout: RolloutName) -> Path | None:
    """Return which of these is the rollout's: by its name, else by its contents, else the only one."""
    for file, facts in recorded.items():
        if facts.get("environment") == rollout.environment:
            return file
    for file, facts in recorded.items():
        if facts.get("task_digest") == rollout.task_digest != "":
            return file
    unknown = [
        file for file, facts in recorded.items() if not (facts.get("task_digest") and rollout.task_digest)
    ]
    return unknown[0] if len(unknown) == 1 else None


def _check(file: Path, rollout: RolloutName) -> None:
    """Refuse a recording of another environment or task, whose name makes the same file's."""
    if not file.exists():
        return
    facts = _facts(file)
    for key, wanted in (("environment", rollout.environment), ("task", rollout.task)):
        if facts.get(key, wanted) != wanted:
            raise RecordingUnusable(
                f"{file} is of {key} {facts[key]}, and this is {wanted}",
                hint="record the two in folders of their own",
            )


def _facts(file: Path) -> dict[str, Any]:
    """Return what a recording says of itself in its first line, nothing if it cannot be read."""
    try:
        with file.open(encoding="utf-8") as opened:
            found = json.loads(opened.readline())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_outside(environment: str) -> bool:
    return environment.startswith(("/", ".."))


def _last(environment: str) -> str:
    return _word(environment.rstrip("/").rpartition("/")[2])


def _below(rollout: RolloutName) -> Path:
    return Path(_word(rollout.task), f"{_word(rollout.agent)}.{rollout.attempt}.jsonl")


def _word(text: str) -> str:
    return _NOT_IN_NAMES.sub("-", text).strip("-.") or "x"
