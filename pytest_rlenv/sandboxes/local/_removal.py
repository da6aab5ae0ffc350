"""Removes what boxes leave on this machine. Standard library only: the launcher loads it by its path."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from pathlib import Path

_TRIES = 50
_PAUSE = 0.01


def remove_tree(folder: Path) -> None:
    """Remove a folder, whatever its modes; never follows a link out of it, and never raises.

    A box may leave folders that their owner cannot enter, and so does the kernel's overlay itself.
    """
    if not os.path.lexists(folder):
        return
    shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder):
        _open_up(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _open_up(folder: Path) -> None:
    """Give the owner access to all folders of a tree that no process uses any more."""
    with contextlib.suppress(OSError):
        folder.chmod(0o700)
    pending = [folder]
    while pending:
        with contextlib.suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                if stat.S_ISDIR(entry.stat(follow_symlinks=False).st_mode):
                    with contextlib.suppress(OSError):
                        Path(entry.path).chmod(0o700)
                    pending.append(Path(entry.path))


def remove_cgroup(folder: Path) -> None:
    """Remove an empty control group; one whose last process is just ending is waited for."""
    for _ in range(_TRIES):
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(_PAUSE)
        else:
            return


def remove_cgroups(parent: Path, prefix: str) -> None:
    """Remove the control groups below ``parent`` whose names start with ``prefix``."""
    with contextlib.suppress(OSError):
        for folder in parent.iterdir():
            if folder.name.startswith(prefix):
                remove_cgroup(folder)
