"""Turn files of the Hugging Face cache into a task folder that containers can use.

There they are links into a store of blobs, without the execute bit: a build context or a bind mount would
see dangling links, and a script with a shebang could not be run.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from pytest_rlenv.disk import CACHE_CURE, disk_full, is_full
from pytest_rlenv.errors import FetchFailed, RlenvError, Stage

_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\r?\n"
    rb"(?:ext-[^\n]*\n)*oid sha256:[0-9a-f]{64}\r?\nsize \d+\s*"
)
_LONGEST_POINTER = 1024


def materialise(files: Mapping[str, Path], destination: Path, scratch: Path) -> None:
    """Make a task folder: whole, or not at all.

    Args:
        files: where each file's content is, by its path in the task, with ``/`` between the parts.
        destination: the task's folder; it does not exist yet.
        scratch: a folder on the same disk, made and removed here.

    Raises:
        FetchFailed: for a file whose content the repository does not hold, or that cannot be written.
        DiskFull: no space left at the destination.
    """
    _check_conflicts(files)
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        for path, source in files.items():
            _copy(source, scratch / _checked(path), path)
        destination.parent.mkdir(parents=True, exist_ok=True)
        scratch.rename(destination)
    except OSError as error:
        raise _unwritable(destination, error) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def place_file(source: Path, root: Path, path: str) -> None:
    """Put one file below a folder, whole or not at all.

    Raises:
        FetchFailed: its content is not in the repository, or it cannot be written. DiskFull: no space left.
    """
    target = root / _checked(path)
    partial = target.with_name(f".{target.name}.part")
    try:
        _copy(source, partial, path)
        partial.replace(target)
    except OSError as error:
        raise _unwritable(target, error) from error
    finally:
        partial.unlink(missing_ok=True)


def _unwritable(destination: Path, error: OSError) -> RlenvError:
    if is_full(error):
        return disk_full("store a task", destination, stage=Stage.FETCH, hint=CACHE_CURE)
    return FetchFailed(
        f"{destination} cannot be written: {error.strerror}",
        hint="set RLENV_CACHE to a folder with free space that you may write",
    )


def _copy(source: Path, target: Path, path: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    with target.open("rb") as file:
        start = file.read(_LONGEST_POINTER)
    if _POINTER.fullmatch(start):
        raise FetchFailed(
            f"{path} is a Git LFS pointer, not the file: its content was never uploaded",
            hint="the repository's owner must push it with git lfs, or upload it with hf upload",
        )
    is_script = path.endswith(".sh") or start.startswith(b"#!")
    target.chmod(0o755 if is_script else 0o644)


def _check_conflicts(files: Mapping[str, Path]) -> None:
    """Refuse a listing in which a name is both a file and a folder: no disk can hold it."""
    for path in files:
        for folder in map(str, PurePosixPath(path).parents):
            if folder in files:
                raise FetchFailed(
                    f"{folder!r} is both a file and the folder of {path!r}",
                    hint="the repository's owner must rename one of the two",
                )


def _checked(path: str) -> PurePosixPath:
    """Return the path if it stays in the task: a listing is the Hub's word, not ours."""
    pure = PurePosixPath(path)
    if pure.is_absolute():
        raise FetchFailed(
            f"{path!r} is an absolute path, which leaves the task's folder",
            hint="the repository's owner must rename it",
        )
    if ".." in pure.parts:
        raise FetchFailed(f"{path!r} leaves the task's folder", hint="do not use this environment")
    return pure
