"""A rollout that is begun before its test's turn."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pytest_rlenv.agents.protocol import Agent
    from pytest_rlenv.execution import Judged, Planned
    from pytest_rlenv.run import Run

T = TypeVar("T")


class Ahead:
    """What the fixtures of one item will give: the agent as soon as there is one, the rollout once it ended.

    Args:
        run: the run.
        planned: what the item is to run.
        ended: called when the rollout has ended, in whatever way.
    """

    def __init__(self, run: Run, planned: Planned, ended: Callable[[], object]) -> None:
        self._run = run
        self._planned = planned
        self._agent: Future[Agent] = Future()
        self._judged: Future[Judged] = Future()
        self._judged.add_done_callback(lambda _: ended())

    def __call__(self) -> None:
        """Run it; what it raises is raised where its result is asked for."""
        if self._run.stopped():
            self.call_off()
        elif self._judged.set_running_or_notify_cancel():
            _fulfil(self._agent, lambda: self._run.make_agent(self._planned.agent))
            _fulfil(self._judged, self._execute)

    def agent(self) -> Agent | None:
        """Wait for the rollout's beginning and return its agent; ``None`` if it was called off.

        Raises:
            SpecError: the agent cannot be made.
        """
        return _result(self._agent)

    def judged(self) -> Judged | None:
        """Wait for the rollout's end and return it; ``None`` if it was called off. Raises what it raised."""
        return _result(self._judged)

    def call_off(self) -> None:
        """Have it never begin, if it has not."""
        if self._judged.cancel():
            self._agent.cancel()

    @property
    def outcome(self) -> Judged | None:
        """The rollout if it has ended and nothing was raised; ``None`` otherwise."""
        ended = self._judged.done() and not self._judged.cancelled() and self._judged.exception() is None
        return self._judged.result() if ended else None

    def _execute(self) -> Judged:
        from pytest_rlenv.rollout_run import Actors, run_rollout

        actors = Actors(
            self._agent.result(),
            fresh_agent=lambda: self._run.make_agent(self._planned.agent),
            sandbox=self._run.sandbox,
        )
        return run_rollout(self._run, self._planned, actors)


def _fulfil(future: Future[T], call: Callable[[], T]) -> None:
    try:
        result = call()
    except BaseException as error:  # an agent may raise KeyboardInterrupt, which is for the main thread
        future.set_exception(error)
    else:
        future.set_result(result)


def _result(future: Future[T]) -> T | None:
    try:
        return future.result()
    except CancelledError:
        return None
