"""One request of an agent, from its arrival to the last byte of its answer."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol
from urllib.parse import quote

from pytest_rlenv.model_proxy import wires
from pytest_rlenv.model_proxy.answers import Tokens, error_of
from pytest_rlenv.model_proxy.call_under_way import CallUnderWay, json_or_text, one_line, short
from pytest_rlenv.model_proxy.events import Event, EventReader
from pytest_rlenv.model_proxy.failures import end_of
from pytest_rlenv.model_proxy.ledger import Budget, Call, End, Ledger, Usage, UsedUp
from pytest_rlenv.model_proxy.recording import PROVIDER, Recorder
from pytest_rlenv.model_proxy.replaying import Diverged
from pytest_rlenv.model_proxy.requests import Asked, NotJson, prepare
from pytest_rlenv.model_proxy.serving import Request, Responder
from pytest_rlenv.model_proxy.upstream import Answer, Unreachable
from pytest_rlenv.model_proxy.wires import Found, Wire
from pytest_rlenv.secrets import SECRETS

MOST_ANSWER = 64 * 1024 * 1024
"""Bytes of an answer that is held as a whole: in one piece, or in events that are recorded."""

_KEPT = ("content-type", "retry-after")
_NO_RETRY = {"x-should-retry": "false"}
"""What OpenAI's and Anthropic's clients heed: the same request would fare no better."""


class Source(Protocol):
    """Where answers come from: the provider, or a recording."""

    def ask(
        self, wire: Wire, path: str, asked: Asked, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[Answer]:
        """Give the answer while it comes; raises Unreachable or Diverged."""
        ...


class Terms(NamedTuple):
    """What holds for all calls of a rollout.

    Attributes:
        key: what a client must show.
        model: the run's model.
        provider: who has it.
        wires: what that one speaks.
        budget: what the rollout may take.
        cost_of: what tokens cost, in US dollars; ``None`` where nobody says.
    """

    key: str
    model: str
    provider: str
    wires: tuple[Wire, ...]
    budget: Budget
    cost_of: Callable[[Tokens], float | None]


class Refusal(Exception):
    """A request that is not passed on."""

    def __init__(self, status: int, code: str, text: str, end: End = End.INVALID) -> None:
        super().__init__(text)
        self.status = status
        self.code = code
        self.text = text
        self.end = end


class Exchanges:
    """Answers the requests of one rollout's agent.

    Args:
        terms: what holds for all of them.
        source: where answers come from.
        ledger: where calls are noted.
        recorder: keeps them; ``None`` keeps none.
    """

    def __init__(self, terms: Terms, source: Source, ledger: Ledger, recorder: Recorder | None) -> None:
        self._terms = terms
        self._source = source
        self._ledger = ledger
        self._recorder = recorder
        self.open = False
        """Requests are answered only while the agent acts: what it leaves running gets nothing."""
        self.hosted_tools = True
        """False where the agent may not reach the world: the provider's own tools would do it for it."""
        self.removed: dict[str, None] = {}
        """The provider's tools that were taken out of requests."""

    async def handle(self, request: Request, responder: Responder) -> None:
        """Answer one request."""
        wire = wires.wire_of(request.target)
        try:
            found = self._route(request)
            if found.path == wires.MAY_CALL:
                await self._say_budget(found.route.wire, responder)
                return
            if found.route.method == "GET":
                await responder.whole(200, self._models())
                return
            asked = self._asked(request, found)
        except Refusal as refusal:
            if refusal.end is not End.INVALID:
                self._ledger.add(Call(wire, refusal.end, refusal.status, text=refusal.text))
            await self._refuse(responder, wire, refusal)
            return
        exchange = CallUnderWay(found.path.format(model=quote(self._terms.model)), found.route, asked)
        try:
            await self._pass_on(exchange, request.headers, responder)
        except (asyncio.CancelledError, OSError):
            exchange.break_off()
            raise
        finally:
            self._close(exchange)

    # ---- before it is passed on

    def _route(self, request: Request) -> Found:
        shown = _shown_key(request.headers)
        if not hmac.compare_digest(shown.encode("utf-8", "replace"), self._terms.key.encode()):
            raise Refusal(401, wires.KEY, "this is the endpoint of one rollout, and that is not its key")
        found = wires.route_of(request.target)
        if found is None:
            raise Refusal(404, wires.REFUSED, f"{request.target} is not served here")
        route = found.route
        if request.method != route.method:
            raise Refusal(405, wires.REFUSED, f"{request.target} takes {route.method}")
        if not self.open:
            raise Refusal(403, wires.CLOSED, "the model answers only while the agent acts")
        if route.method == "POST" and route.wire not in self._terms.wires:
            spoken = ", ".join(each.value for each in self._terms.wires)
            raise Refusal(
                404,
                wires.REFUSED,
                f"{self._terms.provider} speaks {spoken}, not {route.wire.value}: choose another model",
                End.NOT_FOUND,
            )
        return found

    def _asked(self, request: Request, found: Found) -> Asked:
        query = request.target.partition("?")[2]
        try:
            asked = prepare(
                found, request.body, query, model=self._terms.model, hosted_tools=self.hosted_tools
            )
        except NotJson:
            raise Refusal(400, wires.REFUSED, "the request is no JSON object") from None
        self.removed |= dict.fromkeys(asked.removed)
        return asked

    # ---- on its way

    async def _pass_on(self, call: CallUnderWay, headers: Mapping[str, str], responder: Responder) -> None:
        wire = call.route.wire
        used_up = self._used_up() if call.route.counts else None
        if used_up is not None:
            call.end, call.text, call.status, call.stop = End.BUDGET, used_up.text, 402, used_up.stop
            self._close(call)
            await self._refuse(responder, wire, Refusal(402, wires.BUDGET, used_up.text))
            return
        try:
            async with self._source.ask(wire, call.path, call.asked, headers) as answer:
                call.status, call.heard = answer.status, time.monotonic()
                call.headers = {name: answer.headers[name] for name in _KEPT if name in answer.headers}
                if answer.status < 400 and answer.in_events:
                    await self._relay_events(call, answer, responder)
                else:
                    await self._relay_whole(call, answer, responder)
        except Unreachable as problem:
            call.end, call.text, call.cut = End.BROKEN, str(problem), PROVIDER
            if responder.begun:
                raise OSError("the answer broke off") from problem  # the client must see that it did
            self._close(call)
            await self._refuse(responder, wire, Refusal(502, wires.UNREACHABLE, str(problem)), retry=True)
        except Diverged as problem:
            call.end, call.text = End.DIVERGED, str(problem)
            self._close(call)
            text = f"the replay diverges: {problem}"
            await self._refuse(responder, wire, Refusal(409, wires.REPLAY, text))

    async def _say_budget(self, wire: Wire, responder: Responder) -> None:
        """Say whether a call would be passed on; a no is the agent's end, as a refused call is."""
        used_up = self._used_up()
        if used_up is None:
            await responder.whole(200, b"{}")
            return
        self._ledger.add(Call(wire, End.BUDGET, 402, text=used_up.text, stop=used_up.stop))
        await self._refuse(responder, wire, Refusal(402, wires.BUDGET, used_up.text))

    def _used_up(self) -> UsedUp | None:
        return self._terms.budget.used_up(Usage.of(self._ledger.calls()))

    async def _relay_events(self, call: CallUnderWay, answer: Answer, responder: Responder) -> None:
        reader, events, kept = call.reader, EventReader(), 0
        call.events = []
        await responder.begin(answer.status, {**answer.headers, "cache-control": "no-cache"})
        async for piece in answer.pieces:
            call.heard = time.monotonic()
            for event in events.feed(piece):
                if self._recorder is not None:
                    kept = _held(kept + len(event.raw))
                    call.events.append(event.raw.decode("utf-8", "replace"))
                reader.event(event)
                if not (call.asked.usage_added and _has_only_usage(event)):
                    await responder.data(event.raw)
        await responder.data(events.rest())
        if reader.error is None and not reader.ended:
            raise Unreachable("the answer ended in the middle")
        call.take_end()
        self._close(call)
        await responder.end()

    async def _relay_whole(self, call: CallUnderWay, answer: Answer, responder: Responder) -> None:
        data = bytearray()
        async for piece in answer.pieces:
            call.heard = time.monotonic()
            data += piece
            _held(len(data))
        if answer.status >= 400:  # some repeat the key that they refuse, and the agent is not to see it
            data = bytearray(SECRETS.redact_bytes(bytes(data)))
        call.body = json_or_text(bytes(data))
        if answer.status >= 400:
            code, message = error_of(call.body)
            call.end = end_of(answer.status, code, message)
            said = ": ".join(filter(None, [code, message or one_line(call.body)]))
            call.text = short(f"HTTP {answer.status} {said}".rstrip())
        elif not isinstance(call.body, dict):
            call.end, call.text = End.BROKEN, f"HTTP {answer.status}, and what came is no JSON object"
        else:
            call.read_whole(call.body)
        self._close(call)
        await responder.whole(answer.status, bytes(data), answer.headers)

    # ---- after it

    def _close(self, call: CallUnderWay) -> None:
        """Note how a call ended, once: before its last byte, as whoever gets that may look at once."""
        if call.closed:
            return
        call.closed = True
        tokens = call.reader.tokens if call.route.counts else None
        model = call.asked.model
        self._ledger.add(
            Call(
                call.route.wire,
                call.end,
                call.status,
                tokens=tokens,
                cost=self._terms.cost_of(tokens) if tokens is not None else None,
                seconds=time.monotonic() - call.begin,
                text=call.text,
                asked_for=model if model != self._terms.model else "",
                counts=call.route.counts,
                stop=call.stop,
                waited=call.waited,
            )
        )
        if self._recorder is not None and call.end is not End.BUDGET:
            self._recorder.add(call.as_exchange())

    def _models(self) -> bytes:
        """Return the list of models, which is one, in a form that all clients read."""
        name = self._terms.model
        model = {"id": name, "object": "model", "created": 0, "owned_by": self._terms.provider}
        model |= {"type": "model", "display_name": name, "created_at": "1970-01-01T00:00:00Z"}
        return json.dumps({"object": "list", "data": [model], "has_more": False}).encode()

    @staticmethod
    async def _refuse(responder: Responder, wire: Wire, refusal: Refusal, *, retry: bool = False) -> None:
        text = f"pytest-rlenv: {refusal.text}"
        body = wires.error_body(wire, refusal.status, refusal.code, text)
        await responder.whole(refusal.status, body, {} if retry else _NO_RETRY)


def _held(size: int) -> int:
    """Return a number of bytes, unless they are more than are held."""
    if size > MOST_ANSWER:
        raise Unreachable(f"an answer is longer than {MOST_ANSWER} bytes")
    return size


def _shown_key(headers: Mapping[str, str]) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    own = headers.get("x-api-key") or headers.get("x-goog-api-key")
    return own or (token.strip() if scheme.lower() == "bearer" else "")


def _has_only_usage(event: Event) -> bool:
    return event.data is not None and event.data.get("choices") == [] and bool(event.data.get("usage"))
