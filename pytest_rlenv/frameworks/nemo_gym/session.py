"""One session of a row on its server: begun, acted in, and judged. Both protocols look the same from here.

Most servers have ``/seed_session``, a route for each tool, and ``/verify``; the reward is the one that
``/verify`` gives. Those of the gymnasium kind have ``/reset`` and ``/step``; the reward is the sum over all
steps, as NeMo Gym's own agent adds it up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from pytest_rlenv.errors import RlenvError, SandboxFailed, Stage
from pytest_rlenv.frameworks.nemo_gym.judging import (
    Judgement,
    accepted,
    check_marks,
    judgement,
    reward_in,
)
from pytest_rlenv.frameworks.nemo_gym.responses import Item, function_output, message, response
from pytest_rlenv.frameworks.nemo_gym.server import Server
from pytest_rlenv.frameworks.nemo_gym.wire import Answer
from pytest_rlenv.rollout import MAIN_REWARD_KEY

SEED_LIMIT = 120.0
TOOL_LIMIT = 120.0
VERIFY_LIMIT = 300.0
"""Seconds for the server to answer; rows declare none."""

_NAME = re.compile(r"[A-Za-z0-9_][\w.-]*")
_NOT_TOOLS = frozenset(
    {"seed_session", "verify", "aggregate_metrics", "reverify_mode", "close_session", "reset", "step", "mcp"}
)
"""Routes that are not the agent's: by one of them it would read its own reward."""
_LOST = re.compile(
    r"session (is |was )?not (initiali[sz]ed|found)|missing session|seed_session", re.IGNORECASE
)
"""What servers say that do not know the caller's session; other words of sessions are for the agent to read."""
_REFUSALS = frozenset({400, 401, 403})


class Session:
    """A row's session.

    Args:
        server: where.
        row: the row.
        model: who answers, as the response names it.
        multiplier: of all time limits.
    """

    def __init__(
        self, server: Server, row: Mapping[str, Any], model: str, *, multiplier: float = 1.0
    ) -> None:
        self._server = server
        self._wire = server.wire()
        self._row = dict(row)
        self._model = model
        self._multiplier = multiplier
        self.output: list[Item] = []
        """What was put out so far, tools' answers included."""
        self.broken_calls = 0
        """Calls of tools that were answered with a status of 500 or more."""
        self.observation = ""
        """What a gymnasium server showed last."""
        self.ended = False
        """True once a gymnasium server takes no more steps."""
        self.speaks_mcp = False
        """True if the tools are not routes, but behind an MCP server."""
        self._total = 0.0
        self._steps = 0
        self._last: Mapping[str, Any] = {}

    @property
    def gymnasium(self) -> bool:
        """True if it is stepped."""
        return self._server.routes.gymnasium

    @property
    def stepped(self) -> bool:
        """True once a step was taken."""
        return self._steps > 0

    def begin(self) -> None:
        """Begin the session.

        Raises:
            RlenvError: the server refuses, breaks or hangs.
        """
        path = "/reset" if self.gymnasium else "/seed_session"
        stage = Stage.AGENT_SETUP
        answer = self._wire.post(path, self._row, limit=SEED_LIMIT * self._multiplier, stage=stage)
        content = accepted(answer, path, stage)
        self.speaks_mcp = isinstance(content.get("mcp"), dict)
        shown = content.get("observation")
        self.observation = shown if isinstance(shown, str) else ""

    def has_tool(self, name: str) -> bool:
        """Return whether the server has a route for a tool, as far as that is known."""
        return is_tool_name(name) and self._server.routes.has(f"/{name}")

    def call(self, name: str, arguments: Mapping[str, Any] | str, *, limit: float | None = None) -> str:
        """Call a tool and return its answer as a model sees it, whatever its status; nothing is recorded.

        Raises:
            SandboxFailed: the server does not know the session, or is gone. StageTimeout: it hangs.
        """
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments)
            except (ValueError, RecursionError) as error:
                return json.dumps({"error": f"Invalid tool call arguments: {error!r}"})
        if not is_tool_name(name):
            return json.dumps({"error": f"there is no tool {name!r}"})
        answer = self._act(f"/{name}", arguments, TOOL_LIMIT, limit)
        if answer.status in _REFUSALS and _LOST.search(answer.body):
            raise SandboxFailed(
                f"the server does not know the session that it began: /{name} was answered with status "
                f"{answer.status}: {answer.body[:200]}",
                hint="does it send its cookie, and does one process answer all calls?",
                stage=Stage.AGENT,
            )
        if answer.status >= 500:
            self.broken_calls += 1
        return answer.body

    def step(self, items: Sequence[Item], *, limit: float | None = None) -> Mapping[str, Any]:
        """Take a step of a gymnasium server with what the model put out, and return what it shows.

        Raises:
            RlenvError: the server breaks, hangs, or gives no reward.
        """
        self.output.extend(items)
        body = {**self._row, "response": response(self._row, items, self._model)}
        answer = self._act("/step", body, VERIFY_LIMIT, limit)
        content = accepted(answer, "/step", Stage.AGENT)
        check_marks(content)
        self._total += reward_in(content, "/step")
        self._steps += 1
        self._last = content
        self.ended = content.get("terminated") is True or content.get("truncated") is True
        shown = content.get("observation")
        self.observation = shown if isinstance(shown, str) else ""
        if not self.ended:
            self._record_answers(content)
        return content

    def judge(self, recorded: Mapping[str, Any] | None = None) -> Judgement:
        """Have what was put out judged.

        Args:
            recorded: a whole response to judge in its place, as it was recorded.

        Raises:
            RlenvError: there is no reward.
        """
        if self.gymnasium:
            if not self.stepped:  # an agent that does nothing says nothing: that is a step, too
                self.step([message("")])
            return Judgement({MAIN_REWARD_KEY: self._total}, f"steps = {self._steps}", self._last)
        body = {**self._row, "response": recorded or self.response()}
        limit = VERIFY_LIMIT * self._multiplier
        return judgement(self._wire.post("/verify", body, limit=limit, stage=Stage.VERIFY), body)

    def response(self) -> dict[str, Any]:
        """Return what was put out as a whole response."""
        return response(self._row, self.output, self._model)

    def close(self) -> None:
        """End the session, where the server wants to know, and let go of the connection."""
        try:
            if self._server.routes.tells_of("/close_session"):
                with suppress(RlenvError):  # what was judged stays judged
                    self._wire.post("/close_session", {}, limit=SEED_LIMIT, stage=Stage.STOP)
        finally:
            self._wire.close()

    def _act(self, path: str, body: Any, most: float, limit: float | None) -> Answer:
        """Post something of the agent's, whose time may be up before the server's."""
        most *= self._multiplier
        shorter = limit is not None and limit < most
        seconds = limit if limit is not None and shorter else most
        return self._wire.post(path, body, limit=seconds, stage=Stage.AGENT, patient=not shorter)

    def _record_answers(self, content: Mapping[str, Any]) -> None:
        info = content.get("info")
        outputs = info.get("tool_outputs") if isinstance(info, dict) else None
        for each in outputs if isinstance(outputs, list) else ():
            if isinstance(each, dict):
                self.output.append(function_output(str(each.get("call_id")), str(each.get("output"))))
        if self.observation:
            self.output.append({"role": "user", "content": self.observation, "type": "message"})


def is_tool_name(name: str) -> bool:
    """Return whether a name can be a tool's, and is no route of the protocol itself."""
    return _NAME.fullmatch(name) is not None and name not in _NOT_TOOLS
