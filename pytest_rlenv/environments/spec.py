"""Parse the text of ``--rlenv SPEC``: a folder on this machine, or a dataset repository on the Hub.

Nothing is looked up but the local file system, and nothing heavy is imported: a run without ``--rlenv``
must not pay for it, and a mistyped spec must be answered at once.
"""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from pytest_rlenv.environments import hub_reference
from pytest_rlenv.environments.layouts import TASKSET_PREFIX
from pytest_rlenv.environments.model import HUB, LOCAL, TASKSET
from pytest_rlenv.errors import SpecError

_EXPLICITLY_LOCAL = re.compile(r"\.{1,2}(/|$)|/|~")
_TASKSET = re.compile(r"(?:[\w.-]+/)?[\w.-]+(?:@[\w.+-]+)?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True)
class Spec:
    """What the user named, before anything is resolved.

    Attributes:
        text: as the user wrote it.
        kind: :data:`~pytest_rlenv.environments.model.LOCAL`, :data:`~pytest_rlenv.environments.model.HUB` or
            :data:`~pytest_rlenv.environments.model.TASKSET`.
        path: the folder, absolute (local only).
        repo_id: ``org/repo`` (Hub only).
        revision: branch, tag or commit that was asked for, ``None`` for the default branch (Hub only).
        subpath: the folder of the repository to stay in, ``""`` for all of it (Hub only).
        taskset: the id of a taskset (tasksets only).
    """

    text: str
    kind: str
    path: Path | None = None
    repo_id: str | None = None
    revision: str | None = None
    subpath: str = ""
    taskset: str = ""


def parse_spec(text: str, base: Path) -> Spec:
    """Read one spec.

    A folder that exists wins over a repository of the same name; ``./x``, ``/x``, ``~/x`` are always local.
    ``verifiers:ID`` is a taskset of an installed package.

    Args:
        text: such as ``./envs``, ``org/repo@v1/tasks``, ``hf://datasets/org/repo`` or a dataset's URL.
        base: the folder that relative paths start from.

    Raises:
        SpecError: when it is none of these; the message says what it looks like and what to write instead.
    """
    cleaned = text.strip()
    if not cleaned:
        raise SpecError("the environment is empty text", hint="name a folder, or a Hub dataset as org/repo")
    if _CONTROL.search(cleaned):
        raise SpecError(f"{text!r} has control characters in it", hint="check the quoting of --rlenv")
    if cleaned.startswith(TASKSET_PREFIX):
        return _taskset(text, cleaned.removeprefix(TASKSET_PREFIX))
    if "://" in cleaned:
        return _hub(text, hub_reference.parse_uri_or_url(cleaned))
    folder, what = _look(base, cleaned)
    if folder and what == "folder":
        return Spec(text, LOCAL, path=folder)
    if folder and what == "file":
        raise SpecError(f"{text!r} is a file", hint=f"name the folder that holds the task: {folder.parent}")
    if _EXPLICITLY_LOCAL.match(cleaned):
        raise SpecError(f"there is no folder {text!r}", hint=_near_folders(folder) or f"looked in {base}")
    if hub_reference.looks_like_url(cleaned):
        return _hub(text, hub_reference.parse_uri_or_url(cleaned))
    if "/" not in cleaned:
        raise SpecError(
            f"{text!r} is neither a folder nor a Hub dataset (org/repo)",
            hint=_near_folders(folder) or f"looked in {base}; {hub_reference.FORMS}",
        )
    return _hub(text, hub_reference.parse_bare(cleaned))


def _hub(text: str, reference: hub_reference.HubReference) -> Spec:
    return Spec(text, HUB, repo_id=reference.repo_id, revision=reference.revision, subpath=reference.subpath)


def _taskset(text: str, taskset: str) -> Spec:
    if not _TASKSET.fullmatch(taskset):
        raise SpecError(
            f"{text!r} does not name a taskset",
            hint=f"write {TASKSET_PREFIX}ID, such as verifiers:reverse-text",
        )
    return Spec(text, TASKSET, taskset=taskset)


def _look(base: Path, text: str) -> tuple[Path | None, str]:
    """Return the path that the text would be, and whether that is a ``folder``, a ``file`` or nothing."""
    try:
        path = Path(os.path.normpath(base / Path(text).expanduser()))
        return path, "folder" if path.is_dir() else "file" if path.exists() else ""
    except (OSError, ValueError, RuntimeError):  # too long, not encodable, ~nobody
        return None, ""


def _near_folders(wanted: Path | None) -> str:
    if wanted is None:
        return ""
    try:
        names = [entry.name for entry in os.scandir(wanted.parent) if entry.is_dir()]
    except (OSError, ValueError):
        return ""
    near = difflib.get_close_matches(wanted.name, names, n=3)
    return f"did you mean {', '.join(near)}?" if near else ""
