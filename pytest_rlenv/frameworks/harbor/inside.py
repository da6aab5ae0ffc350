"""Paths of a task: they resolve inside its folder, and are read without trusting what is there."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from pytest_rlenv.errors import TaskInvalid

LEFT_TASK_HINT = (
    "Put a real file there. A Hub cache snapshot holds links only: download the files to a folder instead."
)


def resolve_inside(root: Path, path: Path) -> Path:
    """Return where a path of a task really is; it need not exist.

    Args:
        root: the task's folder, resolved.
        path: below ``root``.

    Raises:
        TaskInvalid: links lead out of the task or in a circle.
    """
    if is_free_of_links(root, path):
        return path
    shown = relative_name(root, path)
    try:
        real = path.resolve()
        if path.is_symlink():
            real.lstat()  # before Python 3.13 a circle of links resolves to itself
    except FileNotFoundError:
        pass
    except (OSError, RuntimeError):
        raise TaskInvalid(f"{shown}: links that lead in a circle") from None
    if not real.is_relative_to(root):
        raise TaskInvalid(f"{shown}: leaves the task ({_target(path)})", hint=LEFT_TASK_HINT)
    if real.is_symlink():
        raise TaskInvalid(f"{shown}: links that lead in a circle")
    return real


def parts_below(root: Path, path: Path) -> tuple[str, ...] | None:
    """Return the parts of a path from a folder on, ``None`` if it is not below it.

    For what is asked of every file, since ``relative_to`` makes both paths anew.
    """
    depth = len(root.parts)
    return path.parts[depth:] if path.parts[:depth] == root.parts else None


def is_free_of_links(root: Path, path: Path) -> bool:
    """Return True if a path below a resolved folder certainly is where it says, as nearly all are.

    To resolve a path looks at each of its parts from the file system's root on, and that several times.
    """
    parts = parts_below(root, path)
    if parts is None:
        return False
    here = os.fspath(root)
    for part in parts:
        here = os.path.join(here, part)  # noqa: PTH118 - called for every file, so no Path objects
        try:
            if part == ".." or stat.S_ISLNK(os.lstat(here).st_mode):
                return False
        except FileNotFoundError:
            return ".." not in parts
        except (OSError, ValueError):
            return False
    return True


def read_inside(root: Path, name: str, *, cap: int) -> bytes:
    """Return the bytes of a regular file of a task.

    Args:
        root: the task's folder, resolved.
        name: the file relative to it.
        cap: how many bytes it may have.

    Raises:
        TaskInvalid: there is no such file, it is not a regular file inside the task, or it is too large.
    """
    real = resolve_inside(root, root / name)
    if real.is_dir():
        raise TaskInvalid(f"{name}: a folder, not a file")
    try:
        if not stat.S_ISREG(real.stat().st_mode):
            raise TaskInvalid(f"{name}: not a regular file")
        with real.open("rb") as file:
            data = file.read(cap + 1)
    except FileNotFoundError:
        raise TaskInvalid(f"{name}: not found ({holding(root, (root / name).parent)})") from None
    except OSError as error:
        raise TaskInvalid(f"{name}: cannot be read: {error.strerror}") from None
    if len(data) > cap:
        raise TaskInvalid(f"{name}: more than {cap} bytes")
    return data


def relative_name(root: Path, path: Path) -> str:
    """Return a path of a task for messages: relative to the task, printable."""
    name = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    return name if name.isprintable() else ascii(name)


def holding(root: Path, folder: Path, limit: int = 5) -> str:
    """Return what is in a folder of a task, for a message, such as ``tests/ holds test.py, data``."""
    name = "the task's folder" if folder == root else f"{relative_name(root, folder)}/"
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 - names only, no Path objects
    except OSError:
        return f"there is no {name}"
    if not names:
        return f"{name} is empty"
    shown = [text if text.isprintable() else ascii(text) for text in names[:limit]]
    return f"{name} holds {', '.join(shown)}{', ...' if len(names) > limit else ''}"


def _target(path: Path) -> str:
    try:
        return f"a link to {os.readlink(path)!a}"  # noqa: PTH115 - the text of the link as it is
    except OSError:
        return "through a folder that is a link"
