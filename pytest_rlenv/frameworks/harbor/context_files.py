"""Files of a build context that would surprise in the image: said when the task is read."""

from __future__ import annotations

import errno
from pathlib import Path

from pytest_rlenv.frameworks.harbor.files import carriage_returns, is_lfs_pointer
from pytest_rlenv.frameworks.harbor.inside import relative_name

_HEAD_BYTES = 512
_LFS_POINTER_MAX = 1024


def context_warnings(root: Path, folder: Path) -> list[str]:
    """Return one line for each git-lfs pointer, script with CR LF, and link that leads out of the context.

    Args:
        root: the task's folder, resolved.
        folder: the build context.
    """
    found = []
    for path in sorted(folder.rglob("*")):
        try:
            warning = _leaves(folder, path) if path.is_symlink() else _about(path)
        except OSError:
            continue  # the build will say so
        if warning:
            found.append(f"{relative_name(root, path)}: {warning}")
    return found


def _about(path: Path) -> str:
    if not path.is_file():
        return ""
    small = path.stat().st_size < _LFS_POINTER_MAX
    if not (small or path.suffix == ".sh"):
        return ""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if is_lfs_pointer(head):
        return "a git-lfs pointer, not the file itself"
    return carriage_returns(path.name, head)


def _leaves(folder: Path, path: Path) -> str:
    target = path.readlink()
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            return "links that lead in a circle"
    inside = not target.is_absolute() and path.resolve().is_relative_to(folder)
    return "" if inside else f"a link to {str(target)!a}: the image gets the link, not what it points to"
