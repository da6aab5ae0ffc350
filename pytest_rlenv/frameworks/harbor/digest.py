"""The digest of a task's files, the same as in the lock file of a Harbor trial.

SHA-256 over ``path NUL sha256-of-the-file LF`` of every file that makes the task, sorted by path: what
``.harborignore`` or the task's ``.gitignore`` names is left out; without a ``.gitignore``, common litter is.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

from pytest_rlenv.errors import TaskInvalid
from pytest_rlenv.frameworks.harbor.harborignore import MAX_IGNORE_BYTES, HarborIgnore
from pytest_rlenv.frameworks.harbor.ignore import IgnoreRules
from pytest_rlenv.frameworks.harbor.inside import read_inside, relative_name

_FILES = ("task.toml", "instruction.md", "README.md", "trajectory.json")
_FOLDERS = ("environment", "tests", "solution", "steps")
_LITTER = IgnoreRules(("__pycache__/", "*.pyc", ".DS_Store", "*.swp", "*.swo", "*~"))
_is_litter = lru_cache(maxsize=4096)(_LITTER.ignored_in_digest)  # most tasks have files of the same names
_CHUNK = 1024 * 1024


def task_digest(root: Path, *, whole: bool = False) -> str:
    """Return ``sha256:`` and 64 hexadecimal digits.

    Args:
        root: the task's folder.
        whole: take all files in it but git's own, not only those that make a Harbor task.

    Raises:
        TaskInvalid: a file cannot be read.
    """
    root = root.resolve()
    ignored = _gitignore(root)
    digest = hashlib.sha256()
    for name in sorted(_all_names(root) if whole else _names(root)):
        if not ignored(name):
            line = f"{name}\0{_file_digest(root, root / name)}\n"
            digest.update(line.encode("utf-8", "surrogateescape"))
    return f"sha256:{digest.hexdigest()}"


def _names(root: Path) -> Iterator[str]:
    yield from (name for name in _FILES if (root / name).is_file())
    ignore = HarborIgnore(root)
    for folder in _FOLDERS:
        yield from (_name(root, path) for path in _below(root / folder, ignore))


def _all_names(root: Path) -> Iterator[str]:
    for path in _below(root, HarborIgnore(root)):
        name = _name(root, path)
        if name.partition("/")[0] != ".git":
            yield name


def _name(root: Path, path: Path) -> str:
    return "/".join(path.parts[len(root.parts) :])


def _below(folder: Path, ignore: HarborIgnore) -> Iterator[Path]:
    """Yield regular files; links to folders are not followed, links to files count as files."""
    if not folder.is_dir() or ignore.excludes(folder):
        return
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        path = folder / entry.name
        if ignore.excludes(path):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _below(path, ignore)
        elif path.is_file():
            yield path


def _gitignore(root: Path) -> Callable[[str], bool]:
    if not (root / ".gitignore").exists():
        return _is_litter
    data = read_inside(root, ".gitignore", cap=MAX_IGNORE_BYTES)
    return IgnoreRules(data.decode("utf-8-sig", "replace").splitlines()).ignored_in_digest


def _file_digest(root: Path, path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise TaskInvalid(f"{relative_name(root, path)}: cannot be read: {error.strerror}") from None
    return digest.hexdigest()
