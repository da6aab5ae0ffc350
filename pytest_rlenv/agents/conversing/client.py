"""Ask a model over an OpenAI-compatible endpoint, with patience for a server that refuses for the moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pytest_rlenv.agents.conversing.limits import Patience
from pytest_rlenv.agents.conversing.replies import Json, Reply, Unreadable, parse_reply
from pytest_rlenv.agents.conversing.troubles import Momentary, trouble_of
from pytest_rlenv.agents.model_endpoint import ModelEndpoint
from pytest_rlenv.agents.protocol import AgentTimedOut
from pytest_rlenv.errors import ModelUnavailable
from pytest_rlenv.text import clean, tail, text_of

if TYPE_CHECKING:
    import requests

CONNECT_SECONDS = 10.0


class ChatClient:
    """A client of one endpoint, for one rollout.

    Args:
        endpoint: where the model is.
        patience: with a server that refuses for the moment.
        reply_seconds: seconds to wait for one reply.
        remaining: tells the seconds that the agent has left; ``None`` is no limit.
        parameters: what else goes with each request, such as ``temperature``.
    """

    def __init__(
        self,
        endpoint: ModelEndpoint,
        *,
        patience: Patience,
        reply_seconds: float,
        remaining: Callable[[], float | None],
        parameters: Json | None = None,
    ) -> None:
        import requests

        self._endpoint = endpoint
        self._patience = patience
        self._reply_seconds = reply_seconds
        self._remaining = remaining
        self._parameters = parameters or {}
        self._session = requests.Session()
        self._session.trust_env = False  # neither a proxy nor a .netrc of the machine is meant for this
        self._session.headers["Authorization"] = f"Bearer {endpoint.key}"
        self._replies = 0

    def close(self) -> None:
        """Let go of the connection."""
        self._session.close()

    def ask(self, messages: Sequence[Json], tools: Sequence[Json]) -> Reply:
        """Return the model's reply to a conversation.

        Raises:
            ModelUnavailable: no answer but momentary refusals, for as long as there is patience or time.
            ModelAccessDenied, ModelNotFound, ModelRequestInvalid: what asking again would not mend.
            TooLong, Refused, BudgetUsedUp: see :mod:`.troubles`.
            AgentTimedOut: the agent's time ran out while the model was thinking.
        """
        body = {"model": self._endpoint.model, "messages": list(messages), **self._parameters}
        if tools:  # an empty list is refused by some servers
            body["tools"] = list(tools)
        for number in range(1, self._patience.tries + 1):
            try:
                return self._once(body)
            except Momentary as trouble:
                pause = self._patience.pause(number, trouble.after)
                left = self._remaining()
                if number >= self._most(trouble) or (left is not None and pause >= left):
                    raise self._unavailable(trouble, number) from trouble
                time.sleep(pause)
        raise AssertionError("at least one try is made")

    def _most(self, trouble: Momentary) -> int:
        there = trouble.reached or self._replies
        return self._patience.tries if there else min(self._patience.first_tries, self._patience.tries)

    def _unavailable(self, trouble: Momentary, tries: int) -> ModelUnavailable:
        times = "once" if tries == 1 else f"{tries} times"
        return ModelUnavailable(
            f"model {self._endpoint.model} did not answer, asked {times}: {trouble}",
            hint="try again later, with fewer rollouts at once, or with --rlenv-retries",
        )

    def _once(self, body: Json) -> Reply:
        import requests

        url = f"{self._endpoint.openai_base_url.rstrip('/')}/chat/completions"
        left = self._remaining()
        wait = self._reply_seconds if left is None else max(0.01, min(self._reply_seconds, left))
        try:
            answer = self._session.post(url, json=body, timeout=(min(CONNECT_SECONDS, wait), wait))
        except requests.RequestException as error:
            if self._remaining() == 0.0:
                raise AgentTimedOut from None
            raise Momentary(f"{type(error).__name__}: {text_of(error)}") from error
        if answer.status_code != 200:
            raise trouble_of(answer.status_code, _text(answer), answer.headers, self._endpoint.model)
        return self._read(answer)

    def _read(self, answer: requests.Response) -> Reply:
        try:
            found: Any = answer.json()
            if isinstance(found, dict) and "choices" not in found and "error" in found:
                raise self._hidden(found["error"], answer)
            self._replies += 1
            return parse_reply(found, self._replies)
        except (ValueError, Unreadable, RecursionError) as error:
            raise ModelUnavailable(
                f"the server of model {self._endpoint.model} answers with what is no chat completion: "
                f"{text_of(error)}",
                hint="is --rlenv-model-url the base URL, to which /chat/completions is added?",
                detail=tail(clean(_text(answer))),
            ) from None

    def _hidden(self, error: object, answer: requests.Response) -> Exception:
        """Return what an error means that came with status 200: some gateways do that."""
        code = error.get("code") if isinstance(error, dict) else None
        status = code if isinstance(code, int) and code >= 400 else 502
        return trouble_of(status, _text(answer), answer.headers, self._endpoint.model)


def _text(answer: requests.Response) -> str:
    return answer.content.decode("utf-8", errors="replace")
