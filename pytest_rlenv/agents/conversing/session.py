"""One session of a model: it is asked, its calls are carried out, and all of it goes into a trajectory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from pytest_rlenv.agents.conversing.client import ChatClient
from pytest_rlenv.agents.conversing.conversation import Conversation
from pytest_rlenv.agents.conversing.limits import ConversationLimits
from pytest_rlenv.agents.conversing.replies import Call, Json, Reply, Usage
from pytest_rlenv.agents.conversing.troubles import BudgetUsedUp, Refused, TooLong
from pytest_rlenv.agents.ending import AgentOutcome, AgentStopped, AgentTimedOut, Stop
from pytest_rlenv.trajectory.model import Metrics, Observation, Result, ToolCall
from pytest_rlenv.trajectory.writing import GrowingTrajectory

CUT, REFUSAL = "cut_off", "refusal"
"""What a step of a trajectory says of a reply that went nowhere."""
SILENCES = 3
"""Replies in a row that say and do nothing, after which the model is taken to have given up."""
SHORTENED = 0.75
"""How much of a conversation that the server found too long is tried next."""
CUT_OFF = "Your last reply was cut off because it was too long. Go on, with shorter replies."
NOTHING_SAID = "Your last reply was empty. Go on with the task, or say that it is done and call no tool."


class Shown(NamedTuple):
    """What came of a call.

    Attributes:
        text: what the model is shown.
        facts: exit code, seconds and the like; empty if nothing was run.
    """

    text: str
    facts: dict[str, Any]


NOT_RUN = Shown("[not run: the time was up]", {})


class OtherSide(Protocol):
    """Whom the model talks to: a shell, an episode."""

    @property
    def done(self) -> bool:
        """True once there is nothing more to be done."""
        ...

    def beside(self, reply: Reply) -> None:
        """Hear what is said beside calls, before they are made."""
        ...

    def call(self, call: Call) -> Shown:
        """Do what a call asks for; what cannot be done is said to the model.

        Raises:
            AgentTimedOut: the agent's time is up.
        """
        ...

    def answer(self, reply: Reply) -> Answer | None:
        """Return what is said to a reply that calls no tool; ``None`` ends the session.

        Raises:
            AgentTimedOut: the agent's time is up.
        """
        ...

    def late(self, error: AgentTimedOut) -> Shown:
        """Return what is written down of a call that the time-out cut short."""
        ...


class Answer(NamedTuple):
    """What is said to the model.

    Attributes:
        text: the words.
        source: who says it, as trajectories have it: ``user``, or ``system`` for a reminder of ours.
    """

    text: str
    source: str = "user"


class Session:
    """A conversation, and where it is written down.

    Args:
        limits: what the model is held to.
        tools: what it is offered, in the form of OpenAI's chat completions.
        conversation: what has been said already.
    """

    def __init__(
        self,
        limits: ConversationLimits,
        tools: Sequence[Json],
        conversation: Conversation | None = None,
    ) -> None:
        self.conversation = conversation or Conversation(overhead=len(json.dumps(list(tools))))
        self.usage = Usage()
        self.turns = 0
        self._limits = limits
        self._tools = tools
        self._budget = limits.context_tokens
        self._silences = 0

    def tell(self, file: GrowingTrajectory, source: str, text: str) -> None:
        """Say something to the model; ``source`` is ``system`` or ``user``, as in a trajectory."""
        self.conversation.say(source if not self.conversation.messages else "user", text)
        file.add(source=source, message=text)

    def run(self, client: ChatClient, other: OtherSide, file: GrowingTrajectory) -> AgentOutcome:
        """Go on until the other side has nothing more to say or to do.

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
                self._carry_out(reply, other, file)
                if other.done:
                    return self.outcome()
            elif reply.is_cut:
                self.tell(file, "system", CUT_OFF)
            elif reply.text.strip():
                answer = other.answer(reply)
                if answer is None or other.done:
                    return self.outcome()
                self._reply_to(answer, file)
            else:
                self._silence(file, NOTHING_SAID)
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
                reply = client.ask(self.conversation.messages, self._tools)
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

    def _carry_out(self, reply: Reply, other: OtherSide, file: GrowingTrajectory) -> None:
        results: list[Result] = []
        late: AgentTimedOut | None = None
        other.beside(reply)
        for call in reply.calls:
            if late is None:
                try:
                    came = other.call(call)
                except AgentTimedOut as caught:
                    late, came = caught, other.late(caught)
            else:  # a session that goes on in a later step needs a result for each call
                came = NOT_RUN
            results.append(_result(call, came))
            self.conversation.result(call, came.text)
        file.observe(Observation(results=results))
        if late is not None:
            raise late

    def _reply_to(self, answer: Answer, file: GrowingTrajectory) -> None:
        if answer.source == "system":
            self._silence(file, answer.text)
            return
        self._silences = 0
        self.tell(file, answer.source, answer.text)

    def _silence(self, file: GrowingTrajectory, reminder: str) -> None:
        """Remind a model that does nothing of what it could do, a few times."""
        self._silences += 1
        if self._silences >= SILENCES:
            said = "did nothing" if reminder != NOTHING_SAID else "said nothing"
            raise self._stop(f"the model {said}, {SILENCES} times in a row", Stop.GAVE_UP)
        self.tell(file, "system", reminder)

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
        "extra": _extra(reply, left_out),
    }


def _extra(reply: Reply, left_out: int) -> dict[str, Any] | None:
    found: dict[str, Any] = {"outputs_left_out": left_out} if left_out else {}
    if reply.refusal is not None:
        found[REFUSAL] = reply.refusal
    elif reply.is_cut:
        found[CUT] = True
    return found or None


def _result(call: Call, came: Shown) -> Result:
    return Result(source_call_id=call.id, content=came.text, extra=came.facts or None)
