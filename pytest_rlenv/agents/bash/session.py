"""One session of a model: it is asked, its calls are carried out, and all of it goes into a trajectory."""

from __future__ import annotations

import json
from typing import Any

from pytest_rlenv.agents.bash.client import ChatClient
from pytest_rlenv.agents.bash.conversation import Conversation
from pytest_rlenv.agents.bash.limits import Limits
from pytest_rlenv.agents.bash.prompt import CUT_OFF, NOTHING_SAID
from pytest_rlenv.agents.bash.replies import Call, Reply, Usage
from pytest_rlenv.agents.bash.shell import TOOL, Shell, Shown, shown
from pytest_rlenv.agents.bash.troubles import BudgetUsedUp, Refused, TooLong
from pytest_rlenv.agents.protocol import AgentOutcome, AgentStopped, AgentTimedOut, Stop
from pytest_rlenv.trajectory.model import Metrics, Observation, Result, Step, ToolCall
from pytest_rlenv.trajectory.writing import GrowingTrajectory

TOOLS = [TOOL]
SILENCES = 3
"""Replies in a row that say and do nothing, after which the model is taken to have given up."""
NOT_RUN = Shown("[not run: the time was up]", {})
SHORTENED = 0.75
"""How much of a conversation that the server found too long is tried next."""


class Session:
    """A conversation, and where it is written down.

    Args:
        limits: what the model is held to.
        conversation: what has been said already.
    """

    def __init__(self, limits: Limits, conversation: Conversation | None = None) -> None:
        self.conversation = conversation or Conversation(overhead=len(json.dumps(TOOLS)))
        self.usage = Usage()
        self.turns = 0
        self._limits = limits
        self._budget = limits.context_tokens
        self._silences = 0

    def tell(self, file: GrowingTrajectory, source: str, text: str) -> None:
        """Say something to the model; ``source`` is ``system`` or ``user``, as in a trajectory."""
        self.conversation.say(source if not self.conversation.messages else "user", text)
        file.add(source=source, message=text)

    def run(self, client: ChatClient, shell: Shell, file: GrowingTrajectory) -> AgentOutcome:
        """Go on until the model calls no tool any more.

        Raises:
            AgentStopped: a limit, a refusal, or the model says nothing.
            AgentTimedOut: the agent's time is up.
            RlenvError: the model cannot be had; see :class:`.client.ChatClient`.
        """
        while self.turns < self._limits.turns:
            reply = self._ask(client, file)
            if reply.refusal is not None:
                raise self._stop(f"the model refused: {reply.refusal}", Stop.REFUSAL)
            if reply.calls:
                self._silences = 0
                self._carry_out(reply, shell, file)
            elif reply.is_cut:
                self.tell(file, "system", CUT_OFF)
            elif reply.text.strip():
                return self.outcome()
            else:
                self._silence(file)
            self._check_tokens()
        raise self._stop(f"turn limit of {self._limits.turns} reached", Stop.TURN_LIMIT)

    def outcome(self) -> AgentOutcome:
        """Return what there is to report so far."""
        used = {name: value for name, value in vars(self.usage).items() if value is not None}
        return AgentOutcome(usage={"turns": self.turns, **used})

    def _ask(self, client: ChatClient, file: GrowingTrajectory) -> Reply:
        """Return the model's next reply, with the conversation shortened as far as that is needed."""
        left_out = self.conversation.fit(self._budget)
        if self.conversation.tokens > self._budget:
            raise self._too_long(f"more than {self._budget} tokens")
        while True:
            try:
                reply = client.ask(self.conversation.messages, TOOLS)
            except TooLong as trouble:
                self._budget = min(self._budget, int(self.conversation.tokens * SHORTENED))
                shorter = self.conversation.fit(self._budget)
                if not shorter:
                    raise self._too_long(str(trouble)) from None
                left_out += shorter
            except Refused as refusal:
                raise self._stop(f"the provider refused: {refusal}", Stop.REFUSAL) from None
            except BudgetUsedUp as budget:
                raise self._stop(str(budget), budget.kind) from None
            else:
                break
        self.turns += 1
        self.usage.add(reply.usage)
        self.conversation.reply(reply)
        file.add(**_step(reply, left_out))
        return reply

    def _carry_out(self, reply: Reply, shell: Shell, file: GrowingTrajectory) -> None:
        results: list[Result] = []
        late: AgentTimedOut | None = None
        for call in reply.calls:
            if late is None:
                try:
                    came = shell.call(call)
                except AgentTimedOut as caught:
                    late, came = caught, shown(caught.completed) if caught.completed else NOT_RUN
            else:  # a session that goes on in a later step needs a result for each call
                came = NOT_RUN
            results.append(_result(call, came))
            self.conversation.result(call, came.text)
        file.observe(Observation(results=results))
        if late is not None:
            raise late

    def _silence(self, file: GrowingTrajectory) -> None:
        self._silences += 1
        if self._silences >= SILENCES:
            raise self._stop(f"the model said nothing, {SILENCES} times in a row", Stop.GAVE_UP)
        self.tell(file, "system", NOTHING_SAID)

    def _check_tokens(self) -> None:
        most = self._limits.tokens
        if most is not None and self.usage.tokens >= most:
            raise self._stop(f"{self.usage.tokens} tokens used of {most}", Stop.TOKEN_BUDGET)

    def _too_long(self, why: str) -> AgentStopped:
        return self._stop(f"the conversation no longer fits the model: {why}", Stop.CONTEXT_EXCEEDED)

    def _stop(self, reason: str, kind: Stop) -> AgentStopped:
        return AgentStopped(reason, kind, outcome=self.outcome())


def _step(reply: Reply, left_out: int) -> dict[str, Any]:
    """Return a reply as the fields of a trajectory's step."""
    usage = reply.usage
    metrics = Metrics(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        cost_usd=usage.cost_usd,
    )
    calls = [
        ToolCall(
            tool_call_id=call.id,
            function_name=call.name,
            arguments={} if call.arguments is None else call.arguments,
            extra=None if call.arguments is not None else {"unreadable_arguments": call.raw},
        )
        for call in reply.calls
    ]
    return {
        "source": "agent",
        "message": reply.text,
        "reasoning_content": reply.reasoning or None,
        "tool_calls": calls or None,
        "metrics": metrics if metrics.model_dump(exclude_none=True) else None,
        "llm_call_count": 1,
        "extra": {"outputs_left_out": left_out} if left_out else None,
    }


def _result(call: Call, came: Shown) -> Result:
    return Result(source_call_id=call.id, content=came.text, extra=came.facts or None)


def copied(step: Step) -> dict[str, Any]:
    """Return a step of another trajectory as the fields of one here; what it cost was paid there."""
    fields = dict(step) | {"is_copied_context": True}
    return {name: value for name, value in fields.items() if name != "step_id"}
