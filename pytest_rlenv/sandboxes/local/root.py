"""A box's root folder, seen from outside, with every path resolved inside it whatever links it holds.

The kernel does the resolving (``openat2`` with ``RESOLVE_IN_ROOT``): an absolute link, or one with ``..``,
ends at the box's root, and there is no moment between looking and opening in which a link could be swapped.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat as modes
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

_OPENAT2 = 437  # the same number on all architectures
_NO_MAGICLINKS, _IN_ROOT = 0x02, 0x10
ROOT = (0, 0)
"""Root's user and group."""

_DEEPEST = 200
_RACES = 100
"""How often to try again when something was renamed in the box meanwhile."""


class BoxRoot:
    """The root of one box; its descriptors keep the files there after the last process has ended.

    Args:
        fd: the root folder, as ``O_PATH``.
        owned: True if all files are this user's own, so that their modes can be lifted to read them: in the
            box their owner is root, to whom modes are no hindrance.
    """

    def __init__(self, fd: int, *, owned: bool) -> None:
        self._fd = fd
        self._owned = owned

    def close(self) -> None:
        """Let go of the files."""
        os.close(self._fd)

    @contextmanager
    def at(self, path: str, flags: int = 0) -> Iterator[int]:
        """Open what is at ``path`` as ``O_PATH``: nothing is read, and no pipe or device does anything.

        Links among the parents are followed inside the box, one at the end only with a trailing slash.

        Raises:
            OSError: there is no such thing.
        """
        fd = self._open(path, os.O_PATH | os.O_NOFOLLOW | flags)
        try:
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def folder(self, path: str) -> Iterator[int]:
        """Open the folder at ``path`` as ``O_PATH``, following links inside the box."""
        fd = self._open(path, os.O_PATH | os.O_DIRECTORY)
        try:
            yield fd
        finally:
            os.close(fd)

    def make_folders(self, path: str) -> None:
        """Make a folder and its parents, root's and 0755, where they are missing."""
        parts = [part for part in path.split("/") if part]
        for count in range(1, len(parts) + 1):
            try:
                with self.folder("/".join(parts[:count])):
                    continue
            except FileNotFoundError:
                pass
            with self.folder("/".join(parts[: count - 1])) as parent:
                self.make_folder(parts[count - 1], parent, 0o755)

    def make_folder(self, name: str, parent: int, mode: int, owner: tuple[int, int] = ROOT) -> None:
        """Make one folder in an open one; one that is there gets the mode and owner."""
        self._make_writable(parent)
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=parent)
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
        try:
            if not self._owned:
                os.chown(through(fd), *owner)
            os.chmod(through(fd), mode)  # noqa: PTH101 - a descriptor
        finally:
            os.close(fd)

    def reopen(self, fd: int, flags: int) -> int:
        """Open a descriptor of :meth:`at` for real; the caller knows what kind of thing it is."""
        path = through(fd)
        try:
            return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except PermissionError:
            if not self._owned:
                raise
            self._lift(fd)
            return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)

    def _make_writable(self, folder: int) -> None:
        """Make sure that the open folder can be written to, as root in the box could."""
        if self._owned and not os.access(through(folder), os.W_OK | os.X_OK):
            self._lift(folder)

    def make_link(self, name: str, parent: int, target: str, owner: tuple[int, int] = ROOT) -> None:
        """Make a symlink in an open folder.

        Raises:
            FileExistsError: there is something of that name.
        """
        self._make_writable(parent)
        os.symlink(target, name, dir_fd=parent)
        if not self._owned:
            os.chown(name, *owner, dir_fd=parent, follow_symlinks=False)

    def owner(self, number: int) -> int:
        """Return who a file's owner is in the box, by number."""
        return 0 if self._owned else number

    def create(self, name: str, parent: int, mode: int, owner: tuple[int, int] = ROOT) -> int:
        """Make a new file in an open folder, and return it open for writing.

        Raises:
            FileExistsError: there is something of that name.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._make_writable(parent)
        fd = os.open(name, flags, 0o600, dir_fd=parent)
        if not self._owned:
            os.fchown(fd, *owner)
        os.fchmod(fd, mode)
        return fd

    def remove(self, name: str, parent: int) -> None:
        """Remove what is no folder from an open folder."""
        self._make_writable(parent)
        os.unlink(name, dir_fd=parent)

    def remove_folder(self, name: str, parent: int, *, depth: int = 0) -> None:
        """Remove a folder from an open one, with all that is in it.

        Raises:
            OSError: folders in it are nested deeper than anybody needs, or something cannot be removed.
        """
        if depth == _DEEPEST:
            raise OSError(errno.ENAMETOOLONG, f"more than {_DEEPEST} folders in each other", name)
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
        try:
            readable = self.reopen(fd, os.O_RDONLY | os.O_DIRECTORY)
            try:
                with os.scandir(readable) as entries:
                    inside = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
                for each, is_folder in inside:
                    if is_folder:
                        self.remove_folder(each, readable, depth=depth + 1)
                    else:
                        self.remove(each, readable)
            finally:
                os.close(readable)
        finally:
            os.close(fd)
        self._make_writable(parent)
        os.rmdir(name, dir_fd=parent)

    def _open(self, path: str, flags: int) -> int:
        try:
            return open_in_root(self._fd, path, flags)
        except PermissionError:
            if not self._owned:
                raise
        parts = path.split("/")
        for count in range(1, len(parts)):
            with self.folder_or_lift("/".join(parts[:count]) or "."):
                pass
        return open_in_root(self._fd, path, flags)

    @contextmanager
    def folder_or_lift(self, path: str) -> Iterator[int]:
        """Open a folder whose parents can be entered, and make sure that it can be, too."""
        fd = open_in_root(self._fd, path, os.O_PATH | os.O_DIRECTORY)
        try:
            if not os.access(through(fd), os.X_OK):
                self._lift(fd)
            yield fd
        finally:
            os.close(fd)

    def _lift(self, fd: int) -> None:
        """Give the owner, this user, the access that root in the box has anyway."""
        info = os.fstat(fd)
        wanted = 0o700 if modes.S_ISDIR(info.st_mode) else 0o600
        Path(through(fd)).chmod(modes.S_IMODE(info.st_mode) | wanted)


def through(fd: int) -> str:
    """Return a path to what a descriptor stands for, for calls that take no descriptor of its kind."""
    return f"/proc/self/fd/{fd}"


@lru_cache(maxsize=1)
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def open_in_root(root: int, path: str, flags: int) -> int:
    """Open ``path`` as if ``root`` were the root of all files.

    Raises:
        OSError: there is no such thing, or the kernel is older than 5.6.
    """
    how = struct.pack("=QQQ", flags | os.O_CLOEXEC, 0, _IN_ROOT | _NO_MAGICLINKS)
    name = os.fsencode(path) or b"."
    if b"\0" in name:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    number = errno.EAGAIN
    for _ in range(_RACES):
        fd: int = _libc().syscall(_OPENAT2, root, name, how, len(how))
        if fd >= 0:
            return fd
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(number, os.strerror(number), path)
