"""A folder out of a container: the tar that the engine sends, member by member, nothing of it trusted.

Nothing but regular files is written here; of symlinks only the text is kept.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from pytest_rlenv.disk import OUTPUT_CURE, disk_full, is_full
from pytest_rlenv.sandboxes.model import Entry, Extracted

MAX_DEPTH = 64
_MEMBERS_PER_FILE = 4
_MAX_REFUSED = 100
_CHUNK = 1024 * 1024


class Extraction:
    """Writes the members of one untrusted tar.

    Args:
        result: what to fill in.
        dest: the folder to write to.
        root: the file's name where one was asked for; empty for a folder.
        cap: bytes to keep; at most as many again are read past.
        max_files: files to keep.
        skip: see :meth:`pytest_rlenv.sandboxes.protocol.Box.get_tree`.
    """

    def __init__(
        self,
        result: Extracted,
        dest: Path,
        root: str,
        cap: int,
        max_files: int,
        skip: Callable[[str], bool] | None,
    ) -> None:
        self._result = result
        self._dest = dest
        self._root = root
        self._cap = cap
        self._max_files = max_files
        self._skip = skip or (lambda name: False)
        self._skipped: set[str] = set()
        self._written: dict[str, tuple[Path | None, int]] = {}
        self._read = 0

    def run(self, members: Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]) -> None:
        """Take the members in their order; raises DiskFull."""
        for seen, (member, content) in enumerate(members):
            # the first part of each name is that of the folder asked for
            name = self._root or "/".join(PurePosixPath(member.name).parts[1:])
            if self._result.files >= self._max_files or seen >= self._max_files * _MEMBERS_PER_FILE:
                self._overrun(name, f"more than {self._max_files} files; the rest is left out")
                return
            if not name:
                self._found(name, member)
                continue
            self._read += member.size
            if self._read > 2 * self._cap:
                self._overrun(
                    name, f"{member.size} bytes go over the cap of {self._cap}; the rest is left out"
                )
                return
            if not self._is_skipped(name):
                self._take(name, member, content)

    def _is_skipped(self, name: str) -> bool:
        if name.rpartition("/")[0] not in self._skipped and not self._skip(name):
            return False
        self._skipped.add(name)
        return True

    def _take(self, name: str, member: tarfile.TarInfo, content: IO[bytes] | None) -> None:
        source, size = None, member.size
        if member.islnk():  # a second name of a file that is here already, if it was not left out
            source, size = self._written.get(member.linkname, (None, 0))
        reason = _objection(name, member, is_copy=source is not None)
        if not reason and self._result.bytes + size > self._cap:
            self._overrun(name, f"{size} bytes go over the cap of {self._cap}")
            return
        if member.issym() and reason.startswith("a link"):
            self._found(name, member, link=member.linkname)
        if reason:
            if member.isdir():
                self._skipped.add(name)  # with all below it
            self._refuse(name, reason)
            return
        target = self._dest / name
        try:
            if member.isdir():
                target.mkdir(parents=True, exist_ok=True)
                self._found(name, member)
            elif source is not None:
                with source.open("rb") as first:
                    self._write(target, name, member, first, size)
            elif content is not None:
                self._write(target, name, member, content, size)
        except OSError as error:
            if is_full(error):
                raise disk_full(f"write {target}", target, hint=OUTPUT_CURE) from error
            self._refuse(name, error.strerror or type(error).__name__)

    def _write(self, target: Path, name: str, member: tarfile.TarInfo, content: IO[bytes], size: int) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = 0o755 if member.mode & 0o111 else 0o644
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with os.fdopen(os.open(target, flags, mode), "wb") as file:
            while chunk := content.read(_CHUNK):
                file.write(chunk)
        self._written[member.name] = target, size
        self._result.files += 1
        self._result.bytes += size
        self._found(name, member, source=target)

    def _found(
        self, name: str, member: tarfile.TarInfo, *, source: Path | None = None, link: str | None = None
    ) -> None:
        self._result.entries.append(
            Entry(
                name,
                mode=member.mode & 0o7777,
                source=source,
                link=link,
                uid=member.uid,
                gid=member.gid,
                mtime=int(member.mtime),
            )
        )

    def _overrun(self, name: str, reason: str) -> None:
        self._result.over_cap = True
        self._refuse(name, reason)

    def _refuse(self, name: str, reason: str) -> None:
        if len(self._result.refused) == _MAX_REFUSED:
            self._result.refused.append("(more were left out)")
        elif len(self._result.refused) < _MAX_REFUSED:
            self._result.refused.append(f"{_printable(name)}: {reason}")


def _objection(name: str, member: tarfile.TarInfo, *, is_copy: bool) -> str:
    """Return why a member must not be written here, or an empty string."""
    folders = name.count("/") + member.isdir()
    if ".." in PurePosixPath(member.name).parts or member.name.startswith("/"):
        return "its name leaves the folder"
    if folders > MAX_DEPTH:
        return f"deeper than {MAX_DEPTH} folders"
    if member.issym() or (member.islnk() and not is_copy):
        return f"a link to {_printable(member.linkname)}"
    if not (member.isreg() or member.isdir() or is_copy):
        return f"a {'fifo' if member.isfifo() else 'device'}, neither a file nor a folder"
    return ""


def _printable(name: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in name)
