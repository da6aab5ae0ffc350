"""``model``: a model plays an episode through chat completions, with nothing between the two."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import replace
from typing import ClassVar

from pytest_rlenv._version import __version__
from pytest_rlenv.agents.conversing.client import ChatClient
from pytest_rlenv.agents.conversing.conversation import Conversation
from pytest_rlenv.agents.conversing.session import Session
from pytest_rlenv.agents.ending import AgentOutcome, AgentStopped
from pytest_rlenv.agents.episode import Episode, EpisodeContext, Player
from pytest_rlenv.agents.model_endpoint import ModelEndpoint
from pytest_rlenv.agents.model_player.limits import Limits, Patience
from pytest_rlenv.agents.model_player.opening import open_with, opening_messages
from pytest_rlenv.agents.model_player.parameters import Parameters, chat_parameters
from pytest_rlenv.agents.model_player.playing import EpisodeSide
from pytest_rlenv.agents.moves import Moves, as_functions
from pytest_rlenv.errors import AgentFailed
from pytest_rlenv.trajectory import TRAJECTORY
from pytest_rlenv.trajectory.model import AgentInfo
from pytest_rlenv.trajectory.writing import GrowingTrajectory


class ModelPlayer(Player):
    """Have the model play, with the episode's own tools and words.

    A subclass may set other limits::

        class Brief(ModelPlayer):
            limits = Limits(turns=20)
    """

    name = "model"
    version = __version__
    needs_model = True
    limits: ClassVar[Limits] = Limits()
    patience: ClassVar[Patience] = Patience()

    def play(self, episode: Episode, context: EpisodeContext) -> AgentOutcome:
        """Ask and act until the episode is over, or the model has nothing more to do."""
        endpoint = context.model_endpoint
        if endpoint is None:
            raise AgentFailed("agent model: there is no model to ask", hint="name one with --model")
        if episode.done:
            raise AgentStopped("the episode was over before anything could be done")
        moves = Moves(episode)
        tools = as_functions(moves.tools)
        parameters = chat_parameters(context.parameters, provider=endpoint.provider, has_tools=bool(tools))
        file = GrowingTrajectory(
            context.logs / TRAJECTORY,
            AgentInfo(
                name=self.name,
                version=str(self.version),
                model_name=context.model or endpoint.model,
                tool_definitions=tools or None,
            ),
            session_id=uuid.uuid4().hex,
        )
        session = Session(self.limits, tools, Conversation(len(json.dumps(tools))))
        open_with(opening_messages(episode, context, moves), session, file)
        client = self._client(endpoint, context, parameters)
        try:
            outcome = session.run(client, EpisodeSide(episode, moves, self.limits.result_chars), file)
        except AgentStopped as stop:
            stop.outcome = _with_ignored(stop.outcome or AgentOutcome(), parameters)
            raise
        finally:
            client.close()
        return _with_ignored(outcome, parameters)

    def _client(self, endpoint: ModelEndpoint, context: EpisodeContext, parameters: Parameters) -> ChatClient:
        deadline = context.deadline

        def remaining() -> float | None:
            return None if deadline is None else max(0.0, deadline - time.monotonic())

        return ChatClient(
            endpoint,
            patience=self.patience,
            reply_seconds=self.limits.reply_seconds,
            remaining=remaining,
            parameters=parameters.sent,
        )


def _with_ignored(outcome: AgentOutcome, parameters: Parameters) -> AgentOutcome:
    if not parameters.ignored:
        return outcome
    told = f"chat completions have no place for what the task asks for: {', '.join(parameters.ignored)}"
    return replace(outcome, notes={**outcome.notes, "parameters-ignored": told})
