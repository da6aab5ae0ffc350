"""Run a step's verifier: in the agent's box, or in one of its own with what it is given of the agent's."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from pytest_rlenv.errors import Stage
from pytest_rlenv.frameworks.harbor.artifact_places import overlap
from pytest_rlenv.frameworks.harbor.carrying import as_artifacts, put_found, take_workdir, too_large
from pytest_rlenv.frameworks.harbor.checks import note_checks
from pytest_rlenv.frameworks.harbor.collecting import Collection, Found
from pytest_rlenv.frameworks.harbor.definitions import BoxDefinition
from pytest_rlenv.frameworks.harbor.emptying import empty_folders, put_afresh
from pytest_rlenv.frameworks.harbor.levels import Level
from pytest_rlenv.frameworks.harbor.logs import VERIFIER, agent_log_entries, fetch_logs
from pytest_rlenv.frameworks.harbor.phases import baseline, in_phase, note_denied, phase_policy
from pytest_rlenv.frameworks.harbor.reward import REWARD_JSON, REWARD_TXT
from pytest_rlenv.frameworks.harbor.session import Session
from pytest_rlenv.frameworks.harbor.steps import Step
from pytest_rlenv.frameworks.harbor.verifier import (
    EMPTY_TESTS_DIR,
    EMPTY_VERIFIER_DIR,
    TESTS_DIR,
    VERIFIER_DIR,
    RewardFiles,
    check_bundled_tests,
    read_reward,
    reward_files,
    run_tests,
    tests_of,
)
from pytest_rlenv.frameworks.harbor.workdir import EXEC_TIMEOUT
from pytest_rlenv.rollout import StepRecord
from pytest_rlenv.sandboxes.model import Completed, Extracted
from pytest_rlenv.sandboxes.protocol import Box


class Verification:
    """One step's verifier.

    Args:
        session: the rollout's shared things.
        step: what is verified.
        record: where its rewards, checks and level are written.
        folder: the step's folder on this machine.
    """

    def __init__(self, session: Session, step: Step, record: StepRecord, folder: Path) -> None:
        self._session = session
        self._step = step
        self._record = record
        self._folder = folder
        self._clock = session.context.clock
        self._separate = step.verifier_definition
        self._kept_logs = False

    @property
    def level(self) -> Level:
        """How far the verifier is kept from what the agent left."""
        return Level.SEPARATE if self._separate else Level(self._session.context.verifier_level)

    def run(self, collection: Collection, *, last: bool) -> None:
        """Run it.

        Args:
            collection: the artifacts.
            last: True if no agent acts in the box any more.

        Raises:
            RlenvError: there is no reward. Unsupported: the level is not possible for the task.
        """
        self._record.verifier_level = self.level.value
        if self.level in (Level.SHARED, Level.QUIESCE):
            self._in_agents_box(last=last)
            return
        with tempfile.TemporaryDirectory(dir=self._session.context.folder, prefix=".carried-") as scratch:
            with self._clock.stage(Stage.COLLECT):
                found = self._carried(collection, Path(scratch))
            if last:
                self._session.destroy_agent_box()
            self._in_own_box(self._separate or self._session.agent_definition, found)

    def _in_agents_box(self, *, last: bool) -> None:
        session, box = self._session, self._session.agent_box
        own = baseline(session.agent_definition.config)
        try:
            with self._clock.stage(Stage.VERIFY):
                if self.level is Level.QUIESCE:
                    box.quiesce()
                session.tests_in_agent_box = True
                entries = [*agent_log_entries(box, self._folder), *tests_of(self._step)]
                put_afresh(box, (EMPTY_TESTS_DIR, EMPTY_VERIFIER_DIR), entries, self._record)
                network = phase_policy(self._step.verifier_phase, own)
                with in_phase(box, network, own, self._record, VERIFIER, back=not last):
                    done = self._run_tests(box, agent_was_here=True)
            self._read(box, done, stop=last)
        finally:
            self._keep_logs(box)

    def _in_own_box(self, definition: BoxDefinition, found: list[Found]) -> None:
        session, step = self._session, self._step
        image = session.image_of(definition)
        self._record.verifier_image = image.pinned
        network = phase_policy(step.verifier_phase, baseline(definition.config))
        with self._clock.stage(Stage.START):
            box = session.start(definition, network, lifetime=session.limit(step.verifier_timeout))
        try:
            with self._clock.stage(Stage.VERIFY):
                self._make_ready(box, definition, found)
                if definition.bundles_tests:
                    check_bundled_tests(box, image.name)
                else:
                    fresh = self._separate is None
                    logs = agent_log_entries(box, self._folder) if fresh else ()
                    box.put([EMPTY_VERIFIER_DIR, *logs, *tests_of(step)])
                done = self._run_tests(box, agent_was_here=False)
            self._read(box, done, stop=True)
        finally:
            note_denied(box, self._record, VERIFIER, network)
            self._keep_logs(box)
            with self._clock.stage(Stage.STOP):
                box.destroy()

    def _carried(self, collection: Collection, scratch: Path) -> list[Found]:
        """Return what of the agent's box the verifier is given."""
        if collection.over_cap:
            raise too_large("the artifacts")
        if self._separate is not None:
            return list(as_artifacts(collection.found))
        workdir = self._session.workdir
        work = take_workdir(self._session.agent_box, workdir, scratch, self._record)
        return [
            work,
            *(item for item in collection.found if not PurePosixPath(item.source).is_relative_to(workdir)),
        ]

    def _make_ready(self, box: Box, definition: BoxDefinition, found: list[Found]) -> None:
        """Put what the verifier is given into its box, where nothing of the agent's has run."""
        folders = (VERIFIER_DIR,) if definition.bundles_tests else (TESTS_DIR, VERIFIER_DIR)
        empty_folders(box, folders, self._record)
        box.put([EMPTY_VERIFIER_DIR])
        put_found(box, found)
        if any(overlap(PurePosixPath(item.source), PurePosixPath(VERIFIER_DIR)) for item in found):
            # a reward that came along with an artifact is not the verifier's
            box.run(("rm", "-rf", REWARD_JSON, REWARD_TXT), user=0, cwd="/", timeout=EXEC_TIMEOUT)

    def _run_tests(self, box: Box, *, agent_was_here: bool) -> Completed:
        return run_tests(
            box,
            self._step,
            self._record,
            folder=self._folder,
            env=self._session.env[self._step.verifier_table],
            timeout=self._session.limit(self._step.verifier_timeout),
            agent_was_here=agent_was_here,
        )

    def _read(self, box: Box, done: Completed, *, stop: bool) -> None:
        with self._clock.stage(Stage.COLLECT):
            if stop:  # no process is alive while the reward is read
                box.stop()
        fetched: list[RewardFiles | None] = []
        self._keep_logs(box, lambda logs: fetched.append(reward_files(logs)))
        known = fetched[0] if fetched else None
        with self._clock.stage(Stage.COLLECT):
            self._record.rewards = read_reward(box, self._step, self._record, done, known)

    def _keep_logs(self, box: Box, look: Callable[[Extracted], None] = lambda logs: None) -> None:
        """Bring the verifier's logs here, once."""
        if self._kept_logs:
            return
        self._kept_logs = True
        with self._clock.stage(Stage.COLLECT):
            fetch_logs(box, self._folder, self._record, VERIFIER, look=look)
            note_checks(self._folder / VERIFIER, self._record)
