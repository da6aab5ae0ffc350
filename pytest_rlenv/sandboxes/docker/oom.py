"""Which boxes ran out of memory, from the engine's events: an exit code alone does not tell.

The engine keeps only its last 256 events, so asking afterwards would miss some on a busy machine; and
older engines do not note it in the container's state. Hence one listener per process.
"""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from typing import TYPE_CHECKING

from pytest_rlenv.errors import EngineUnavailable
from pytest_rlenv.sandboxes.docker import labels
from pytest_rlenv.sandboxes.docker.client import Engine, shutdown, socket_of
from pytest_rlenv.sandboxes.docker.failures import EngineRefused, connection_errors

if TYPE_CHECKING:
    from pytest_rlenv.sandboxes.docker.client import Answer


class OomWatch:
    """Counts the times that boxes of a session ran out of memory, from the moment it is started."""

    def __init__(self, engine: Engine, session: str) -> None:
        self._engine = engine
        self._session = session
        self._counts: Counter[str] = Counter()
        self._changed = threading.Condition()
        self._response: Answer | None = None
        self._connection: socket.socket | None = None
        self._starting = threading.Lock()

    def start(self) -> None:
        """Listen, if nobody does yet; a watch that cannot be started counts as unknown."""
        with self._starting:
            if self._response is not None:
                return
            events = {"type": ["container"], "event": ["oom"], "label": [f"{labels.SESSION}={self._session}"]}
            try:
                self._response = self._engine.request(
                    "GET",
                    "/events",
                    params={"filters": json.dumps(events)},
                    stream=True,
                    timeout=None,
                    doing="listen to the engine's events",
                )
            except (EngineRefused, EngineUnavailable):
                return
            self._connection = socket_of(self._response)
            arguments = (self._response,)
            threading.Thread(target=self._listen, args=arguments, daemon=True, name="rlenv-oom").start()

    def count(self, container: str) -> int | None:
        """Return how often a box ran out of memory since it was started, ``None`` if that is not known."""
        with self._changed:
            return self._counts[container] if self._response is not None else None

    def happened(self, container: str, before: int | None, *, wait: float) -> bool | None:
        """Return whether the count has grown; an event may trail the end of the command, so wait a little."""
        if before is None:
            return None
        with self._changed:
            self._changed.wait_for(lambda: self._counts[container] > before, wait)
            if self._counts[container] > before:
                return True
            return False if self._response is not None else None

    def close(self) -> None:
        """Stop listening."""
        with self._changed:
            self._response = None
        if self._connection is not None:
            shutdown(self._connection)

    def _listen(self, response: Answer) -> None:
        try:
            with connection_errors(self._engine.endpoint, "listen to the engine's events"):
                for line in response.iter_lines():
                    self._take(line)
        except EngineUnavailable:
            pass  # the next operation on a box reports a dead engine; here it only means "not known"
        finally:
            with self._changed:
                if self._response is response:
                    self._response = None
                self._changed.notify_all()
            response.close()

    def _take(self, line: bytes) -> None:
        try:
            container = str(json.loads(line)["Actor"]["ID"])
        except (ValueError, KeyError, TypeError):
            return
        with self._changed:
            self._counts[container] += 1
            self._changed.notify_all()
