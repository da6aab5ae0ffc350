"""Into the box of a verifier that is kept apart: what the agent is judged by, and nothing else.

For a separate verifier that is what Harbor 0.26 brings: ``/logs/artifacts`` and the declared artifacts, each
at its path in the agent's box, owned by root, folders open to all, links only where they stay inside.

With ``--rlenv-verifier fresh`` the task does not know of it, so all is brought that its tests may fairly look
at: the working directory with owners, modes, times and links, and the logs and artifacts of the agent.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from pytest_rlenv.errors import ArtifactsTooLarge, SandboxFailed, Unsupported
from pytest_rlenv.frameworks.harbor.artifact_places import overlap
from pytest_rlenv.frameworks.harbor.collecting import MAX_BYTES, MAX_FILES, Found
from pytest_rlenv.frameworks.harbor.logs import some
from pytest_rlenv.frameworks.harbor.workdir import EXEC_TIMEOUT
from pytest_rlenv.rollout import StepRecord
from pytest_rlenv.sandboxes.model import Completed, Entry
from pytest_rlenv.sandboxes.protocol import Box
from pytest_rlenv.text import decode

_OPEN = Entry("", mode=0o777)
"""The folder itself, open to a verifier that is not root."""

_EMPTY = """for path; do
  if [ -d "$path" ]
  then
    find "$path" -mindepth 1 -maxdepth 1 -exec rm -rf -- {} +
    left=$(find "$path" -mindepth 1 ! -type d) && [ -z "$left" ]
  else rm -rf "$path"
  fi || exit 1
done"""
"""Folders may stay: what is mounted below cannot be removed, only emptied."""
_SYSTEM = tuple(PurePosixPath(path) for path in ("/tests", "/logs/agent", "/logs/verifier"))
"""Where the verifier's own things are: a working directory there cannot be told from them."""


def take_workdir(box: Box, workdir: str, scratch: Path, record: StepRecord) -> Found:
    """Copy the working directory of the agent's box here.

    Args:
        box: the agent's box.
        workdir: its working directory, as it was before the agent acted.
        scratch: an empty folder on this machine.
        record: where it is noted what was left out.

    Raises:
        Unsupported: the directory holds more than the agent's work.
        ArtifactsTooLarge: it is larger than what is carried.
        SandboxFailed: the box died. DiskFull: no space left here.
    """
    if any(overlap(PurePosixPath(workdir), system) for system in _SYSTEM):
        raise Unsupported(
            f"--rlenv-verifier fresh: the image's working directory is {workdir}, so what the agent did "
            "there cannot be told from the rest; set one with WORKDIR"
        )
    got = box.get_tree(workdir, scratch, cap=MAX_BYTES, max_files=MAX_FILES)
    if got.over_cap:
        raise too_large(f"the working directory {workdir}")
    refused = [line for line in got.refused if ": a link to " not in line]
    if refused:
        record.note("workdir-refused", f"not carried to the fresh box: {some(refused)}")
    return Found(workdir, got.entries, is_dir=True)


def too_large(what: str) -> ArtifactsTooLarge:
    """Return the error for what cannot be carried whole."""
    return ArtifactsTooLarge(
        f"{what}: more than {MAX_BYTES >> 20} MiB or {MAX_FILES} files, so the verifier cannot be given all",
        hint="declare less, or leave out what it does not need with `exclude`",
    )


def as_artifacts(found: Iterable[Found]) -> Iterator[Found]:
    """Yield artifacts as Harbor brings them to a separate verifier."""
    for item in found:
        kept = [
            replace(entry, uid=0, gid=0, mode=entry.mode & 0o777)
            for entry in item.entries
            if entry.path and (entry.link is None or _stays(entry.path, entry.link))
        ]
        if item.is_dir or posixpath.dirname(item.source) not in ("/", "/tmp"):
            kept.insert(0, _OPEN)
        yield Found(item.source, kept, item.is_dir)


def put_found(box: Box, found: Iterable[Found]) -> None:
    """Put what was found where it was in the agent's box, in the place of what is there.

    Args:
        box: one in which no agent has acted.
        found: what to put there.

    Raises:
        SandboxFailed: the box died or refuses. DiskFull.
    """
    found = list(found)
    folders = [item.source for item in found if item.is_dir]
    if folders:
        _empty(box, folders)
    for item in found:
        box.put(item.entries, item.source if item.is_dir else posixpath.dirname(item.source))


def _empty(box: Box, folders: Sequence[str]) -> None:
    """Empty folders of a box as root and, where root may not (a service's ``cap_drop``), as their owners."""
    done = _emptied(box, folders, user=0)
    if done.exit_code == 0:
        return
    for folder in folders:
        owner = decode(box.run(("stat", "-c", "%u", folder), user=0, cwd="/", timeout=EXEC_TIMEOUT).stdout)
        uid = int(owner) if owner.strip().isdecimal() else 0
        if _emptied(box, [folder], user=uid).exit_code != 0:
            raise SandboxFailed(
                f"could not be emptied in the verifier's box: {folder}", detail=decode(done.output)
            )


def _emptied(box: Box, folders: Sequence[str], *, user: int) -> Completed:
    return box.run(("sh", "-c", _EMPTY, "sh", *folders), user=user, cwd="/", timeout=EXEC_TIMEOUT)


def _stays(path: str, target: str) -> bool:
    """Return True if a link at ``path`` leads to what is below the same folder."""
    if target.startswith("/"):
        return False
    led = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return led != ".." and not led.startswith("../")
