"""Files out of a container. What comes out was written by whoever acted in the box: nothing is trusted.

The engine hands out links, pipes and devices as bare headers, so nothing is opened or followed there; and
nothing but regular files is ever written here.
"""

from __future__ import annotations

import base64
import json
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

from pytest_rlenv.errors import SandboxFailed
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.failures import EngineRefused, connection_errors, disk_full, is_disk_full
from pytest_rlenv.sandboxes.protocol import Extracted, Stat

if TYPE_CHECKING:
    from requests import Response

_DIRECTORY, _SYMLINK, _DEVICE, _FIFO, _SOCKET, _CHAR, _IRREGULAR = (
    1 << bit for bit in (31, 27, 26, 25, 24, 21, 19)
)
_KINDS = (
    (_DIRECTORY, "directory"),
    (_SYMLINK, "symlink"),
    (_FIFO, "fifo"),
    (_SOCKET, "socket"),
    (_DEVICE | _CHAR | _IRREGULAR, "device"),
)
"""Go's file mode bits, as the engine reports them."""

MAX_DEPTH = 64
_MEMBERS_PER_FILE = 4
_MAX_REFUSED = 100
_CHUNK = 1024 * 1024


def stat(engine: Engine, container: str, path: str) -> Stat | None:
    """Return what is at ``path`` without following a link there, ``None`` if nothing is.

    Raises:
        EngineRefused: the container is gone. EngineUnavailable: the connection broke.
    """
    try:
        with _archive(engine, container, path, "HEAD") as response:
            return _stat(response)
    except EngineRefused as refused:
        if _is_missing(engine, container, path, refused):
            return None
        raise


def get(engine: Engine, container: str, path: str, cap: int) -> bytes:
    """Return a regular file's bytes.

    Raises:
        SandboxFailed: there is no regular file of at most ``cap`` bytes.
        EngineRefused, EngineUnavailable: see :func:`stat`.
    """
    try:
        with _archive(engine, container, path, "GET") as response:
            found = _stat(response)
            if found.kind != "file":
                raise SandboxFailed(f"{path} in the box is a {found.kind}, not a regular file")
            _check_size(path, found.size, cap)
            with _reading(engine, path):
                return _only_file(response, path, cap)
    except EngineRefused as refused:
        if _is_missing(engine, container, path, refused):
            raise SandboxFailed(f"there is no {path} in the box") from refused
        raise


def get_tree(engine: Engine, container: str, path: str, dest: Path, *, cap: int, max_files: int) -> Extracted:
    """Copy the regular files below ``path`` to below ``dest``; ``path`` may be one file, too.

    At most ``cap`` bytes are kept, and at most as many again are read past to get to what follows a file
    that does not fit; then the connection is closed.

    Raises:
        DiskFull: no space left here. EngineRefused, EngineUnavailable: see :func:`stat`.
    """
    extracted = Extracted()
    _make_folder(dest)
    try:
        with _archive(engine, container, path, "GET") as response:
            root = "" if _stat(response).kind == "directory" else PurePosixPath(path).name
            with _reading(engine, path):
                _Extraction(extracted, dest, root, cap, max_files).run(_members(response))
    except EngineRefused as refused:
        if not _is_missing(engine, container, path, refused):
            raise
    return extracted


def _make_folder(dest: Path) -> None:
    try:
        dest.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if is_disk_full(str(error)):
            raise disk_full(f"make {dest}", str(error)) from error
        raise SandboxFailed(
            f"cannot make the folder {dest} for files from the box: {error.strerror}"
        ) from error


class _Extraction:
    """Writes the members of one untrusted tar."""

    def __init__(self, result: Extracted, dest: Path, root: str, cap: int, max_files: int) -> None:
        self._result = result
        self._dest = dest
        self._root = root
        self._cap = cap
        self._max_files = max_files
        self._read = 0

    def run(self, members: Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]) -> None:
        for seen, (member, content) in enumerate(members):
            # the first part of each name is that of the folder asked for
            name = self._root or "/".join(PurePosixPath(member.name).parts[1:])
            if self._result.files >= self._max_files or seen >= self._max_files * _MEMBERS_PER_FILE:
                self._refuse(name, f"more than {self._max_files} files; the rest is left out")
                return
            if not name:
                continue
            self._read += member.size
            if self._read > 2 * self._cap:
                self._refuse(
                    name, f"{member.size} bytes go over the cap of {self._cap}; the rest is left out"
                )
                return
            self._take(name, member, content)

    def _take(self, name: str, member: tarfile.TarInfo, content: IO[bytes] | None) -> None:
        reason = _objection(name, member)
        if not reason and self._result.bytes + member.size > self._cap:
            reason = f"{member.size} bytes go over the cap of {self._cap}"
        if reason:
            self._refuse(name, reason)
            return
        target = self._dest / name
        try:
            if member.isdir():
                target.mkdir(parents=True, exist_ok=True)
            elif content is not None:
                self._write(target, member, content)
        except OSError as error:
            if is_disk_full(str(error)):
                raise disk_full(f"write {target}", str(error)) from error
            self._refuse(name, error.strerror or type(error).__name__)

    def _write(self, target: Path, member: tarfile.TarInfo, content: IO[bytes]) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = 0o755 if member.mode & 0o111 else 0o644
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with os.fdopen(os.open(target, flags, mode), "wb") as file:
            while chunk := content.read(_CHUNK):
                file.write(chunk)
        self._result.files += 1
        self._result.bytes += member.size

    def _refuse(self, name: str, reason: str) -> None:
        if len(self._result.refused) == _MAX_REFUSED:
            self._result.refused.append("(more were left out)")
        elif len(self._result.refused) < _MAX_REFUSED:
            self._result.refused.append(f"{_printable(name)}: {reason}")


def _objection(name: str, member: tarfile.TarInfo) -> str:
    """Return why a member must not be written here, or an empty string."""
    parts = name.split("/")
    if ".." in PurePosixPath(member.name).parts or member.name.startswith("/"):
        return "its name leaves the folder"
    if len(parts) > MAX_DEPTH:
        return f"deeper than {MAX_DEPTH} folders"
    if member.issym() or member.islnk():
        return f"a link to {_printable(member.linkname)}"
    if not (member.isreg() or member.isdir()):
        return "neither a file nor a folder"
    return ""


def _only_file(response: Response, path: str, cap: int) -> bytes:
    """Return the bytes of a tar's only member, which must be the file asked for."""
    contents: list[bytes] = []
    for member, content in _members(response):
        if contents or content is None or not member.isreg() or member.name != PurePosixPath(path).name:
            raise SandboxFailed(f"{path} in the box is not one regular file")
        _check_size(path, member.size, cap)  # it may have grown since the header was made
        contents.append(content.read(cap + 1))
    if not contents:
        raise SandboxFailed(f"the engine sent nothing for {path}")
    return contents[0]


def _check_size(path: str, size: int, cap: int) -> None:
    if size > cap:
        raise SandboxFailed(f"{path} in the box has {size} bytes, more than the {cap} that are accepted")


def _members(response: Response) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    raw: Any = response.raw
    with tarfile.open(fileobj=raw, mode="r|", errorlevel=1) as tar:
        for member in tar:
            yield member, tar.extractfile(member) if member.isreg() else None
            tar.members = []  # type: ignore[attr-defined]  # else it keeps every member it has seen


@contextmanager
def _archive(engine: Engine, container: str, path: str, method: str) -> Iterator[Response]:
    response = engine.request(
        method,
        f"/containers/{container}/archive",
        params={"path": path.rstrip("/") or "/"},  # a trailing slash would follow a link
        headers={"Accept-Encoding": "identity"},
        stream=True,
        doing=f"read {path} from the box",
    )
    with response:
        yield response


@contextmanager
def _reading(engine: Engine, path: str) -> Iterator[None]:
    try:
        with connection_errors(engine.endpoint, f"read {path} from the box"):
            yield
    except tarfile.TarError as error:
        raise SandboxFailed(f"the engine sent a broken archive of {path}: {error}") from error


def _stat(response: Response) -> Stat:
    header = response.headers.get("X-Docker-Container-Path-Stat", "")
    try:
        found = json.loads(base64.b64decode(header))
        mode = int(found["mode"])
        size, target = int(found["size"]), str(found.get("linkTarget") or "")
    except (ValueError, KeyError, TypeError) as error:
        raise SandboxFailed(f"the engine's description of a file cannot be read: {header!r}") from error
    kind = next((kind for bits, kind in _KINDS if mode & bits), "file")
    return Stat(kind, size, mode & 0o777, target)


def _is_missing(engine: Engine, container: str, path: str, refused: EngineRefused) -> bool:
    """Return True if a refusal means that there is no such path: the answer to HEAD has no words in it.

    Older engines answer 500 where a parent of the path is a file.
    """
    if refused.status == 404:
        return engine.find(f"/containers/{container}/json", doing="look at the box") is not None
    if "not a directory" in refused.message:
        return True
    parent = PurePosixPath(path).parent
    if refused.status < 500 or len(parent.parts) < 2:
        return False
    found = stat(engine, container, str(parent))
    return found is None or found.kind not in ("directory", "symlink")


def _printable(name: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in name)
