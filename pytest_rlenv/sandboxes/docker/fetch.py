"""Files out of a container. What comes out was written by whoever acted in the box: nothing is trusted.

The engine hands out links, pipes and devices as bare headers, so nothing is opened or followed there; and
nothing but regular files is ever written here.
"""

from __future__ import annotations

import base64
import json
import os
import re
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

from pytest_rlenv.disk import OUTPUT_CURE, disk_full, is_full
from pytest_rlenv.errors import SandboxFailed
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.extraction import Extraction
from pytest_rlenv.sandboxes.docker.failures import EngineRefused, connection_errors
from pytest_rlenv.sandboxes.model import Extracted, Stat

if TYPE_CHECKING:
    from pytest_rlenv.sandboxes.docker.client import Answer

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

_NAME_MAX = 255
_TIME = re.compile(r"(?P<seconds>[0-9T:-]{19})(?:\.[0-9]+)?(?P<zone>Z|[+-][0-9]{2}:[0-9]{2})")


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
        if _is_loop(engine, container, path, refused):
            return Stat("symlink", 0, 0o777)
        raise


def has(engine: Engine, container: str, path: str) -> bool:
    """Return False if there certainly is nothing at ``path`` in a container that is there."""
    try:
        with _archive(engine, container, path, "HEAD"):
            return True
    except EngineRefused as refused:
        return refused.status != 404


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
        if _is_loop(engine, container, path, refused):
            raise SandboxFailed(f"{path} in the box is a symlink, not a regular file") from refused
        raise


def get_tree(
    engine: Engine,
    container: str,
    path: str,
    dest: Path,
    *,
    cap: int,
    max_files: int,
    skip: Callable[[str], bool] | None = None,
) -> Extracted:
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
                Extraction(extracted, dest, root, cap, max_files, skip).run(_members(response))
    except EngineRefused as refused:
        if "too many" in refused.message:
            extracted.refused.append(f"{PurePosixPath(path).name}: links that lead to each other")
        elif not _is_missing(engine, container, path, refused):
            raise
    return extracted


def _make_folder(dest: Path) -> None:
    try:
        dest.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if is_full(error):
            raise disk_full(f"make {dest}", dest, hint=OUTPUT_CURE) from error
        raise SandboxFailed(
            f"cannot make the folder {dest} for files from the box: {error.strerror}"
        ) from error


def _only_file(response: Answer, path: str, cap: int) -> bytes:
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


def _members(response: Answer) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    raw: Any = response.raw
    with tarfile.open(fileobj=raw, mode="r|", errorlevel=1) as tar:
        for member in tar:
            yield member, tar.extractfile(member) if member.isreg() else None
            tar.members = []  # type: ignore[attr-defined]  # else it keeps every member it has seen


@contextmanager
def _archive(engine: Engine, container: str, path: str, method: str) -> Iterator[Answer]:
    response = engine.request(
        method,
        f"/containers/{container}/archive",
        params={"path": os.fsencode(path.rstrip("/") or "/")},  # a trailing slash would follow a link
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


def _stat(response: Answer) -> Stat:
    header = response.headers.get("X-Docker-Container-Path-Stat", "")
    try:
        found = json.loads(base64.b64decode(header))
        mode = int(found["mode"])
        size, target = int(found["size"]), str(found.get("linkTarget") or "")
        mtime = _seconds(str(found.get("mtime") or ""))
    except (ValueError, KeyError, TypeError) as error:
        raise SandboxFailed(f"the engine's description of a file cannot be read: {header!r}") from error
    kind = next((kind for bits, kind in _KINDS if mode & bits), "file")
    return Stat(kind, size, mode & 0o777, target, mtime)


def _seconds(written: str) -> int | None:
    """Return a time as Go writes it, ``2001-09-09T01:46:40.5Z``, in whole seconds since 1970."""
    match = _TIME.fullmatch(written)
    if match is None:
        return None
    zone = "+00:00" if match["zone"] == "Z" else match["zone"]
    return int(datetime.fromisoformat(match["seconds"] + zone).timestamp())


def _is_missing(engine: Engine, container: str, path: str, refused: EngineRefused) -> bool:
    """Return True if a refusal means that there is no such path: the answer to HEAD has no words in it.

    Older engines answer 500 where a parent of the path is a file.
    """
    if refused.status == 404:
        return engine.find(f"/containers/{container}/json", doing="look at the box") is not None
    if "not a directory" in refused.message or "\0" in path:
        return True
    if any(len(os.fsencode(part)) > _NAME_MAX for part in PurePosixPath(path).parts):
        return True
    parent = PurePosixPath(path).parent
    if refused.status < 500 or len(parent.parts) < 2:
        return False
    found = stat(engine, container, str(parent))
    return found is None or found.kind not in ("directory", "symlink")


def _is_loop(engine: Engine, container: str, path: str, refused: EngineRefused) -> bool:
    """Return True if a refusal means that links lead to each other at the path itself."""
    if refused.status < 500:
        return False
    try:
        with _archive(engine, container, path, "GET"):  # unlike that to HEAD, its answer has words in it
            return False
    except EngineRefused as explained:
        return "too many" in explained.message
