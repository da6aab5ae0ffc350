"""List the files of a local environment for discovery: fast, and never out of its folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from pytest_rlenv.environments.discovery import MAX_DEPTH, is_ignored
from pytest_rlenv.environments.layouts import MANIFEST, TELLING, framework_of
from pytest_rlenv.errors import SpecError


class Walk:
    """One walk over a folder; iterate it, then look at what could not be entered.

    Nothing below a task is listed: the files that tell its layout stand for it. A folder that is a link is
    entered if it leads to a place in the root that is not walked anyway (behind a hidden folder, say).

    Attributes:
        outside: links to folders that leave the root, relative to it.
        unreadable: one line for each folder that could not be listed.
    """

    def __init__(self, root: Path, *, depth: int = MAX_DEPTH, hidden: bool = False) -> None:
        self.outside: list[str] = []
        self.unreadable: list[str] = []
        self._root = root
        self._depth = depth
        self._hidden = hidden
        self._links: list[tuple[str, int]] = []
        self._walked: set[str] = set()
        self._tasks: set[str] = set()

    def __iter__(self) -> Iterator[str]:
        """Yield the files relative to the root, with ``/`` between the parts.

        Raises:
            SpecError: if the root itself cannot be listed.
        """
        yield from self._folder("", self._depth)
        while self._links:
            path, depth = self._links.pop()
            target = self._target(path)
            if target is None:
                self.outside.append(path)
            elif not self._is_walked(target):
                self._walked.add(target)
                yield from self._folder(path, depth)

    def _folder(self, folder: str, depth: int) -> Iterator[str]:
        prefix = f"{folder}/" if folder else ""
        self._walked.add(folder)
        # Text, not Path: this runs once per task, and a stat is a third of the price of listing a folder.
        if os.path.isfile(f"{self._root}/{prefix}{MANIFEST}"):  # noqa: PTH113 - see above
            self._tasks.add(folder)
            yield f"{prefix}{MANIFEST}"
            return
        entries = self._entries(folder)
        telling = TELLING.intersection(entry.name for entry in entries)
        if telling and framework_of(telling):
            self._tasks.add(folder)
            yield from (f"{prefix}{name}" for name in sorted(telling))
            return
        for entry in entries:
            path = f"{prefix}{entry.name}"
            if not entry.is_dir():
                yield path
            elif depth > 0 and (self._hidden or not is_ignored(entry.name)):
                if entry.is_symlink():
                    self._links.append((path, depth - 1))
                else:
                    yield from self._folder(path, depth - 1)

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(f"{self._root}/{folder}") as entries:
                return list(entries)
        except OSError as error:
            if not folder:
                raise SpecError(f"cannot list {self._root}: {error.strerror}") from error
            self.unreadable.append(f"cannot list {folder} ({error.strerror}): tasks in it are not seen")
            return []

    def _target(self, link: str) -> str | None:
        """Return where a link leads, relative to the root, or ``None`` if out of it."""
        target, root = (self._root / link).resolve(), self._root.resolve()
        if not target.is_relative_to(root):
            return None
        below = target.relative_to(root).as_posix()
        return "" if below == "." else below

    def _is_walked(self, folder: str) -> bool:
        return folder in self._walked or any(str(p) in self._tasks for p in PurePosixPath(folder).parents)
