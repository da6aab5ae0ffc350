"""Files into and out of a box. What comes out was written by whoever acted there: nothing is trusted.

Nothing but regular files is opened or written here; see :mod:`~pytest_rlenv.sandboxes.local.root` for links.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat as modes
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from pytest_rlenv.disk import CACHE_CURE, is_full
from pytest_rlenv.errors import BoxUnfit, DiskFull, SandboxFailed
from pytest_rlenv.sandboxes.local.root import BoxRoot
from pytest_rlenv.sandboxes.model import Entry, Stat

_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
_CHUNK = 1024 * 1024

_KINDS = (
    (modes.S_ISREG, "file"),
    (modes.S_ISDIR, "directory"),
    (modes.S_ISLNK, "symlink"),
    (modes.S_ISFIFO, "fifo"),
    (modes.S_ISSOCK, "socket"),
)


def put(root: BoxRoot, entries: Iterable[Entry], dest: str) -> None:
    """Write entries below ``dest`` as root.

    Symlinks among the parents of a target are followed *inside the box*; what is at the target itself is
    replaced, but for a folder that is to be one.

    Raises:
        SandboxFailed: a path leaves ``dest``, or something cannot be read or written. DiskFull.
    """
    for entry in entries:
        path = _below(dest, entry.path)
        if path == "/":
            continue
        with _errors(root, path):
            _put(root, path, entry)


def stat(root: BoxRoot, path: str) -> Stat | None:
    """Return what is at ``path`` without following a link there, ``None`` if nothing is."""
    try:
        with root.at(_plain(path)) as fd:
            info = os.fstat(fd)
            kind = kind_of(info.st_mode)
            target = os.readlink("", dir_fd=fd) if kind == "symlink" else ""
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        raise SandboxFailed(f"cannot look at {path} in the box: {error.strerror}") from error
    return Stat(kind, info.st_size, modes.S_IMODE(info.st_mode) & 0o777, target)


def get(root: BoxRoot, path: str, cap: int) -> bytes:
    """Return a regular file's bytes.

    Raises:
        SandboxFailed: there is no regular file of at most ``cap`` bytes.
    """
    try:
        with root.at(_plain(path)) as fd:
            info = os.fstat(fd)
            if not modes.S_ISREG(info.st_mode):
                raise SandboxFailed(f"{path} in the box is a {kind_of(info.st_mode)}, not a regular file")
            _check_size(path, info.st_size, cap)
            with os.fdopen(root.reopen(fd, os.O_RDONLY), "rb") as file:
                data = file.read(cap + 1)
    except OSError as error:
        if error.errno in _ABSENT:
            raise SandboxFailed(f"there is no {path} in the box") from error
        raise SandboxFailed(f"cannot read {path} in the box: {error.strerror}") from error
    _check_size(path, len(data), cap)  # it may have grown
    return data


def kind_of(mode: int) -> str:
    """Return the protocol's word for a kind of file."""
    return next((kind for is_it, kind in _KINDS if is_it(mode)), "device")


@contextmanager
def _errors(root: BoxRoot, path: str) -> Iterator[None]:
    doing = f"write {path} in the box"
    try:
        yield
    except OSError as error:
        if is_full(error):
            raise _no_space(root, path, doing) from error
        raise SandboxFailed(f"cannot {doing}: {error.strerror or error}") from error


def _no_space(root: BoxRoot, path: str, doing: str) -> SandboxFailed:
    """Return the error for a full disk: this machine's, but for what is a file system of the box's own."""
    with root.folder("/") as top, root.folder(_parent_there(root, path)) as folder:
        if os.fstat(top).st_dev != os.fstat(folder).st_dev:
            return BoxUnfit(
                f"cannot {doing}: it is full there",
                hint="what was done in the box has filled its memory disk",
            )
    return DiskFull(f"cannot {doing}: no space left on this machine", hint=CACHE_CURE)


def _parent_there(root: BoxRoot, path: str) -> str:
    """Return the nearest folder above a path that is there."""
    parent = PurePosixPath(path).parent
    while str(parent) != "/":
        with contextlib.suppress(OSError), root.folder(str(parent)):
            return str(parent)
        parent = parent.parent
    return "/"


def _put(root: BoxRoot, path: str, entry: Entry) -> None:
    parent, _, name = path.rpartition("/")
    try:
        with root.folder(parent or "/") as folder:
            _put_at(root, folder, name, entry)
            return
    except FileNotFoundError:
        root.make_folders(parent)
    with root.folder(parent or "/") as folder:
        _put_at(root, folder, name, entry)


def _put_at(root: BoxRoot, folder: int, name: str, entry: Entry) -> None:
    """Put an entry into an open folder; mostly nothing is in its way."""
    try:
        _make(root, folder, name, entry)
    except (FileExistsError, NotADirectoryError):
        _make_way(root, folder, name, for_folder=entry.is_dir)
        _make(root, folder, name, entry)


def _make(root: BoxRoot, folder: int, name: str, entry: Entry) -> None:
    owner = entry.uid, entry.gid
    if entry.is_dir:
        root.make_folder(name, folder, entry.mode, owner)
        return
    if entry.link is not None:
        root.make_link(name, folder, entry.link, owner)
        return
    with os.fdopen(root.create(name, folder, entry.mode, owner), "wb") as file:
        if entry.source is not None:
            with _source(entry.source) as source:
                shutil.copyfileobj(source, file, _CHUNK)
        else:
            file.write(entry.content or b"")
        file.flush()
        os.utime(file.fileno(), (entry.mtime, entry.mtime))


@contextmanager
def _source(path: Path) -> Iterator[IO[bytes]]:
    try:
        file = path.open("rb")
    except OSError as error:
        raise SandboxFailed(f"cannot read {path} to put it into the box: {error.strerror}") from error
    with file:
        yield file


def _make_way(root: BoxRoot, folder: int, name: str, *, for_folder: bool) -> None:
    """Remove what is at a target, as unpacking an archive there would."""
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if not modes.S_ISDIR(mode):
        root.remove(name, folder)
    elif not for_folder:
        root.remove_folder(name, folder)


def _below(dest: str, path: str) -> str:
    """Return the absolute path in the box of ``path`` below ``dest``."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    base = [part for part in dest.split("/") if part not in ("", ".")]
    if ".." in parts or ".." in base or "\0" in f"{dest}{path}":
        raise SandboxFailed(f"refusing to write to {path!r}: it leaves {dest!r}")
    return "/" + "/".join(base + parts)


def _plain(path: str) -> str:
    return path.rstrip("/") or "/"  # a trailing slash would follow a link


def _check_size(path: str, size: int, cap: int) -> None:
    if size > cap:
        raise SandboxFailed(f"{path} in the box has {size} bytes, more than the {cap} that are accepted")
