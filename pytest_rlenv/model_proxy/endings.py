"""What an agent's calls say of how it ended: an error, a limit that it reached, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pytest_rlenv.agents.protocol import Stop
from pytest_rlenv.errors import (
    ModelAccessDenied,
    ModelNotFound,
    ModelRequestInvalid,
    ModelUnavailable,
    ReplayDiverged,
    RlenvError,
)
from pytest_rlenv.model_proxy.ledger import TROUBLE, Call, End, Usage, UsedUp

_ERRORS: dict[End, tuple[type[RlenvError], str, str]] = {
    End.DENIED: (ModelAccessDenied, "the model's provider refused the key", "see the key, and its credit"),
    End.NOT_FOUND: (ModelNotFound, "there is no such model", "see --model and --rlenv-model-url"),
    End.BUSY: (
        ModelUnavailable,
        "the model's provider takes no more requests now",
        "run fewer rollouts at once, or try again with --rlenv-retries",
    ),
    End.BROKEN: (
        ModelUnavailable,
        "the model's endpoint failed",
        "--rlenv-retries tries such a rollout again",
    ),
    End.DIVERGED: (
        ReplayDiverged,
        "the agent did not ask its model what was recorded",
        "if that is meant, record it again with --rlenv-record",
    ),
}


_WAITED = 1.0
"""Seconds that a client waits at least for whom it says something that nothing came."""
_SILENT = 60.0
"""Seconds without a byte from which on a model is called silent."""


@dataclass(frozen=True)
class Turn:
    """The calls of one agent's turn: of a step, or of a task without steps.

    Attributes:
        all: every call, in the order in which they ended.
        removed_tools: the provider's own tools that were taken out of requests.
    """

    all: tuple[Call, ...] = ()
    removed_tools: tuple[str, ...] = ()

    @property
    def usage(self) -> Usage:
        """What they took."""
        return Usage.of(self.all)

    @property
    def _told(self) -> list[Call]:
        """Those that say something of the end: not those that the agent itself broke off."""
        return [call for call in self.all if call.counts and call.end is not End.CUT]

    def failure(self, agent: str) -> RlenvError | None:
        """Return the error that they amount to, if they do: then nothing is to be judged.

        The last call tells: an agent whose model stayed away to the end had no chance, whatever it exited
        with; what failed earlier it got over. From a call on that was not recorded nothing counts. Nor had an
        agent a chance that waited in vain for the one answer that it asked for.
        """
        told = self._told
        last = next((call for call in told if call.end is End.DIVERGED), told[-1] if told else None)
        if last is None:
            return self._no_answer(agent)
        answered = self.usage.answered
        count = f" ({len(told)} calls, {answered} of them answered)" if last.end is not End.DIVERGED else ""
        if last.end in TROUBLE:
            error, what, hint = _ERRORS[last.end]
            return error(f"agent {agent}: {what}: {last.text}{count}", hint=hint)
        if last.end is End.INVALID and not answered:
            return ModelRequestInvalid(
                f"agent {agent}: the model's provider refused all that it was asked: {last.text}{count}",
                hint="this agent and this model may not fit",
            )
        return None

    def _no_answer(self, agent: str) -> RlenvError | None:
        cut = self._cut
        if cut is None or cut.waited < (_SILENT if cut.status else _WAITED):
            return None
        error, what, hint = _ERRORS[End.BROKEN]
        told = f"agent {agent}: {what}: it never answered, and nothing came for {cut.waited:.0f} s"
        return error(told, hint=hint)

    @property
    def _cut(self) -> Call | None:
        """The last call, if the agent, or the end of its time, broke it off."""
        counted = [call for call in self.all if call.counts]
        return counted[-1] if counted and counted[-1].end is End.CUT else None

    def stop(self) -> UsedUp | None:
        """Return the limit that ended the agent, if one did: a budget, the model's context, a refusal."""
        told = self._told
        for call in told:
            if call.stop is not None:
                return UsedUp(call.stop, call.text)
        last = told[-1] if told else None
        if last is not None and last.end is End.CONTEXT:
            return UsedUp(Stop.CONTEXT_EXCEEDED, f"what it asked is longer than the context: {last.text}")
        if last is not None and last.end is End.REFUSED:
            return UsedUp(Stop.REFUSAL, last.text or "the model refused to answer")
        return None

    def notes(self) -> Iterator[tuple[str, str]]:
        """Yield what is worth knowing beside the verdict: a code and a text."""
        usage = self.usage
        if usage.uncounted:
            yield (
                "model-usage-unknown",
                f"{usage.uncounted} of {usage.calls} calls did not say what they took: not counted",
            )
        if (cut := self._cut) is not None and cut.waited >= _SILENT:
            yield "model-silent", f"the last call was broken off when nothing had come for {cut.waited:.0f} s"
        if self.removed_tools:
            tools = ", ".join(self.removed_tools)
            yield (
                "model-tools-removed",
                f"tools of the provider that reach past the task's network were not offered: {tools}",
            )
