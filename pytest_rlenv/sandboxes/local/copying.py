"""What a COPY (or ADD) of local files brings where, by the rules of a Dockerfile."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from pytest_rlenv.sandboxes.build_context import BuildContext
from pytest_rlenv.sandboxes.model import Entry

_ARCHIVES = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd")
_TAR_MAGIC, _TAR_MAGIC_AT = b"ustar", 257
_REMOTE = re.compile(r"(https?|ftp|git|ssh)://|git@", re.I)


class CopyProblem(Exception):
    """A source that cannot be copied, with the reason."""


class SourceMissing(CopyProblem):
    """A source that is not in the build context, so that no builder could copy it."""


def planned(
    context: BuildContext, sources: Sequence[str], dest: str, *, mode: int | None, unpacks: bool
) -> list[Entry]:
    """Return the files and folders that an instruction makes, in order, with absolute paths.

    Args:
        context: the build context.
        sources: patterns relative to its root.
        dest: an absolute path; with a slash at its end for a folder.
        mode: permission bits for all of it; by default each file's own.
        unpacks: True for ADD, which unpacks archives; those are refused.

    Raises:
        CopyProblem: a source lies outside, or cannot be copied. SourceMissing: it does not exist.
    """
    found = [name for source in sources for name in _matches(context, source)]
    as_folder = dest.endswith("/")
    if not as_folder and len(found) > 1:
        raise CopyProblem(f"with several sources, {dest!r} must end with /")
    target = PurePosixPath(dest)
    entries: list[Entry] = []
    for name in found:
        path = _inside(context, name)
        if path.is_dir():
            entries.append(Entry(str(target), mode=0o755 if mode is None else mode))
            entries += _folder(context, name, target, mode)
        else:
            if unpacks and _is_archive(path):
                raise CopyProblem(f"{name} is an archive, which ADD unpacks: use RUN in an image, or COPY")
            where = target / PurePosixPath(name).name if as_folder else target
            entries.append(_file(path, where, mode))
    return entries


def _matches(context: BuildContext, source: str) -> list[str]:
    """Return the names in the context that a source stands for; the root has an empty one."""
    if _REMOTE.match(source):
        raise CopyProblem(f"{source} is not a local file")
    parts = [part for part in PurePosixPath(source.lstrip("/")).parts if part != "."]
    if ".." in parts:
        raise CopyProblem(f"{source} leaves the build context")
    if not parts:
        return [""]
    patterns = [part.replace("[^", "[!") for part in parts]
    names = sorted({name for path in context.paths for name in _prefixes(path, len(parts))})
    found = [name for name in names if all(map(fnmatch.fnmatchcase, name.split("/"), patterns))]
    if not found:
        raise SourceMissing(f"there is no {source} in the build context")
    return found


def _prefixes(path: str, length: int) -> Iterator[str]:
    """Yield the first ``length`` parts of a path that has them: folders may be known by their files only."""
    parts = path.split("/")
    if len(parts) >= length:
        yield "/".join(parts[:length])


def _folder(context: BuildContext, name: str, target: PurePosixPath, mode: int | None) -> Iterator[Entry]:
    """Yield what is in a folder of the context; its own name is left out."""
    start = f"{name}/" if name else ""
    for path in context.paths:
        if not path.startswith(start) or path == name:
            continue
        where = target / path[len(start) :]
        file = context.root / path
        if file.is_symlink():
            raise CopyProblem(f"{path} is a link, which is not copied here")
        if file.is_dir():
            yield Entry(str(where), mode=file.stat().st_mode & 0o7777 if mode is None else mode)
        else:
            yield _file(file, where, mode)


def _file(path: Path, where: PurePosixPath, mode: int | None) -> Entry:
    return Entry(str(where), mode=path.stat().st_mode & 0o7777 if mode is None else mode, source=path)


def _inside(context: BuildContext, name: str) -> Path:
    """Return the file of a name; a link is followed, as the builder does, but not out of the context."""
    path = (context.root / name).resolve()
    root = context.root.resolve()
    if path != root and root not in path.parents:
        raise CopyProblem(f"{name} is a link that leaves the build context")
    if not path.exists():
        raise CopyProblem(f"{name} is a link to nothing")
    return path


def _is_archive(path: Path) -> bool:
    with path.open("rb") as file:
        start = file.read(_TAR_MAGIC_AT + len(_TAR_MAGIC))
    return start.startswith(_ARCHIVES) or start[_TAR_MAGIC_AT:] == _TAR_MAGIC
