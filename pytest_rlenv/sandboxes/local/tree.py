"""A folder out of a box: the regular files below it, within limits, and a line for each thing left out."""

from __future__ import annotations

import errno
import heapq
import os
import stat as modes
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from pytest_rlenv.disk import OUTPUT_CURE, disk_full, is_full
from pytest_rlenv.errors import SandboxFailed
from pytest_rlenv.sandboxes.local.root import BoxRoot
from pytest_rlenv.sandboxes.local.transfer import kind_of
from pytest_rlenv.sandboxes.model import Entry, Extracted

MAX_DEPTH = 64
_MEMBERS_PER_FILE = 4
_MAX_REFUSED = 100
_CHUNK = 1024 * 1024
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)


def get_tree(
    root: BoxRoot,
    path: str,
    dest: Path,
    *,
    cap: int,
    max_files: int,
    skip: Callable[[str], bool] | None = None,
) -> Extracted:
    """Copy the regular files below ``path`` to below ``dest``; ``path`` may be one file, too.

    Raises:
        DiskFull: no space left here. SandboxFailed: ``dest`` cannot be made, or ``path`` not be read.
    """
    extracted = Extracted()
    try:
        dest.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if is_full(error):
            raise disk_full("take files out of the box", dest, hint=OUTPUT_CURE) from error
        raise SandboxFailed(
            f"cannot make the folder {dest} for files from the box: {error.strerror}"
        ) from error
    copy = _Copy(root, extracted, cap, max_files, skip or (lambda name: False))
    try:
        with root.at(path.rstrip("/") or "/") as fd:
            if modes.S_ISDIR((info := os.fstat(fd)).st_mode):
                copy.found("", info)
                copy.folder(fd, dest, "")
            else:
                copy.one(fd, dest, PurePosixPath(path).name)
    except _Enough:
        pass
    except OSError as error:
        if is_full(error):
            raise disk_full("take files out of the box", dest, hint=OUTPUT_CURE) from error
        if error.errno not in _ABSENT:
            raise SandboxFailed(f"cannot read {path} in the box: {error.strerror}") from error
    return extracted


class _Enough(Exception):
    """A limit is reached; the rest is left out."""


class _Copy:
    """One walk. Every step is relative to an open folder, and follows no link."""

    def __init__(
        self, root: BoxRoot, result: Extracted, cap: int, max_files: int, skip: Callable[[str], bool]
    ) -> None:
        self._root = root
        self._result = result
        self._cap = cap
        self._max_files = max_files
        self._skip = skip
        self._most = max_files * _MEMBERS_PER_FILE
        self._seen = 0

    def folder(self, fd: int, dest: Path, name: str) -> None:
        """Copy what is in the open folder ``fd``, whose name below the start is ``name``."""
        if name.count("/") >= MAX_DEPTH:
            self._refuse(name, f"deeper than {MAX_DEPTH} folders")
            return
        readable = self._root.reopen(fd, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with os.scandir(readable) as entries:
                # by name, so that it is the same ones each time that are left out; no more than are looked at
                first = heapq.nsmallest(self._most - self._seen + 1, (entry.name for entry in entries))
            for each in first:
                self._member(readable, each, dest, f"{name}/{each}" if name else each)
        finally:
            os.close(readable)

    def one(self, fd: int, dest: Path, name: str) -> None:
        """Copy what ``fd`` stands for, which is not a folder, to ``dest / name``."""
        info = os.fstat(fd)
        kind = kind_of(info.st_mode)
        if kind == "symlink":
            target = os.readlink("", dir_fd=fd)
            self._refuse(name, f"a link to {_printable(target)}")
            self.found(name, info, link=target)
        elif kind != "file":
            self._refuse(name, f"a {kind}, neither a file nor a folder")
        elif self._result.files >= self._max_files:
            self._stop(name)
        elif self._result.bytes + info.st_size > self._cap:
            self._result.over_cap = True
            self._refuse(name, f"{info.st_size} bytes go over the cap of {self._cap}")
        else:
            self._write(fd, dest / name, info)
            self.found(name, info, source=dest / name)

    def _member(self, parent: int, entry: str, dest: Path, name: str) -> None:
        self._seen += 1
        if self._seen > self._most:
            self._stop(name)
        try:
            fd = os.open(entry, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        except OSError as error:
            self._refuse(name, error.strerror or type(error).__name__)
            return
        try:
            if self._skip(name):
                return
            if modes.S_ISDIR((info := os.fstat(fd)).st_mode):
                (dest / name).mkdir(parents=True, exist_ok=True)
                self.found(name, info)
                self.folder(fd, dest, name)
            else:
                self.one(fd, dest, name)
        except OSError as error:
            if is_full(error):
                raise
            self._refuse(name, error.strerror or type(error).__name__)
        finally:
            os.close(fd)

    def _write(self, fd: int, target: Path, info: os.stat_result) -> None:
        """Write a file's bytes, no more than it had when it was looked at."""
        mode = 0o755 if info.st_mode & 0o111 else 0o644
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        left = info.st_size
        with (
            os.fdopen(self._root.reopen(fd, os.O_RDONLY), "rb") as source,
            os.fdopen(os.open(target, flags, mode), "wb") as file,
        ):
            while left > 0 and (chunk := source.read(min(_CHUNK, left))):
                file.write(chunk)
                left -= len(chunk)
        self._result.files += 1
        self._result.bytes += info.st_size - left

    def found(
        self, name: str, info: os.stat_result, *, source: Path | None = None, link: str | None = None
    ) -> None:
        """Take note of something, as an entry that puts it elsewhere as it was."""
        self._result.entries.append(
            Entry(
                name,
                mode=modes.S_IMODE(info.st_mode),
                source=source,
                link=link,
                uid=self._root.owner(info.st_uid),
                gid=self._root.owner(info.st_gid),
                mtime=int(info.st_mtime),
            )
        )

    def _stop(self, name: str) -> None:
        self._result.over_cap = True
        self._refuse(name, f"more than {self._max_files} files; the rest is left out")
        raise _Enough

    def _refuse(self, name: str, reason: str) -> None:
        if len(self._result.refused) == _MAX_REFUSED:
            self._result.refused.append("(more were left out)")
        elif len(self._result.refused) < _MAX_REFUSED:
            self._result.refused.append(f"{_printable(name)}: {reason}")


def _printable(name: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in name)
