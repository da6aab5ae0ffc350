"""A rollout without a box: an agent plays an episode that a framework made, and ends as any agent ends.

:func:`player_of` says whether an agent can, :func:`play` has it done.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_rlenv.agents.episode import Episode, EpisodeContext, Player
from pytest_rlenv.agents.model_endpoint import ModelEndpoint
from pytest_rlenv.agents.protocol import Agent
from pytest_rlenv.errors import Stage, Unsupported
from pytest_rlenv.frameworks.agent_endings import act
from pytest_rlenv.frameworks.context import RolloutContext
from pytest_rlenv.frameworks.model_phase import answering
from pytest_rlenv.frameworks.watched_episode import WatchedEpisode, Words
from pytest_rlenv.text import text_of

LOGS = "agent"
"""The folder of the agent's own logs in a rollout's."""
SHOWN_CHARS = 256 * 1024
"""Characters of what the agent is told that are left with a rollout."""


def player_of(agent: Agent, framework: str) -> Player:
    """Return an agent as one that plays episodes.

    Args:
        agent: who is to act. Oracle and nop mean something of its own in each framework: they are dealt with
            before.
        framework: the framework's name as people write it.

    Raises:
        Unsupported: it needs a box.
    """
    if isinstance(agent, Player):
        return agent
    raise Unsupported(
        f"agent {agent.name} works in a box; {framework} tasks have none: "
        "use oracle, nop, model, or your own Player"
    )


def play(
    agent: Agent,
    episode: Episode,
    context: RolloutContext,
    *,
    instruction: str = "",
    deadline: float | None = None,
    parameters: Mapping[str, Any] | None = None,
    framework: str = "such",
) -> None:
    """Have an agent play an episode, and write how it ended into the rollout's record.

    When this returns the agent is at its end: nothing that it left behind can touch the episode any more.

    Args:
        agent: who acts.
        episode: what it plays. It is called by one thread at a time.
        context: the rollout's surroundings; its clock gets the stage.
        instruction: the task in words, where there are any beside the episode's messages.
        deadline: on the monotonic clock, when the agent's time is up; ``None`` is no limit.
        parameters: sampling parameters that the task asks for.
        framework: as people write it, for the message that the agent cannot.

    Raises:
        Unsupported: the agent cannot play this.
        AgentFailed: it broke, or never called the model that it needs.
        ModelUnavailable, ModelAccessDenied, ModelNotFound, ModelRequestInvalid, ReplayDiverged: it had no
            chance.
        RlenvError: what the episode raised, whatever the agent made of it. StageTimeout: a call of the
            environment's did not return though the agent's time is up.
    """
    player = player_of(agent, framework)
    words = Words(context.extra_instructions, context.prompt_template)
    watched = WatchedEpisode(episode, deadline, words)
    told = words.around(instruction) if instruction else ""
    logs = context.folder / LOGS
    logs.mkdir(parents=True, exist_ok=True)
    _leave_instruction(context.folder, told, watched)
    limit = None if deadline is None else max(0.0, deadline - time.monotonic())
    surroundings = EpisodeContext(
        instruction=told,
        logs=logs,
        task=context.rollout.task,
        model=agent.model,
        model_endpoint=_endpoint(context),
        deadline=deadline,
        parameters=dict(parameters or {}),
    )
    rollout = context.rollout
    with context.clock.stage(Stage.AGENT):
        try:
            with answering(context.model, agent, rollout, public=True), watched.its_own_errors():
                act(
                    agent,
                    lambda: player.play(watched, surroundings),
                    rollout,
                    limit,
                    cut_off=watched.revoke,
                    method="play",
                    how="was stopped",
                )
        finally:
            watched.revoke()
        watched.check_at_rest()
    if agent.version is not None:  # a stranger's value, whatever its type
        rollout.agent_version = text_of(agent.version)


def _endpoint(context: RolloutContext) -> ModelEndpoint | None:
    if context.model is None:
        return None
    context.model.open_here()
    return context.model.endpoint(from_box=False)


def _leave_instruction(folder: Path, instruction: str, episode: WatchedEpisode) -> None:
    """Leave what the agent is told with the rollout, for the reports."""
    said = [text for message in episode.messages if isinstance(text := message.get("content"), str)]
    text = "\n\n".join(said or [instruction])[:SHOWN_CHARS]
    if text:
        (folder / "instruction.md").write_text(text, encoding="utf-8", errors="replace")
