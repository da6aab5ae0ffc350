"""Files into a container: one tar stream, with nothing of this machine in it but the bytes."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from pytest_rlenv.errors import SandboxFailed
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.model import Entry

_CHUNK = 1024 * 1024
_BLOCK = tarfile.BLOCKSIZE


def put(engine: Engine, container: str, entries: Iterable[Entry], dest: str = "/") -> None:
    """Write entries below ``dest``; the container may be created, running or stopped.

    The engine makes missing parents (root's, 0755) and leaves existing ones as they are; a folder that is
    itself an entry gets the entry's mode. Symlinks among the parents of a target are followed *inside the
    container*, so a caller who does not trust the box removes the target folder first.

    Raises:
        SandboxFailed: a path leaves ``dest``, or a source cannot be read.
        EngineRefused, EngineUnavailable: see :class:`~pytest_rlenv.sandboxes.docker.client.Engine`.
    """
    members = [(member_name(dest, entry.path), entry) for entry in entries]
    if not members:
        return
    engine.request(
        "PUT",
        f"/containers/{container}/archive",
        params={"path": "/"},
        data=_tar(members),
        headers={"Content-Type": "application/x-tar"},
        doing="put files into the box",
    )


def member_name(dest: str, path: str) -> str:
    """Return the name in a tar, relative to ``/``, of ``path`` below ``dest``.

    Raises:
        SandboxFailed: the path leaves ``dest``.
    """
    parts = [part for part in PurePosixPath(path.lstrip("/")).parts if part != "."]
    base = [part for part in PurePosixPath(dest.lstrip("/")).parts if part != "."]
    if ".." in parts or ".." in base or "\0" in f"{dest}{path}":
        raise SandboxFailed(f"refusing to write to {path!r}: it leaves {dest!r}")
    return "/".join(base + parts)


def _tar(members: Iterable[tuple[str, Entry]]) -> Iterator[bytes]:
    """Yield a GNU tar, large files chunk by chunk, so that memory stays small whatever the size."""
    small = bytearray()
    for name, entry in members:
        if not name:
            continue  # the root itself
        if entry.source is not None:
            yield bytes(small)
            small.clear()
            yield from _source_member(name, entry, entry.source)
            continue
        content = entry.content or b""
        small += _header(name, entry, len(content)) + content + _padding(len(content))
        if len(small) > _CHUNK:
            yield bytes(small)
            small.clear()
    yield bytes(small) + bytes(2 * _BLOCK)


def _source_member(name: str, entry: Entry, source: Path) -> Iterator[bytes]:
    try:
        with source.open("rb") as file:
            size = source.stat().st_size
            yield _header(name, entry, size)
            left = size
            while left:
                chunk = file.read(min(_CHUNK, left))
                if not chunk:
                    raise SandboxFailed(f"{source} shrank while it was put into the box")
                left -= len(chunk)
                yield chunk
            yield _padding(size)
    except OSError as error:
        raise SandboxFailed(f"cannot read {source} to put it into the box: {error.strerror}") from error


def _header(name: str, entry: Entry, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = size
    info.mode = entry.mode
    info.mtime = entry.mtime
    info.uid, info.gid = entry.uid, entry.gid
    if not (entry.uid or entry.gid):
        info.uname = info.gname = "root"
    if entry.link is not None:
        info.type, info.linkname = tarfile.SYMTYPE, entry.link
    elif entry.is_dir:
        info.type = tarfile.DIRTYPE
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _padding(size: int) -> bytes:
    return bytes(-size % _BLOCK)
