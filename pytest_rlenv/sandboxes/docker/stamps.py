"""Folders that a container had empty from its start, and a cheap way to see that they still are.

To read a folder costs the engine a process and some 50 ms, to ask when it changed 2 ms. A watched folder is
put with a time that nothing else has, which the file system replaces as soon as something is made in it.

That says nothing of what was in it before: a file of the image's that is written to, or one in a folder below
it, leaves the time as it is. So only what the image does not have is watched, and only until it is put again.
Whoever acts as root in the box can set the time back. So this must never stand for having emptied a folder.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from pytest_rlenv.sandboxes.docker.archive import member_name
from pytest_rlenv.sandboxes.model import Entry, Stat

_LATEST = 900_000_000
"""In 1998: no program that runs in a box gives its files such a time by itself."""


class Stamps:
    """The times of one container's watched folders."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}

    def stamp(self, entries: Iterable[Entry], is_new: Callable[[str], bool]) -> Iterator[Entry]:
        """Yield the entries to put below ``/``, with such a time for each watched folder that is new.

        Args:
            entries: what a box is to have from its start.
            is_new: whether nothing is at a path in it yet.
        """
        found = [(member_name("/", entry.path), entry) for entry in entries]
        filled = {parent for name, _ in found for parent in _parents(name)}
        for name, entry in found:
            self._forget(name)
            if entry.watched and entry.is_dir and name not in filled and is_new(f"/{name}"):
                entry = replace(entry, mtime=random.randrange(1, _LATEST))
                self._times[name] = entry.mtime
            yield entry

    def forget(self, entries: Iterable[Entry], dest: str) -> Iterator[Entry]:
        """Yield the entries to put below ``dest``, and watch none of them, nor what they are put into."""
        for entry in entries:
            self._forget(member_name(dest, entry.path))
            yield entry

    def knows(self, path: str) -> bool:
        """Return whether the folder at ``path`` is watched, and nothing was put below it since."""
        return path.strip("/") in self._times

    def unchanged(self, path: str, found: Stat | None) -> bool:
        """Return whether what is at ``path`` is a folder that nothing was made in since it was put."""
        stamp = self._times.get(path.strip("/"))
        return found is not None and found.kind == "directory" and found.mtime == stamp

    def _forget(self, name: str) -> None:
        for each in (name, *_parents(name)):
            self._times.pop(each, None)


def _parents(name: str) -> Iterator[str]:
    while "/" in name:
        name = name.rpartition("/")[0]
        yield name
