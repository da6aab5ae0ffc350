"""A resources server that answers: what it can be asked, and somebody else's at an address."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pytest_rlenv.errors import SandboxFailed, Stage
from pytest_rlenv.frameworks.nemo_gym.wire import Wire


@dataclass(frozen=True)
class Routes:
    """What a server can be asked, as it says itself.

    Attributes:
        paths: its POST routes; empty where it does not say.
    """

    paths: frozenset[str] = field(default_factory=frozenset)

    @property
    def gymnasium(self) -> bool:
        """True for ``/reset`` and ``/step`` in place of ``/verify``."""
        return {"/reset", "/step"} <= self.paths and "/verify" not in self.paths

    def has(self, path: str) -> bool:
        """Return whether a path can be posted to; True where that is not known, or it takes any."""
        catches_all = any(route.startswith("/{") for route in self.paths)
        return not self.paths or path in self.paths or catches_all

    def tells_of(self, path: str) -> bool:
        """Return whether the server says that it has this very path."""
        return path in self.paths


@dataclass(eq=False)
class Visit:
    """One rollout's time on a server.

    Attributes:
        accompanied: True once another rollout was there at the same time.
    """

    accompanied: bool = False


class Server(ABC):
    """A server that answers. Rollouts share it, each with its own session."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.routes = Routes()
        self._visits: list[Visit] = []
        self._counting = threading.Lock()

    @contextmanager
    def visit(self) -> Iterator[Visit]:
        """Be there, so that others know."""
        with self._counting:
            own = Visit(accompanied=bool(self._visits))
            for other in self._visits:
                other.accompanied = True
            self._visits.append(own)
        try:
            yield own
        finally:
            with self._counting:
                self._visits.remove(own)

    @property
    @abstractmethod
    def alive(self) -> bool:
        """False once nothing more can be had of it."""

    @property
    def ended_for_hanging(self) -> bool:
        """True if it was ended because somebody waited in vain: others may ask a new one."""
        return False

    @property
    def died(self) -> bool:
        """True if it ended by itself: whose call did that is not known where several were there."""
        return False

    @abstractmethod
    def close(self) -> None:
        """End it, if it is ours."""

    @abstractmethod
    def lost(self, what: str, stage: Stage) -> SandboxFailed:
        """Return the error for a connection that broke during ``what``."""

    @abstractmethod
    def hung(self, what: str) -> None:
        """Take note that it did not answer in time."""

    def wire(self) -> Wire:
        """Return a client for one rollout."""
        return Wire(self.url, lost=self.lost, hung=self.hung)

    def log_from(self, begin: int) -> bytes:
        """Return its log from a position on, the end of it where that is much."""
        return b""

    @property
    def log_size(self) -> int:
        """The position at the end of its log."""
        return 0

    def learn_routes(self, limit: float) -> None:
        """Ask it what it can be asked; a server that does not say is taken for one with ``/verify``."""
        wire = self.wire()
        try:
            answer = wire.get("/openapi.json", limit=limit, stage=Stage.START)
            paths = answer.json().get("paths") if answer.status == 200 else None
        except (ValueError, AttributeError):
            paths = None
        finally:
            wire.close()
        if isinstance(paths, dict):
            posts = (
                path for path, methods in paths.items() if isinstance(methods, dict) and "post" in methods
            )
            self.routes = Routes(frozenset(posts))


class RunningServer(Server):
    """Somebody else's server, at an address."""

    def __init__(self, url: str, limit: float) -> None:
        super().__init__(url.rstrip("/"))
        wire = self.wire()
        try:
            wire.get("/", limit=limit, stage=Stage.START)
        finally:
            wire.close()
        self.learn_routes(limit)

    @property
    def alive(self) -> bool:
        """Always: it is asked again."""
        return True

    def close(self) -> None:
        """Do nothing."""

    def hung(self, what: str) -> None:
        """Do nothing: whoever runs it must see to it."""

    def lost(self, what: str, stage: Stage) -> SandboxFailed:
        """Return the error for a connection that broke."""
        return SandboxFailed(
            f"the server at {self.url} cannot be reached, or broke the connection ({what})",
            hint="is it up? see --rlenv-nemo-url",
            stage=stage,
        )
