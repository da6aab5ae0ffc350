"""Answers from a recording, as the provider would give them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from pytest_rlenv.model_proxy.recording import CLIENT, PROVIDER, Exchange
from pytest_rlenv.model_proxy.replaying import Replay
from pytest_rlenv.model_proxy.requests import Asked
from pytest_rlenv.model_proxy.upstream import Answer, Unreachable
from pytest_rlenv.model_proxy.wires import Wire


class ReplaySource:
    """Asks a replay.

    Args:
        replay: the recorded calls.
    """

    def __init__(self, replay: Replay) -> None:
        self.replay = replay

    @asynccontextmanager
    async def ask(
        self, wire: Wire, path: str, asked: Asked, headers: Mapping[str, str]
    ) -> AsyncIterator[Answer]:
        """Give the recorded answer.

        Raises:
            Diverged: there is none. Unreachable: the provider did not answer then.
        """
        exchange = self.replay.answer(path, asked.body)
        if exchange.status == 0 and exchange.cut == PROVIDER:
            raise Unreachable("the recording says that the provider could not be reached")
        if exchange.status == 0:
            await asyncio.Event().wait()
        headers = dict(exchange.headers)
        if "retry-after" in headers:
            headers["retry-after"] = "0"  # nobody is to wait for a recording
        yield Answer(exchange.status, _pieces(exchange), headers)


async def _pieces(exchange: Exchange) -> AsyncIterator[bytes]:
    if exchange.events is not None:
        for event in exchange.events:
            yield event.encode()
    elif not exchange.cut:
        body = exchange.body
        yield body.encode() if isinstance(body, str) else json.dumps(body).encode()
    if exchange.cut == CLIENT:
        await asyncio.Event().wait()  # it did not wait for more then, and will not now
