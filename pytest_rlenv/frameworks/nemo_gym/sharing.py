"""Who shares a server: all rollouts of a process, each with a session of its own, or one alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from pytest_rlenv.errors import RlenvError, Stage
from pytest_rlenv.frameworks.context import RolloutContext
from pytest_rlenv.frameworks.kept import Kept
from pytest_rlenv.frameworks.nemo_gym.server import Server

STARTS = 3
"""So often in a row a server may fail to start; then it is not tried again for every further row."""
_failures: WeakKeyDictionary[Kept, dict[Hashable, list[RlenvError]]] = WeakKeyDictionary()
_lock = threading.Lock()


@dataclass(frozen=True)
class Sharing:
    """How a rollout comes by its server.

    Args:
        context: of the rollout.
        key: whoever gives the same one shares a server.
        make: makes one.
        limit: seconds that this may take.
        counted: True to give up on one that fails to start again and again.
    """

    context: RolloutContext
    key: Hashable
    make: Callable[[], Server]
    limit: float
    counted: bool = False

    def with_others(self) -> Server:
        """Return the server that the rollouts of this process share, as NeMo Gym's own share one.

        It is leased only until it is up: sessions are told apart by their cookies.

        Raises:
            RlenvError: it does not start.
        """
        deadline = time.monotonic() + 2 * self.limit
        with (
            self.context.clock.stage(Stage.START),
            self.context.kept.lease(self.key, self._made, deadline=deadline) as server,
        ):
            return server

    @contextmanager
    def alone(self) -> Iterator[Server]:
        """Have a server that nobody else uses; of several that want one, each waits for its turn.

        Raises:
            RlenvError: it does not start.
        """
        with ExitStack() as stack:
            with self.context.clock.stage(Stage.START):
                lease = self.context.kept.lease((self.key, "alone"), self._made)
                server = stack.enter_context(lease)
            stack.callback(server.close)
            yield server

    def _made(self) -> Server:
        failed = self._failed()
        if self.counted and len(failed) >= STARTS:
            last = failed[-1]
            raise type(last)(
                f"{last.message}, {STARTS} times in a row: it is not tried again",
                hint=last.hint,
                detail=last.detail,
                stage=Stage.START,
            )
        try:
            server = self.make()
        except RlenvError as error:
            failed.append(error)
            raise
        failed.clear()
        return server

    def _failed(self) -> list[RlenvError]:
        with _lock:
            return _failures.setdefault(self.context.kept, {}).setdefault(self.key, [])
