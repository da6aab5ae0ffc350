"""Removes what local boxes have left: extracted images that nobody used lately, files of dead owners."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pytest_rlenv.sandboxes.leftovers import BOX, ROOTFS, Leftover, Pruned
from pytest_rlenv.sandboxes.local._removal import remove_tree
from pytest_rlenv.sandboxes.local.places import bases_there, stale
from pytest_rlenv.sandboxes.local.rootfs import FOLDER, NAMES, PARTIAL, USED

_ABANDONED = 24 * 3600.0
"""Seconds after which a folder that is not whole belongs to nobody any more."""


def prune(cache_dir: Path, older_than: float = 0.0, *, dry_run: bool = False) -> Pruned:
    """Remove extracted images that nobody has used for a while, and the boxes of dead owners.

    Images that a process holds are left alone, whatever their age.

    Args:
        cache_dir: the folder of all that outlives a run.
        older_than: seconds for which an image must not have been used.
        dry_run: only say what would be removed.
    """
    return _Prune(cache_dir, older_than, dry_run).run()


class _Prune:
    def __init__(self, cache_dir: Path, older_than: float, dry_run: bool) -> None:
        self._cache_dir = cache_dir
        self._folder = cache_dir / FOLDER
        self._older_than = older_than
        self._dry_run = dry_run
        self._done = Pruned()
        self._now = time.time()

    def run(self) -> Pruned:
        for base in bases_there(self._cache_dir):
            for box in stale(base):
                self._take(BOX, str(box), box)
        names = {image: name for _, name, image in self._notes()}
        for place in sorted(_children(self._folder)):
            if PARTIAL in place.name:
                if self._now - place.lstat().st_mtime > _ABANDONED:
                    self._take(ROOTFS, f"{place} (not whole)", place)
            elif (place / USED).is_file():
                self._image(place, names)
        self._forget_names()
        return self._done

    def _image(self, place: Path, names: dict[str, str]) -> None:
        image = place.name.removesuffix("-user")
        label = f"{names[image]} ({image[:12]})" if image in names else image[:12]
        if self._now - (place / USED).stat().st_mtime < self._older_than:
            self._done.recent += 1
        elif not _remove_unused(place, lambda gone: self._take(ROOTFS, label, gone), dry_run=self._dry_run):
            self._done.in_use += 1

    def _take(self, kind: str, name: str, folder: Path) -> None:
        size = _bytes_below(folder)
        if not self._dry_run:
            remove_tree(folder)
            if os.path.lexists(folder):
                self._done.problems.append(f"{kind} {name}: {folder} cannot be removed whole")
                return
        self._done.freed += size
        self._done.removed.append(Leftover(kind, name, size))

    def _notes(self) -> Iterator[tuple[Path, str, str]]:
        """Yield the file, the name and the image of each name that is remembered."""
        for note in _children(self._folder / NAMES):
            try:
                stored = json.loads(note.read_text(encoding="utf-8"))
                yield note, str(stored["name"]), str(stored["id"]).removeprefix("sha256:")
            except (OSError, ValueError, KeyError, TypeError):
                yield note, "", ""

    def _forget_names(self) -> None:
        """Remove names whose image is gone."""
        for note, _, image in self._notes():
            there = image and any((self._folder / f"{image}{end}").exists() for end in ("", "-user"))
            with contextlib.suppress(OSError):
                if not (there or self._dry_run) and self._now - note.stat().st_mtime >= self._older_than:
                    note.unlink(missing_ok=True)


def _remove_unused(place: Path, take: Callable[[Path], None], *, dry_run: bool) -> bool:
    """Remove an image that no process holds or makes; return False for one that some does."""
    from filelock import FileLock, Timeout

    used = os.open(place / USED, os.O_RDWR | os.O_CLOEXEC)
    lock = Path(f"{place}.lock")
    try:
        fcntl.flock(used, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if dry_run:
            take(place)
            return True
        with FileLock(lock).acquire(blocking=False):
            gone = place.with_name(f"{place.name}{PARTIAL}{secrets.token_hex(4)}")
            place.rename(gone)
            lock.unlink(missing_ok=True)
    except (BlockingIOError, Timeout):
        return False
    finally:
        os.close(used)
    take(gone)
    return True


def _bytes_below(folder: Path) -> int:
    """Return what a folder takes on its disk; a file with several names counts once."""
    seen: set[tuple[int, int]] = set()
    total, pending = 0, [folder]
    while pending:
        with contextlib.suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                info = entry.stat(follow_symlinks=False)
                if (info.st_dev, info.st_ino) not in seen:
                    seen.add((info.st_dev, info.st_ino))
                    total += info.st_blocks * 512
                if entry.is_dir(follow_symlinks=False):
                    pending.append(Path(entry.path))
    return total


def _children(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []
