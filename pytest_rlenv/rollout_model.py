"""The model of one rollout: its server is made before the rollout, and closed with it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_rlenv.agents.protocol import Agent
from pytest_rlenv.rollout import Rollout
from pytest_rlenv.settings import Settings
from pytest_rlenv.usage import total_usage

if TYPE_CHECKING:
    from pytest_rlenv.model_proxy.proxy import ModelProxy

MODEL_CALLS = "model-calls.jsonl"
"""The file in a rollout's folder with a line for each call of the agent's model."""


def open_model(
    agent: Agent, settings: Settings, name: tuple[str, str, str, int], folder: Path
) -> ModelProxy | None:
    """Return the server of an agent's model, if it needs one.

    Args:
        agent: who is to call it.
        settings: which model, and within which limits.
        name: the rollout's environment, task, agent and attempt, by which a recording is found.
        folder: the rollout's.

    Raises:
        SpecError: there is no model, or no key for it.
        RecordingUnusable: there is no recording of this rollout to replay.
    """
    if not agent.needs_model:
        return None
    from pytest_rlenv.model_proxy.access import ModelAccess, RolloutName

    access = ModelAccess.of(settings, os.environ)
    return access.proxy(RolloutName(*name), folder / MODEL_CALLS)


def close_model(model: ModelProxy, rollout: Rollout) -> None:
    """Close it, count the calls that ended after their agent, and note what is to be said of a recording."""
    model.close()
    late = model.take_turn()
    if late.all:
        rollout.usage = total_usage([rollout.usage, late.usage.as_record()])
    if rollout.error is None and rollout.skip_reason is None and (left := model.left_unasked()):
        rollout.note("replay-left", left)
    if model.recording_problem:
        rollout.note("recording", f"not all calls of the model could be kept: {model.recording_problem}")
