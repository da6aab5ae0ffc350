"""Which built images are in use, and when each was used last: what their removal goes by.

An engine knows what its containers use, but not what a run is about to start, nor when it last did.
``<cache>/docker-images/<engine>/`` holds a file for each image, whose time says when, and in ``runs/`` a file
for each process, which names the images it may use and is locked for as long as it lives.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FOLDER, _RUNS, _GUARD = "docker-images", "runs", "lock"


class ImageUses:
    """The uses of one engine's images by this user. Safe to use from several threads.

    Args:
        cache_dir: the folder of what outlives a run.
        engine: the engine's fingerprint.
    """

    def __init__(self, cache_dir: Path, engine: str) -> None:
        self._folder = cache_dir / _FOLDER / engine
        self._lock = threading.Lock()
        self._claimed: set[str] = set()
        self._held: tuple[Path, int] | None = None

    def claim(self, key: str) -> None:
        """Keep an image from being removed until :meth:`close`; to be called before it is looked for.

        Where the cache cannot be written to, the image is used all the same.

        Args:
            key: the image's content key.
        """
        with self._lock, contextlib.suppress(OSError):
            if key not in self._claimed:
                (self._folder / _RUNS).mkdir(parents=True, exist_ok=True)
                with self._guard(fcntl.LOCK_SH):
                    os.write(self._own_file(), f"{key}\n".encode())
                self._claimed.add(key)
            self._stamp(key).touch()

    def last_use(self, key: str) -> float | None:
        """Return the time at which an image was used last, ``None`` if this user never did."""
        try:
            return self._stamp(key).stat().st_mtime
        except OSError:
            return None

    @contextmanager
    def removing(self) -> Iterator[frozenset[str]]:
        """Give the keys of the images that live processes may use; nobody claims one meanwhile."""
        runs = self._folder / _RUNS
        if not runs.is_dir():
            yield frozenset()
            return
        with self._guard(fcntl.LOCK_EX):
            keys: set[str] = set()
            for file in runs.iterdir():
                keys.update(_keys_of_the_living(file))
            yield frozenset(keys)

    def forget(self, key: str) -> None:
        """Take note that an image is gone."""
        self._stamp(key).unlink(missing_ok=True)

    def forget_all_but(self, keys: frozenset[str]) -> None:
        """Take note that of the images that nobody uses only these are there."""
        with self.removing() as used, contextlib.suppress(OSError):
            for stamp in list(self._folder.iterdir()):
                if stamp.name not in keys | used | {_RUNS, _GUARD}:
                    stamp.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of all images."""
        with self._lock:
            held, self._held = self._held, None
            self._claimed.clear()
        if held is not None:
            held[0].unlink(missing_ok=True)
            os.close(held[1])

    def _own_file(self) -> int:
        """Return this process's file, open and locked."""
        if self._held is None:
            path = self._folder / _RUNS / f"{int(time.time())}-{os.getpid()}-{secrets.token_hex(4)}"
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
            fcntl.flock(fd, fcntl.LOCK_EX)
            self._held = (path, fd)
        return self._held[1]

    @contextmanager
    def _guard(self, kind: int) -> Iterator[None]:
        fd = os.open(self._folder / _GUARD, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, kind)
            yield
        finally:
            os.close(fd)

    def _stamp(self, key: str) -> Path:
        return self._folder / key


def _keys_of_the_living(file: Path) -> list[str]:
    """Return what a process has claimed; the file of one that is gone is removed."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return file.read_text(encoding="ascii", errors="replace").split()
    else:
        file.unlink(missing_ok=True)
        return []
    finally:
        os.close(fd)
