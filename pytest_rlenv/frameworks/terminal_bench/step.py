"""The one step of a Terminal-Bench 1 task: what its agent, its oracle and its tests are given."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_rlenv.frameworks.harbor.files import read_folder
from pytest_rlenv.frameworks.harbor.inside import read_inside
from pytest_rlenv.frameworks.harbor.steps import Step, steps_of
from pytest_rlenv.frameworks.terminal_bench.compose_file import TEST_DIR
from pytest_rlenv.frameworks.terminal_bench.scoring import score
from pytest_rlenv.frameworks.terminal_bench.task import (
    CONFIG_FILE,
    MAX_SCRIPT_BYTES,
    RUN_TESTS,
    TerminalBenchTask,
)
from pytest_rlenv.rollout import StepRecord
from pytest_rlenv.sandboxes.model import Completed, Entry


@dataclass(frozen=True)
class OnlyStep(Step):
    """The step."""

    task: TerminalBenchTask

    @property
    def test_command(self) -> list[str]:
        """What runs the tests."""
        return ["bash", f"{TEST_DIR}/{RUN_TESTS}"]

    @property
    def verifier_limit(self) -> str:
        """The field that sets the time limit of the tests."""
        return f"max_test_timeout_sec in {CONFIG_FILE}"

    def tests_entries(self) -> list[Entry]:
        """Return the script and what is in ``tests/``, side by side; a file of ``tests/`` wins."""
        root = self.task.root
        script = Entry(RUN_TESTS, read_inside(root, RUN_TESTS, cap=MAX_SCRIPT_BYTES), 0o755)
        return [script, *read_folder(root, root / "tests").entries()]

    def solution_entries(self) -> list[Entry] | None:
        """Return what the oracle runs; ``None`` if there is nothing to run."""
        return list(self.task.solution.entries) or None

    @property
    def missing_solution(self) -> str | None:
        """Why there is no reference solution to run; ``None`` if there is one."""
        return self.task.solution.missing or None

    @property
    def trajectory(self) -> Path | None:
        """Return nothing: there are no earlier trajectories in this layout."""
        return None

    def rewards_in_output(self, completed: Completed, record: StepRecord) -> dict[str, float]:
        """Return the reward that the tests' output tells, and write the tests into the record.

        Raises:
            RewardMissing: it tells none.
        """
        return score(completed, record)


@steps_of.register
def _(task: TerminalBenchTask) -> list[Step]:
    return [OnlyStep(task)]
