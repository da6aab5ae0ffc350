"""Rollouts of OpenEnv's tasks without pytest around them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pytest_rlenv.agents.check import CheckAgent
from pytest_rlenv.agents.oracle import OracleAgent
from pytest_rlenv.agents.protocol import Agent
from pytest_rlenv.errors import RlenvError, Unsupported
from pytest_rlenv.frameworks.context import RolloutContext
from pytest_rlenv.frameworks.openenv.framework import OpenEnvFramework
from pytest_rlenv.options import Value
from pytest_rlenv.rollout import Rollout, StageClock
from pytest_rlenv.settings import load_settings


@dataclass
class Done:
    rollout: Rollout
    folder: Path
    error: RlenvError | None = None
    skipped: str = ""

    @property
    def codes(self) -> list[str]:
        return [note.code for note in self.rollout.notes]

    @property
    def told(self) -> str:
        """The reward, or the error's type, or ``skipped``."""
        if self.error is not None:
            return type(self.error).__name__
        return "skipped" if self.skipped else str((self.rollout.rewards or {}).get("reward"))


def run(
    folder: Path,
    url: str,
    tmp: Path,
    agent: Agent | None = None,
    *,
    name: str = "t",
    data: Mapping[str, Any] | None = None,
    **options: Any,
) -> Done:
    agent = agent or OracleAgent()
    rollout = Rollout(environment="e", framework="openenv", task=name, agent=agent.name)
    logs = tmp / f"rollout-{len(list(tmp.iterdir()))}"
    logs.mkdir()
    given = {"openenv_url": url, **options}
    settings = load_settings({key: Value(value, f"--rlenv-{key}") for key, value in given.items()})
    done = Done(rollout, logs)
    try:
        task = OpenEnvFramework().load(folder, name, {"manifest": "openenv.yaml", **(data or {})})
        task.run(
            RolloutContext(
                agent=agent,
                sandbox=cast("Any", None),
                rollout=rollout,
                clock=StageClock(rollout),
                folder=logs,
                environ={},
                settings=settings,
            )
        )
    except Unsupported as lack:
        done.skipped = lack.reason
    except RlenvError as error:
        done.error = error
    return done


def checking(name: str) -> CheckAgent:
    agent = CheckAgent()
    agent.variant = name
    return agent


def earn(reward: Any, done: bool = False) -> dict[str, Any]:
    return {"do": "earn", "reward": reward, "done": done}


def raw(reward: str) -> dict[str, Any]:
    text = f'{{"type": "observation", "data": {{"observation": {{}}, "reward": {reward}, "done": true}}}}'
    return {"do": "raw", "text": text}
