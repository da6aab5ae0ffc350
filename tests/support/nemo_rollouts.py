"""One rollout of a row of NeMo Gym, as the framework runs it, without pytest."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from support.nemo_gym import row, write_rows

from pytest_rlenv.agents.protocol import Agent
from pytest_rlenv.agents.replay.agent import ReplayAgent
from pytest_rlenv.frameworks.context import RolloutContext
from pytest_rlenv.frameworks.kept import Kept
from pytest_rlenv.frameworks.nemo_gym.framework import LoadedRow, NemoGymFramework
from pytest_rlenv.rollout import Rollout, StageClock
from pytest_rlenv.settings import Settings

COUNTING = {"initial_count": 0, "expected_count": 1}


class Runner:
    """Runs one row with an agent."""

    def __init__(self, tmp_path: Path, kept: Kept) -> None:
        self.root = tmp_path / "environment"
        self.logs = tmp_path / "logs"
        self.kept = kept

    def load(self, of: dict[str, Any], **data: Any) -> LoadedRow:
        write_rows(self.root / "train.jsonl", of)
        place = {"file": "train.jsonl", "line": 1, "offset": 0, **data}
        return NemoGymFramework().load(self.root, "train/row-0", place)

    def run(self, agent: Agent, of: dict[str, Any] | None = None, **settings: Any) -> Rollout:
        task = self.load(of or row(**COUNTING))
        rollout = Rollout(environment="demo", framework="nemo-gym", task="train/row-0", agent=agent.name)
        self.logs.mkdir(exist_ok=True)
        task.run(
            RolloutContext(
                agent=agent,
                sandbox=cast(Any, None),
                rollout=rollout,
                clock=StageClock(rollout),
                folder=self.logs,
                environ={},
                settings=Settings(sources={}, **settings),
                kept=self.kept,
            )
        )
        return rollout


def replaying(source: Path) -> ReplayAgent:
    """Return an agent that replays a file or a folder."""
    agent = ReplayAgent()
    agent.variant = str(source)
    return agent
