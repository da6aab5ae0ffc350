"""Writes an image's root file system, which an engine sends as a tar, into a folder."""

# With strings instead of paths, an image of many small files takes a third less time.
# ruff: noqa: PTH101, PTH103, PTH118, PTH120, PTH123, PTH211

from __future__ import annotations

import os
import shutil
import tarfile
import time
from pathlib import Path, PurePosixPath
from typing import IO

from pytest_rlenv.disk import CACHE_CURE, disk_full, is_full
from pytest_rlenv.errors import SandboxFailed, Stage, StageTimeout

_BUFFER = 1024 * 1024


def extract(stream: IO[bytes], dest: Path, *, owners: bool, deadline: float | None = None) -> None:
    """Write all members below ``dest``, which is made. Device nodes are left out: a box has its own.

    Args:
        stream: a tar of one root file system.
        dest: a folder that does not exist yet.
        owners: keep the owners of files, which takes root; otherwise all are this user's.
        deadline: a time of :func:`time.monotonic` after which to give up.

    Raises:
        StageTimeout: the deadline came. DiskFull. SandboxFailed: a member leaves the folder, the tar is
            broken, or a file cannot be written.
    """
    extraction = _Extraction(dest, owners)
    try:
        dest.mkdir(parents=True)
        with tarfile.open(fileobj=stream, mode="r|", bufsize=_BUFFER) as tar:
            for member in tar:
                if deadline is not None and time.monotonic() > deadline:
                    raise StageTimeout(
                        "the image was not extracted in time", hint="raise the build time", stage=Stage.BUILD
                    )
                extraction.add(member, tar.extractfile(member) if member.isreg() else None)
                tar.members = []  # type: ignore[attr-defined]  # else it keeps every member it has seen
        extraction.finish()
    except tarfile.TarError as error:
        raise SandboxFailed(
            f"the engine sent a broken root file system: {error}", stage=Stage.BUILD
        ) from error
    except OSError as error:
        where = error.filename or dest
        if is_full(error):
            raise disk_full("extract the image", where, stage=Stage.BUILD, hint=CACHE_CURE) from error
        message = f"cannot extract the image to {where}: {error.strerror or error}"
        raise SandboxFailed(message, stage=Stage.BUILD) from error


class _Extraction:
    def __init__(self, dest: Path, owners: bool) -> None:
        self._dest = os.fspath(dest)
        self._owners = owners
        self._links: set[PurePosixPath] = set()
        self._folders: list[tuple[str, tarfile.TarInfo]] = []

    def add(self, member: tarfile.TarInfo, content: IO[bytes] | None) -> None:
        """Write one member."""
        path = self._path(member.name)
        if member.isdir():
            os.makedirs(path, mode=0o700, exist_ok=True)
            self._folders.append((path, member))
            return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if content is not None:
            with open(path, "xb") as file:
                shutil.copyfileobj(content, file, _BUFFER)
        elif member.issym():
            os.symlink(member.linkname, path)
            self._links.add(_relative(member.name))
        elif member.islnk():
            os.link(self._path(member.linkname), path, follow_symlinks=False)
            return  # owner, mode and time are those of the first name
        elif member.isfifo():
            os.mkfifo(path)
        else:
            return
        self._describe(path, member)

    def finish(self) -> None:
        """Give folders their own modes and times, now that nothing more is written into them."""
        for path, member in reversed(self._folders):
            self._describe(path, member)

    def _describe(self, path: str, member: tarfile.TarInfo) -> None:
        if self._owners:
            os.lchown(path, member.uid, member.gid)
        if not member.issym():
            os.chmod(path, member.mode & 0o7777)
            os.utime(path, (member.mtime, member.mtime))

    def _path(self, name: str) -> str:
        """Return where a member goes; never through a link that an earlier member made."""
        relative = _relative(name)
        if ".." in relative.parts or any(parent in self._links for parent in relative.parents):
            raise SandboxFailed(f"the image has a file outside of its root: {name!r}")
        return os.path.join(self._dest, *relative.parts)


def _relative(name: str) -> PurePosixPath:
    return PurePosixPath(name.lstrip("/"))
