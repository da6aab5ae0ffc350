"""Begins episodes on a server for one rollout: a session, the reset, and the proof of the right task."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pytest_rlenv.agents.ending import AgentTimedOut
from pytest_rlenv.errors import RlenvError, SandboxFailed, Stage, StageTimeout, TaskInvalid
from pytest_rlenv.frameworks.context import RolloutContext
from pytest_rlenv.frameworks.openenv.frame_log import FrameLog
from pytest_rlenv.frameworks.openenv.frames import CAPACITY_REACHED, ErrorFrame, Frame, brief
from pytest_rlenv.frameworks.openenv.playground import (
    LONGEST_EPISODE_ID,
    Playground,
    check_selection,
    failed,
)
from pytest_rlenv.frameworks.openenv.server import Server
from pytest_rlenv.frameworks.openenv.session import CLOSED, Refused, Session, no_session
from pytest_rlenv.frameworks.openenv.task import OpenEnvTask
from pytest_rlenv.verdict import number

CAPACITY_SEC = 60.0
"""Seconds to wait for a session that somebody else has."""
CLOSED_SEC = 3.0
"""Seconds for a server that closes the connection instead of saying that it has no session."""

_PAUSE = 0.2


class Host:
    """What one rollout has: a server for itself, and its time.

    Args:
        task: the task.
        context: the rollout's.
        server: leased for it.
        log: gets all frames.
    """

    def __init__(self, task: OpenEnvTask, context: RolloutContext, server: Server, log: FrameLog) -> None:
        self.task = task
        self.context = context
        self.server = server
        self._log = log
        self._patience = context.timeout_multiplier
        self.seconds = task.manifest.timeout_sec * self._patience
        self.until = time.monotonic() + self.seconds
        self.step_sec = context.settings.openenv_step_timeout * self._patience

    @contextmanager
    def episode(self, arguments: Mapping[str, Any], *, name: str | None = None) -> Iterator[Playground]:
        """Begin an episode of the task, with its end at the end of the block.

        Args:
            arguments: of the reset, beside ``seed`` and ``episode_id``.
            name: the episode's; the task's by default.

        Raises:
            SelectionIgnored: it is one of another task.
            TaskInvalid: the environment does not take the arguments.
            EnvironmentFailed, SandboxFailed, StageTimeout: there is none, or more was answered than asked.
        """
        asked = {"seed": 0, "episode_id": (name or self.task.name)[:LONGEST_EPISODE_ID], **arguments}
        with self.in_time():
            with self.context.clock.stage(Stage.AGENT_SETUP):
                session, begin = self._session(asked)
                try:
                    self._check(session, begin, asked)
                except BaseException:
                    session.close()
                    raise
            try:
                yield Playground(session, self.server, begin, self.context.settings.openenv_reward)
                session.check_in_step()
            finally:
                session.close()

    @contextmanager
    def in_time(self) -> Iterator[None]:
        """Make of the time's end an error: only an agent may run out of time and be judged all the same."""
        try:
            yield
        except AgentTimedOut:
            raise StageTimeout(
                f"the episode did not end within {number(self.seconds)} s",
                hint="validation.resources.episode_timeout_s in openenv.yaml is its limit",
                detail=self.server.tail(),
                stage=Stage.AGENT,
            ) from None

    def _session(self, asked: Mapping[str, Any]) -> tuple[Session, Frame]:
        """Return a session whose reset was answered, however long others keep theirs."""
        begin = time.monotonic()
        give_up = begin + CAPACITY_SEC * self._patience
        while True:
            session = Session(self.server, self._log, step_sec=self.step_sec, until=self.until)
            try:
                return session, session.reset(asked)
            except Refused as refused:
                session.close()
                if refused.code not in (CAPACITY_REACHED, CLOSED):
                    raise self._broken(refused) from None
                if refused.code == CLOSED:
                    give_up = min(give_up, begin + CLOSED_SEC)
                if time.monotonic() >= min(give_up, self.until):
                    self.server.spoil()
                    raise no_session(refused, give_up - begin, self.server) from None
                time.sleep(_PAUSE)
            except ErrorFrame as error:
                session.close()
                raise self._not_taken(error, asked) from None
            except BaseException:
                session.close()
                raise

    def _broken(self, refused: Refused) -> SandboxFailed:
        self.server.spoil()
        return SandboxFailed(
            f"the server makes no environment ({refused.code}: {refused.message})", detail=self.server.tail()
        )

    def _not_taken(self, error: ErrorFrame, asked: Mapping[str, Any]) -> RlenvError:
        if error.of_the_request:
            return TaskInvalid(
                f"the environment does not take these arguments of reset: {error.problems or error.message}",
                hint=brief(f"they are {dict(asked)!r}"),
                stage=Stage.AGENT_SETUP,
            )
        return failed(error, "reset", self.server)

    def _check(self, session: Session, begin: Frame, asked: Mapping[str, Any]) -> None:
        """Compare what was asked for with what the environment says of itself."""
        try:
            state = session.state()
        except ErrorFrame as error:
            raise failed(error, "state", self.server) from None
        said, wrong = check_selection(asked, state, begin.observation)
        if wrong:
            self.note("episode-id-ignored", wrong)
        if not said and any(key not in ("seed", "episode_id") for key in asked):
            self.note(
                "selection-unverified",
                "neither state nor observation says which task is played, so it is not known to be this one",
            )

    def note(self, code: str, text: str) -> None:
        """Note something once, in however many episodes it shows."""
        rollout = self.context.rollout
        if all(note.code != code for note in rollout.notes):
            rollout.note(code, text)
