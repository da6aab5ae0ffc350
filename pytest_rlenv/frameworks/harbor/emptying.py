"""Empty the folders in which the verifier looks, whatever the agent made of them and of the tools there."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from pytest_rlenv.errors import AgentFailed, BoxUnfit, DiskFull, SandboxFailed, Stage
from pytest_rlenv.rollout import StepRecord
from pytest_rlenv.sandboxes.model import Entry
from pytest_rlenv.sandboxes.protocol import Box
from pytest_rlenv.verdict import number

WIPE_TIMEOUT = 60.0
"""Seconds for emptying folders in the box."""

UNVERIFIABLE = "the agent left the box in a state in which it cannot be verified"


def put_afresh(box: Box, folders: Sequence[Entry], entries: Iterable[Entry], record: StepRecord) -> None:
    """Put folders into the agent's box with nothing but ``entries`` in them, whatever was there.

    A file that is put where a folder is replaces it with all that is in it, and a folder replaces that file:
    so all is done in one go, by the sandbox and not by programs of the box. Where it cannot be, as with a
    volume of the image, the folders are emptied first.

    Args:
        box: the agent's box.
        folders: what is to be there afresh, as entries below ``/``.
        entries: what to put, below ``/``.
        record: where it is noted that processes were killed.

    Raises:
        AgentFailed: what the agent left cannot be removed. SandboxFailed: the box died. DiskFull.
    """
    wanted = [*folders, *entries]
    try:
        box.put([*(Entry(folder.path, b"") for folder in folders), *wanted])
    except DiskFull:
        raise
    except SandboxFailed:
        for folder in folders:  # some may be left as the file that was put in their place
            with contextlib.suppress(SandboxFailed):
                box.put([Entry(folder.path, b""), folder])
        empty_folders(box, [f"/{folder.path}" for folder in folders], record)
        _put_or_blame(box, wanted)


def _put_or_blame(box: Box, wanted: Sequence[Entry]) -> None:
    """Put what could be put when the box was new, unless the agent has led ``/logs`` elsewhere since."""
    try:
        box.put(wanted)
    except (BoxUnfit, DiskFull):
        raise
    except SandboxFailed as error:
        logs = box.stat("/logs")
        if logs is None or logs.kind == "directory":
            raise
        raise AgentFailed(
            f"{UNVERIFIABLE}: nothing can be put below /logs, which is a {logs.kind}",
            detail=str(error),
            stage=Stage.VERIFY,
        ) from error


def empty_folders(box: Box, folders: Sequence[str], record: StepRecord) -> None:
    """Remove what the agent left where the verifier looks: tests of its own, a reward written beforehand.

    The agent may have been root and replaced ``rm``, so what is left is looked at from outside. A folder
    that cannot be removed, such as a volume of the image, may stay if it is empty. Where something that
    the agent left running is in the way, all processes are killed.

    Args:
        box: the agent's box.
        folders: absolute paths without characters that mean something to a shell.
        record: where it is noted that processes were killed.

    Raises:
        AgentFailed: what the agent left cannot be removed. SandboxFailed: the box died.
    """
    trouble = _wipe(box, folders)
    left = _left(box, folders)
    if not left and (trouble is None or isinstance(trouble, BoxUnfit)):
        return
    try:
        box.quiesce()
        trouble = _wipe(box, folders)
        left = _left(box, folders)
    except SandboxFailed as error:
        if not isinstance(trouble, BoxUnfit):
            raise
        trouble = error  # without a shell, a box that was killed does not start again
    if left:
        raise AgentFailed(
            f"{UNVERIFIABLE}: {left} cannot be emptied", detail=str(trouble or ""), stage=Stage.VERIFY
        )
    record.note(
        "processes-killed",
        "what the agent left running was killed: the verifier's folders could not be emptied before",
    )


def _wipe(box: Box, folders: Sequence[str]) -> SandboxFailed | None:
    """Empty the folders; return why that could not be tried, or did not end."""
    names = " ".join(folders)
    # The agent may have removed `rm`, and put something else where /logs was.
    script = f"rm -rf {names} || find {names} -delete ; [ -d logs ] || rm -rf logs"
    try:
        done = box.run(("sh", "-c", script), user=0, cwd="/", timeout=WIPE_TIMEOUT)
    except SandboxFailed as error:
        return error
    if done.timed_out:
        return SandboxFailed(f"rm did not end within {number(WIPE_TIMEOUT)} s")
    if done.exit_code and b"fork" in done.output.lower():
        return SandboxFailed("no process left in the box for rm")
    return None


def _left(box: Box, folders: Sequence[str]) -> str:
    """Return the folder that still holds something, seen from outside; empty if there is none."""
    for path in folders:
        found = box.stat(path)
        if found is not None and not (found.kind == "directory" and _is_empty(box, path)):
            return path
    return ""


def _is_empty(box: Box, path: str) -> bool:
    with tempfile.TemporaryDirectory(prefix="rlenv-left-") as scratch:
        found = box.get_tree(path, Path(scratch), cap=0, max_files=1)
        return not (found.files or found.refused or any(Path(scratch).iterdir()))
