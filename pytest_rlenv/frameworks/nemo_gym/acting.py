"""What each agent does in a session: the reference answer, nothing, a recorded answer, or its own play."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_rlenv.agents.nop import NopAgent
from pytest_rlenv.agents.oracle import OracleAgent
from pytest_rlenv.agents.protocol import Agent
from pytest_rlenv.agents.replay.agent import ReplayAgent
from pytest_rlenv.errors import SpecError, Stage, Unsupported
from pytest_rlenv.frameworks.context import RolloutContext
from pytest_rlenv.frameworks.nemo_gym.conversation import INSTEAD, instruction_of, parameters_of, tools_of
from pytest_rlenv.frameworks.nemo_gym.episodes import STEPS, RowEpisode, StepEpisode, ToolEpisode
from pytest_rlenv.frameworks.nemo_gym.oracles import OPTION, builder_by_shape, builder_for, built
from pytest_rlenv.frameworks.nemo_gym.recorded import Recorded, is_rollout, is_run
from pytest_rlenv.frameworks.nemo_gym.replaying import again, output_of
from pytest_rlenv.frameworks.nemo_gym.resolving import ServerSpec
from pytest_rlenv.frameworks.nemo_gym.responses import Item, function_output, message, turns_of
from pytest_rlenv.frameworks.nemo_gym.session import Session
from pytest_rlenv.frameworks.playing import play, player_of

Act = Callable[[Session], Mapping[str, Any] | None]
"""Acts in a session, and returns a whole response to judge where it has one."""

NAME = "NeMo Gym"
NOTHING_SAID = "I do not know."
AGENT_LIMIT = 1800.0
"""Seconds for an agent that plays; rows declare none."""
_ONE_ACTION = "tool_simulation_agent"
_SPOKEN = frozenset({None, "simple_agent", "gymnasium_agent", _ONE_ACTION, "non_executing_simple_agent"})
"""Kinds of NeMo Gym's agents whose way of asking a model is what an agent of ours does, too."""


def replays_rows(agent: Agent) -> Path | None:
    """Return what an agent replays, if that is recorded rollouts and no trajectory."""
    if not isinstance(agent, ReplayAgent):
        return None
    source = agent.source
    if source.is_dir():
        ours = is_run(source) or is_rollout(source)
        return source if ours or next(source.glob("*rollouts*.jsonl"), None) is not None else None
    return source if source.suffix == ".jsonl" else None


def plan(
    context: RolloutContext,
    row: Mapping[str, Any],
    spec: ServerSpec,
    recorded: Callable[[], Recorded | None],
) -> Act:
    """Return how the rollout's agent acts; what cannot be done is told before a server is started.

    Args:
        context: of the rollout.
        row: the row.
        spec: its server.
        recorded: finds the recorded rollout that the agent replays.

    Raises:
        Unsupported: this agent has nothing to do with such a row.
        SpecError: the user has to allow it first.
    """
    agent = context.agent
    if isinstance(agent, OracleAgent):
        return _oracle(context, row, spec)
    if isinstance(agent, NopAgent):
        return _nop(context, spec)
    if replays_rows(agent) is not None:
        _allow_code(context, spec)
        return _replay(context, recorded())
    return _play(context, row, spec)


def _oracle(context: RolloutContext, row: Mapping[str, Any], spec: ServerSpec) -> Act:
    builder = builder_for(spec.name, context.settings.nemo_oracle) or builder_by_shape(row)
    if builder is None:
        raise Unsupported(
            f"no oracle: it is not known what {spec.name} gives the whole reward for ({OPTION} adds one)"
        )
    items = built(builder, row, spec.name)
    if items is None:
        raise Unsupported(f"no oracle: this row of {spec.name} does not say what it expects")
    return lambda session: _perform(context, session, items)


def _replay(context: RolloutContext, recorded: Recorded | None) -> Act:
    if recorded is None:
        raise Unsupported(f"no recorded rollout of this row in {replays_rows(context.agent)}")
    output = output_of(recorded)
    context.rollout.note("replayed", recorded.where)
    return lambda session: again(context, session, recorded, output)


def _nop(context: RolloutContext, spec: ServerSpec) -> Act:
    def act(session: Session) -> None:
        if not session.gymnasium:
            _perform(context, session, [message(NOTHING_SAID)])
            return
        with context.clock.stage(Stage.AGENT):  # the reward may come with the last step alone
            for _ in range(spec.max_steps or STEPS):
                if not session.ended:
                    session.step([message(NOTHING_SAID)])

    return act


def _play(context: RolloutContext, row: Mapping[str, Any], spec: ServerSpec) -> Act:
    agent = player_of(context.agent, NAME)
    if spec.agent_kind not in _SPOKEN:
        raise Unsupported(
            f"rows of {spec.name} are for NeMo Gym's {spec.agent_kind}, which asks models in a way of its "
            f"own; {INSTEAD}"
        )
    _allow_code(context, spec)

    def act(session: Session) -> None:
        if session.speaks_mcp and not _has_routes(session, row):
            raise Unsupported(
                f"the tools of {spec.name} are behind an MCP server, which is not spoken here; {INSTEAD}"
            )
        deadline = time.monotonic() + AGENT_LIMIT * context.timeout_multiplier
        episode = _episode(session, row, spec, deadline)
        play(
            agent,
            episode,
            context,
            instruction="" if episode.messages else instruction_of([]),
            deadline=deadline,
            parameters=parameters_of(row),
            framework=NAME,
        )
        if session.broken_calls:
            context.rollout.note(
                "tool-errors", f"calls of tools that broke the server: {session.broken_calls}"
            )

    return act


def _has_routes(session: Session, row: Mapping[str, Any]) -> bool:
    """Return whether a row lists tools, and all of them are routes, too."""
    tools = tools_of(row)
    return bool(tools) and all(session.has_tool(tool.name) for tool in tools)


def _episode(session: Session, row: Mapping[str, Any], spec: ServerSpec, deadline: float) -> RowEpisode:
    if session.gymnasium:
        return StepEpisode(session, row, deadline, spec.max_steps or STEPS)
    once = spec.agent_kind == _ONE_ACTION
    return ToolEpisode(session, row, deadline, replies=spec.max_steps, once=once)


def _allow_code(context: RolloutContext, spec: ServerSpec) -> None:
    if spec.runs_code and not context.settings.trust_code:
        raise SpecError(
            f"the server {spec.name} runs what an agent writes on this machine, outside of a container",
            hint="add --rlenv-trust-code if that is what you want",
            stage=Stage.START,
        )


def _perform(context: RolloutContext, session: Session, items: Sequence[Item]) -> None:
    """Put out given items, with the calls among them made."""
    with context.clock.stage(Stage.AGENT):
        if session.gymnasium:
            _step_through(session, items)
            return
        for item in items:
            session.output.append(item)
            if item["type"] == "function_call" and session.has_tool(item["name"]):
                answer = session.call(item["name"], item["arguments"])
                session.output.append(function_output(item["call_id"], answer))


def _step_through(session: Session, items: Sequence[Item]) -> None:
    for turn in turns_of(items):
        if session.ended:
            return
        session.step(turn.items)
