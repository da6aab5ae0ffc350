"""A task of a taskset, and one rollout of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pytest_rlenv.agents.model_player.agent import ModelPlayer
from pytest_rlenv.agents.nop import NopAgent
from pytest_rlenv.agents.oracle import OracleAgent
from pytest_rlenv.errors import RewardInvalid, Stage, Unsupported
from pytest_rlenv.frameworks.context import RolloutContext
from pytest_rlenv.frameworks.playing import player_of
from pytest_rlenv.frameworks.protocol import NOTHING
from pytest_rlenv.frameworks.verifiers.leftovers import remove_abandoned
from pytest_rlenv.frameworks.verifiers.limits import kill_after, stage_limits
from pytest_rlenv.frameworks.verifiers.outcome import of_failure, write_rewards, write_times
from pytest_rlenv.frameworks.verifiers.process import ChildFailed, TasksetProcess, lease_interpreter
from pytest_rlenv.frameworks.verifiers.rows import Row, read_row
from pytest_rlenv.rollout import MAIN_REWARD_KEY
from pytest_rlenv.sandboxes.model import ImageSpec
from pytest_rlenv.settings import Settings

NAME = "Verifiers"
LOG = "verifiers.txt"


class VerifiersFramework:
    """Tasksets of Verifiers, version 0.4."""

    def uses_boxes(self, settings: Settings) -> bool:
        """Return False: Verifiers brings its own."""
        return False

    def where(self, settings: Settings) -> str:
        """Return what of a task runs on this machine, and what in containers of Verifiers."""
        if settings.trust_code:
            return (
                "the taskset's code, and tasks of text with their agents, run on this machine as you; "
                "other tasks in Docker containers of Verifiers"
            )
        return (
            "the taskset's code runs on this machine as you; "
            "tasks and agents in Docker containers of Verifiers"
        )

    def load(self, folder: Path, name: str, data: Mapping[str, Any] = NOTHING) -> VerifiersTask:
        """Read a task's row."""
        return VerifiersTask(read_row(dict(data)))

    def images(self, folder: Path, name: str, *, build: bool = False) -> Sequence[ImageSpec]:
        """Return none: Verifiers has them pulled itself."""
        return ()


class VerifiersTask:
    """A task of a taskset.

    Args:
        row: it, as it was listed.
    """

    reward_key: str | None = None
    reward_range: tuple[float, float] | None = None
    warnings: tuple[str, ...] = ()
    expectations: Mapping[str, str] = NOTHING

    def __init__(self, row: Row) -> None:
        self._row = row

    @property
    def digest(self) -> str:
        """A digest over the row, the taskset's configuration and its code."""
        return self._row.digest

    def run(self, context: RolloutContext) -> None:
        """Run one rollout: the gold check, the untouched score, or an agent's play."""
        agent = context.agent
        if isinstance(agent, (OracleAgent, NopAgent)):
            what = "noop" if isinstance(agent, NopAgent) else "gold"
            with self.interpreter(context) as process:
                self._check(what, context, process)
        elif isinstance(agent, ModelPlayer):
            from pytest_rlenv.frameworks.verifiers.model_run import run_model

            with self.interpreter(context) as process:
                run_model(self, context, process)
        else:
            from pytest_rlenv.frameworks.verifiers.answering import play_answer

            play_answer(self, player_of(agent, NAME), context)

    @property
    def row(self) -> Row:
        """It, as it was listed."""
        return self._row

    @contextmanager
    def interpreter(self, context: RolloutContext) -> Iterator[TasksetProcess]:
        """Have an interpreter for oneself; it is kept up for the rollouts that follow.

        Raises:
            SpecError: there is none with Verifiers. RlenvError: it broke, or the task did.
        """
        settings = context.settings
        with lease_interpreter(context.kept, settings, self._row.listed.paths, stage=Stage.START) as process:
            if self._row.container or not settings.trust_code:
                if not process.expects_containers:
                    remove_abandoned()
                process.expect_containers()
            if data := self._row.listed.data:
                context.rollout.note("taskset-data", f"the taskset loaded data of {data}")
            try:
                yield process
            except ChildFailed as failure:
                raise of_failure(failure) from None
            finally:
                process.leave_log(context.folder / LOG)

    def request(self, context: RolloutContext) -> dict[str, Any]:
        """Return what every question about this task says."""
        listed = self._row.listed
        return {
            "taskset": listed.taskset,
            "options": listed.options,
            "index": self._row.index,
            "row": self._row.row,
            "whole": self._row.whole,
            "trusted": context.settings.trust_code,
            "agent": context.agent.name,
            "folder": str(context.folder),
            "limits": stage_limits(self._row.row, context.timeout_multiplier),
        }

    def score(
        self, what: str, extra: Mapping[str, Any], context: RolloutContext, process: TasksetProcess
    ) -> None:
        """Have the task scored, and write its rewards into the record.

        Args:
            what: the operation that scores it.
            extra: arguments of that.
            context: the rollout's surroundings.
            process: the interpreter.
        """
        answer = self._asked(what, extra, context, process)
        write_rewards(answer["traces"][0], context.rollout)

    def describe(self, runtime: str, context: RolloutContext, process: TasksetProcess) -> None:
        """Say in the record what ran it."""
        context.rollout.runner = f"{runtime} runtime ({process.words})"

    def _check(self, what: str, context: RolloutContext, process: TasksetProcess) -> None:
        template = context.settings.verifiers_gold
        if what == "noop":
            self.score("noop", {}, context, process)
        elif template is not None:
            self.score("answer", {"text": self._filled(template)}, context, process)
        else:
            answer = self._asked("gold", {}, context, process)
            context.rollout.rewards = {MAIN_REWARD_KEY: _gold_reward(answer)}

    def _asked(
        self, what: str, extra: Mapping[str, Any], context: RolloutContext, process: TasksetProcess
    ) -> dict[str, Any]:
        request = {**self.request(context), **extra}
        del request["limits"]["agent"]
        answer = process.ask(what, request, limit=kill_after(request["limits"]), stage=Stage.VERIFY)
        write_times(answer["traces"][0], context.rollout)
        self.describe(answer["runtime"], context, process)
        return answer

    def _filled(self, template: str) -> str:
        try:
            return template.format_map(self._row.row)
        except (KeyError, IndexError, ValueError, AttributeError) as error:
            raise Unsupported(
                f"no reference answer: {error} of --rlenv-verifiers-gold is not in the row "
                f"({', '.join(self._row.row)})"
            ) from None


def _gold_reward(answer: Mapping[str, Any]) -> float:
    """Return what a task's gold check means: true is 1 and false is 0; one that has none has no solution."""
    valid = answer["valid"]
    if valid is None:
        raise Unsupported(
            f"no reference solution: {answer['task']} has no gold check (validate); "
            "--rlenv-verifiers-gold judges an answer from the row"
        )
    if not isinstance(valid, bool):
        raise RewardInvalid(f"the gold check of {answer['task']} gave {valid!r}, and neither true nor false")
    return float(valid)
