"""The steps of a task, each with all that it takes over from the task; a task without steps is one step.

What Harbor 0.26 has a step inherit: users, the agent's time limit, the verifier's variables, mode and
environment, collect hooks, artifacts, tests (the step's lie over the task's) and the solution. Not the
verifier's time limit: it is 600 seconds for a step that sets none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import singledispatch
from pathlib import Path

from pytest_rlenv.frameworks.harbor import layout
from pytest_rlenv.frameworks.harbor.artifacts import Artifact, CollectHook
from pytest_rlenv.frameworks.harbor.config import PhaseConfig, StepConfig
from pytest_rlenv.frameworks.harbor.definitions import BoxDefinition, step_table, verifier_definition
from pytest_rlenv.frameworks.harbor.environment_config import HealthcheckConfig
from pytest_rlenv.frameworks.harbor.files import read_folder
from pytest_rlenv.frameworks.harbor.inside import holding, relative_name
from pytest_rlenv.frameworks.harbor.instruction import read_instruction
from pytest_rlenv.frameworks.harbor.task import TRAJECTORY_FILE, HarborTask
from pytest_rlenv.rollout import StepRecord
from pytest_rlenv.sandboxes.model import Completed, Entry

SETUP_SCRIPT = "setup.sh"


@dataclass(frozen=True)
class Step:
    """One step of a task.

    Attributes:
        task: the task.
        config: its entry in ``[[steps]]``; ``None`` for the only step of a task that has none.
        number: its place, from 0.
    """

    task: HarborTask
    config: StepConfig | None = None
    number: int = 0

    @property
    def name(self) -> str:
        """Its name; empty for the only step of a task that has none."""
        return self.config.name if self.config else ""

    @property
    def folder(self) -> Path:
        """Where its files are: instruction, tests, solution."""
        return self.task.root / "steps" / self.name if self.config else self.task.root

    @property
    def instruction(self) -> str:
        """The text for the agent.

        Raises:
            TaskInvalid: the file has changed since the task was loaded and cannot be used any more.
        """
        if self.config is None:
            return self.task.instruction
        return read_instruction(self.task.root, f"steps/{self.name}/instruction.md")[0]

    @property
    def agent_user(self) -> str | int | None:
        """Who the agent is in the box; ``None`` is the image's user."""
        own = self.config.agent.user if self.config else None
        return own if own is not None else self.task.config.agent.user

    @property
    def agent_timeout(self) -> float | None:
        """Seconds for the agent; ``None`` is no limit."""
        own = self.config.agent.timeout_sec if self.config else None
        return own if own is not None else self.task.config.agent.timeout_sec

    @property
    def verifier_user(self) -> str | int | None:
        """Who runs the tests; ``None`` is the image's user."""
        own = self.config.verifier.user if self.config else None
        return own if own is not None else self.task.config.verifier.user

    @property
    def verifier_timeout(self) -> float | None:
        """Seconds for the verifier; ``None`` is no limit."""
        return (self.config or self.task.config).verifier.timeout_sec

    @property
    def verifier_table(self) -> str:
        """The table of ``task.toml`` that speaks of its verifier, such as ``steps.build.verifier``."""
        return step_table(self.config, "verifier")

    @property
    def verifier_limit(self) -> str:
        """The field that sets its time limit, with its file, for messages."""
        return f"[{self.verifier_table}] timeout_sec in task.toml"

    @property
    def test_command(self) -> list[str]:
        """What runs the tests, once they are in their folder."""
        return ["bash", "-c", "/tests/test.sh"]

    def rewards_in_output(self, completed: Completed, record: StepRecord) -> dict[str, float] | None:
        """Return the rewards that the tests' output tells; ``None`` where a file has them, as in Harbor.

        Args:
            completed: how the tests ended.
            record: may get the single checks.

        Raises:
            RewardMissing, RewardInvalid: the output has to tell them, and does not.
        """
        return None

    @property
    def verifier_env(self) -> Mapping[str, str]:
        """The verifier's variables, templates not filled; the step's win."""
        return {**self.task.config.verifier.env, **(self.config.verifier.env if self.config else {})}

    @property
    def agent_phase(self) -> tuple[PhaseConfig, ...]:
        """The tables that speak of the agent, the strongest first."""
        own = (self.config.agent,) if self.config else ()
        return (*own, self.task.config.agent)

    @property
    def verifier_phase(self) -> tuple[PhaseConfig, ...]:
        """The tables that speak of the verifier, the strongest first."""
        own = (self.config.verifier,) if self.config else ()
        return (*own, self.task.config.verifier)

    @property
    def verifier_definition(self) -> BoxDefinition | None:
        """What the box of a separate verifier is made from; ``None`` if the verifier is a shared one."""
        return verifier_definition(self.task.root, self.task.config, self.config)

    @property
    def healthcheck(self) -> HealthcheckConfig | None:
        """The step's own health check."""
        return self.config.healthcheck if self.config else None

    @property
    def min_reward(self) -> Mapping[str, float]:
        """The rewards, by key, below which no further step is run."""
        found = self.config.min_reward if self.config else None
        return found if isinstance(found, dict) else {} if found is None else {"reward": found}

    @property
    def artifacts(self) -> list[Artifact]:
        """The declared artifacts."""
        return [*self.task.config.artifacts, *(self.config.artifacts if self.config else ())]

    @property
    def collect_hooks(self) -> list[CollectHook]:
        """The commands between agent and verifier."""
        own = self.config.verifier.collect if self.config else ()
        return [*self.task.config.verifier.collect, *own]

    @property
    def setup_script(self) -> bool:
        """True if ``workdir/setup.sh`` is to be run before the agent acts."""
        return self.config is not None and (self.folder / "workdir" / SETUP_SCRIPT).is_file()

    @property
    def trajectory(self) -> Path | None:
        """The earlier trajectory that the task gives its agent, for the first step only."""
        path = self.folder / TRAJECTORY_FILE
        return path if self.number == 0 and path.is_file() else None

    def workdir_entries(self) -> list[Entry]:
        """Return what goes to the working directory before the agent acts, relative to it.

        Raises:
            TaskInvalid: the files have changed since the task was loaded and cannot be used any more.
        """
        return read_folder(self.task.root, self.folder / "workdir").entries() if self.config else []

    def tests_entries(self) -> list[Entry]:
        """Return what goes to ``/tests``, with paths relative to it; a later entry replaces an earlier one.

        Raises:
            TaskInvalid: as for :meth:`workdir_entries`.
        """
        entries = read_folder(self.task.root, self.task.root / "tests").entries()
        if self.config is not None:
            entries += read_folder(self.task.root, self.folder / "tests").entries()
        return entries

    @property
    def _solution(self) -> Path:
        own = self.folder / "solution"
        return own if own.is_dir() else self.task.root / "solution"

    def solution_entries(self) -> list[Entry] | None:
        """Return what goes to ``/solution``, with paths relative to it; ``None`` without a ``solve.sh``.

        Raises:
            TaskInvalid: as for :meth:`workdir_entries`.
        """
        if self.missing_solution is not None:
            return None
        return read_folder(self.task.root, self._solution).entries()

    @property
    def missing_solution(self) -> str | None:
        """Why there is no reference solution to run, in one line; ``None`` if there is one."""
        folder = self._solution
        script = folder / layout.script_name("solve", self.task.config.environment.os)
        if script.is_file():
            return None
        root = self.task.root
        of_step = f" for step {self.name}" if self.config else ""
        return (
            f"no reference solution{of_step}: {relative_name(root, script)} not found "
            f"({holding(root, folder)})"
        )


@singledispatch
def steps_of(task: HarborTask) -> list[Step]:
    """Return the steps of a task in their order; another kind of task registers its own."""
    if not task.config.steps:
        return [Step(task)]
    return [Step(task, step, number) for number, step in enumerate(task.config.steps)]
