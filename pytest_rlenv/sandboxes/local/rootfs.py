"""Extracted images: each root file system is on this machine once, beside what its image says of itself.

``<cache>/rootfs/<image id>/root`` holds the files, ``config.json`` the description; ``used`` is locked by
each process that may have boxes on it, and its time says when that was. Names are remembered, so that an
image that was prepared once can be used when no engine answers any more.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pytest_rlenv.sandboxes.local._removal import remove_tree
from pytest_rlenv.sandboxes.local.imageconfig import ImageConfig
from pytest_rlenv.sandboxes.model import ImageRef

FOLDER, NAMES, USED = "rootfs", "names", "used"
PARTIAL = ".part-"
"""What the names of folders have in them that are not whole, or not any more."""
_ROOT, _CONFIG = "root", "config.json"
_LOCK_POLL = 0.02


@dataclass(frozen=True)
class Rootfs:
    """An extracted image.

    Attributes:
        root: the folder that is its root file system. Never written to.
        config: what the image says of itself.
    """

    root: Path
    config: ImageConfig


class RootfsCache:
    """The extracted images of one cache folder.

    Args:
        cache_dir: the folder of all that outlives a run.
        owners: True where files keep their owners; the others are kept apart.
    """

    def __init__(self, cache_dir: Path, *, owners: bool) -> None:
        self._folder = cache_dir / FOLDER
        self.owners = owners
        self._suffix = "" if owners else "-user"
        self._held: dict[str, tuple[Rootfs, int]] = {}
        self._noted: dict[str, str] = {}
        """Ids of the images that are remembered, by what stands for them: tasks may have equal contexts."""

    def find(self, image_id: str) -> Rootfs | None:
        """Return an extracted image, which nobody removes until :meth:`close`; ``None`` if it is not here."""
        if image_id in self._held:
            return self._held[image_id][0]
        folder = self._place(image_id)
        held = _hold(folder / USED)
        if held is None:
            return None
        stored = json.loads((folder / _CONFIG).read_text(encoding="utf-8"))
        rootfs = Rootfs(folder / _ROOT, ImageConfig.from_json(stored))
        other = self._held.setdefault(image_id, (rootfs, held))
        if other[1] != held:  # another thread was faster
            os.close(held)
        return other[0]

    def find_or_add(
        self,
        image_id: str,
        fill: Callable[[Path], ImageConfig],
        *,
        timeout: float | None,
    ) -> Rootfs:
        """Return an extracted image; of all processes that ask, one extracts it.

        Args:
            image_id: the image's content id.
            fill: writes the root file system into a folder, which it makes, and returns its description.
            timeout: seconds to wait for another process that is at it.

        Raises:
            filelock.Timeout: it took the other process longer. What ``fill`` raises; nothing is left then.
        """
        from filelock import FileLock

        found = self.find(image_id)
        if found is not None:
            return found
        self._folder.mkdir(parents=True, exist_ok=True)
        place = self._place(image_id)
        lock = FileLock(f"{place}.lock", timeout=-1 if timeout is None else timeout)
        with lock.acquire(poll_interval=_LOCK_POLL):
            if not place.exists():
                partial = place.with_name(f"{place.name}{PARTIAL}{secrets.token_hex(4)}")
                try:
                    config = fill(partial / _ROOT)
                    (partial / _CONFIG).write_text(json.dumps(config.as_json()), encoding="utf-8")
                    (partial / USED).touch()
                    partial.rename(place)
                finally:
                    remove_tree(partial)
            found = self.find(image_id)
        if found is None:
            raise FileNotFoundError(f"{place} was removed while it was made")
        return found

    def remember(self, key: str, image: ImageRef) -> None:
        """Take note of which image a name or a build context stands for."""
        if self._noted.get(key) == image.id:
            return
        note = self._note(key)
        text = json.dumps({"name": image.name, "id": image.id})
        if not note.is_file() or note.read_text(encoding="utf-8") != text:
            note.parent.mkdir(parents=True, exist_ok=True)
            partial = note.with_name(f"{note.name}{PARTIAL}{secrets.token_hex(4)}")
            partial.write_text(text, encoding="utf-8")
            partial.rename(note)
        self._noted[key] = image.id

    def recall(self, key: str) -> ImageRef | None:
        """Return the image that a name or a build context stood for, if it is still here."""
        try:
            stored = json.loads(self._note(key).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        image = ImageRef(stored["name"], stored["id"])
        return image if self.find(image.id) else None

    def close(self) -> None:
        """Let go of all images; they may be pruned from now on."""
        while self._held:
            _, (_, held) = self._held.popitem()
            os.close(held)

    def _place(self, image_id: str) -> Path:
        return self._folder / f"{image_id.removeprefix('sha256:')}{self._suffix}"

    def _note(self, key: str) -> Path:
        return self._folder / NAMES / hashlib.sha256(f"{key}{self._suffix}".encode()).hexdigest()


def _hold(used: Path) -> int | None:
    """Return an open file that keeps an image from being removed; ``None`` if there is no such image."""
    try:
        fd = os.open(used, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    fcntl.flock(fd, fcntl.LOCK_SH)
    try:
        if used.stat().st_ino == os.fstat(fd).st_ino:
            os.utime(fd)
            return fd
    except FileNotFoundError:
        pass  # removed since it was opened
    os.close(fd)
    return None
