"""The files of one folder of a task, chosen and checked, as entries to put into a box.

Nothing in a task is trusted to be what it seems: links are followed only where they stay inside the task,
what is neither file nor folder is refused, and no file is read whole before its size is known.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pytest_rlenv.errors import TaskInvalid
from pytest_rlenv.frameworks.harbor.harborignore import HarborIgnore
from pytest_rlenv.frameworks.harbor.inside import relative_name, resolve_inside
from pytest_rlenv.sandboxes.model import Entry

MAX_INLINE_BYTES = 256 * 1024
"""Larger files travel as a path and are read when they are sent."""

MAX_FILES = 100_000
"""Files and folders below one folder of a task, links followed; more is a mistake or a trap of links."""

_HEAD_BYTES = 512
_LFS_POINTER = b"version https://git-lfs.github.com/spec/v1"
_EXEC_BITS = 0o111


@dataclass(frozen=True)
class TaskFile:
    """A file or folder of a task.

    Attributes:
        path: relative to the folder that was asked for, with ``/`` between parts.
        name: relative to the task, for messages.
        real: where its bytes are, after links.
        is_dir: True for a folder.
        size: bytes.
        mode: permission bits that it gets in the box.
        warning: what its author should know, or empty.
    """

    path: str
    name: str
    real: Path
    is_dir: bool = False
    size: int = 0
    mode: int = 0o755
    warning: str = ""

    def entry(self) -> Entry:
        """Return it as an entry to put into a box.

        Raises:
            TaskInvalid: it cannot be read any more.
        """
        if self.is_dir:
            return Entry(self.path, mode=self.mode)
        if self.size > MAX_INLINE_BYTES:
            return Entry(self.path, mode=self.mode, source=self.real)
        try:
            return Entry(self.path, self.real.read_bytes(), self.mode)
        except OSError as error:
            raise TaskInvalid(f"{self.name}: cannot be read: {error.strerror}") from None


@dataclass
class TaskFolder:
    """What of one folder of a task goes into a box.

    Attributes:
        files: files and folders, parents first.
        warnings: one line each.
    """

    files: list[TaskFile] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def entries(self) -> list[Entry]:
        """Return the entries, relative to the folder."""
        return [file.entry() for file in self.files]


def read_folder(root: Path, folder: Path) -> TaskFolder:
    """Return the files and folders below a folder of a task, without those that ``.harborignore`` names.

    Modes are made the same everywhere, as the Hub and many tools lose them: 0755 for folders, for ``.sh``
    files and for files with a ``#!`` or an exec bit, else 0644.

    Args:
        root: the task's folder, resolved.
        folder: the folder below it; a missing one has no files.

    Raises:
        TaskInvalid: a link that leaves the task or leads in a circle, a special file, a git-lfs pointer,
            something unreadable, or too many files. A link to nothing is left out with a warning.
    """
    found = TaskFolder()
    if not folder.is_dir() and not folder.is_symlink():
        return found
    for file in _walk(root, folder, folder, HarborIgnore(root), frozenset()):
        if file.warning:
            found.warnings.append(file.warning)
        if file.real.exists():
            found.files.append(file)
        if len(found.files) > MAX_FILES:
            raise TaskInvalid(f"{relative_name(root, folder)}: more than {MAX_FILES} files")
    return found


def is_lfs_pointer(head: bytes) -> bool:
    """True for the first bytes of a file in whose place git-lfs left a pointer."""
    return head.startswith(_LFS_POINTER)


def _walk(
    root: Path, top: Path, folder: Path, ignore: HarborIgnore, above: frozenset[Path]
) -> Iterator[TaskFile]:
    real_folder = resolve_inside(root, folder)
    if real_folder in above:
        raise TaskInvalid(f"{relative_name(root, folder)}: a link to a folder above it")
    for path in _children(root, folder):
        if ignore.excludes(path):
            continue
        file = _task_file(
            path.relative_to(top).as_posix(), relative_name(root, path), resolve_inside(root, path)
        )
        yield file
        if file.is_dir:
            yield from _walk(root, top, path, ignore, above | {real_folder})


def _children(root: Path, folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise TaskInvalid(f"{relative_name(root, folder)}: cannot be read: {error.strerror}") from None


def _task_file(path: str, name: str, real: Path) -> TaskFile:
    try:
        status = real.stat()
        if stat.S_ISDIR(status.st_mode):
            return TaskFile(path, name, real, is_dir=True)
        if not stat.S_ISREG(status.st_mode):
            raise TaskInvalid(f"{name}: neither a file nor a folder")
        with real.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except FileNotFoundError:
        return TaskFile(path, name, real, warning=f"{name}: a link to nothing, left out")
    except OSError as error:
        raise TaskInvalid(f"{name}: cannot be read: {error.strerror}") from None
    if is_lfs_pointer(head):
        raise TaskInvalid(
            f"{name}: a git-lfs pointer, not the file itself",
            hint="Run `git lfs pull` in the environment's repository, or download its files again.",
        )
    wrong = carriage_returns(name, head)
    runs = head.startswith(b"#!") or path.endswith(".sh") or bool(status.st_mode & _EXEC_BITS)
    return TaskFile(
        path,
        name,
        real,
        size=status.st_size,
        mode=0o755 if runs else 0o644,
        warning=f"{name}: {wrong}" if wrong else "",
    )


def carriage_returns(name: str, head: bytes) -> str:
    """Return what is wrong with a script whose lines end in CR LF; empty if they do not.

    Args:
        name: the file's name.
        head: its first bytes.
    """
    first = head.partition(b"\n")[0]
    if first.startswith(b"#!") and first.endswith(b"\r"):
        return "its lines end in CR LF, so the system finds no interpreter for it; save it with LF"
    if name.endswith(".sh") and b"\r\n" in head:
        return "its lines end in CR LF, which the shell takes for part of each command; save it with LF"
    return ""
