"""Prepares the images of the next task while the current one runs, so that nobody waits for them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from pytest_rlenv.errors import RlenvError, Unsupported
from pytest_rlenv.frameworks.protocol import get_framework

if TYPE_CHECKING:
    from pytest_rlenv.execution import SelectedTask
    from pytest_rlenv.sandboxes.model import ImageSpec
    from pytest_rlenv.sandboxes.protocol import Sandbox

LIMIT = 3600.0
"""Seconds for one image; whoever needs it has the task's own limit, and waits no longer than that."""

_LAST_LOOK = 0.2


class ImagesAhead:
    """One thread at most, with one task's images at a time.

    What goes wrong is of no concern here: the task itself meets it, and its build has failed by then.

    Args:
        build: build images from Dockerfiles also where prebuilt ones are named.
        stopped: whether the run starts no more rollouts.
    """

    def __init__(self, *, build: bool, stopped: Callable[[], object]) -> None:
        self._build = build
        self._stopped = stopped
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._seen: set[ImageSpec] = set()
        self._closed = False

    def begin(self, sandbox: Sandbox, current: SelectedTask, following: SelectedTask) -> None:
        """Begin with the images of ``following`` that ``current`` does not need; unless some are under way.

        Args:
            sandbox: where both run.
            current: the task that is about to run.
            following: the one after it.
        """
        if following.id == current.id and following.environment is current.environment:
            return
        with self._lock:
            if self._closed or (self._thread is not None and self._thread.is_alive()):
                return
            # a daemon: a build that takes its time must not keep the process from ending
            self._thread = threading.Thread(
                target=self._prepare, args=(sandbox, current, following), name="rlenv-images", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """Begin with no more images; one under way is left alone, and ends with this process."""
        with self._lock:
            self._closed = True
            thread = self._thread
        if thread is not None:
            thread.join(_LAST_LOOK)

    def _prepare(self, sandbox: Sandbox, current: SelectedTask, following: SelectedTask) -> None:
        with contextlib.suppress(Exception):
            if not sandbox.capabilities.prepares_ahead:
                return
            self._seen.update(self._images(current))
            for image in self._images(following):
                if self._closed or self._stopped():
                    return
                if image not in self._seen:
                    self._seen.add(image)
                    sandbox.prepare(image, timeout=LIMIT)

    def _images(self, task: SelectedTask) -> tuple[ImageSpec, ...]:
        if task.problem is not None or task.ref.problem or not task.folder.is_dir():
            return ()
        with contextlib.suppress(RlenvError, Unsupported):
            return tuple(get_framework(task.ref.framework).images(task.folder, task.id, build=self._build))
        return ()
