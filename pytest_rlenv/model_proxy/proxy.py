"""The model's server for one rollout: in the box, on this machine, or both."""

from __future__ import annotations

import secrets
import socket
import threading

from pytest_rlenv.agents.model_endpoint import ModelEndpoint
from pytest_rlenv.model_proxy.endings import Turn
from pytest_rlenv.model_proxy.exchange import Exchanges, Source, Terms
from pytest_rlenv.model_proxy.ledger import Ledger
from pytest_rlenv.model_proxy.recording import Recorder
from pytest_rlenv.model_proxy.replay_source import ReplaySource
from pytest_rlenv.model_proxy.serving import serve_http
from pytest_rlenv.model_proxy.upstream import Upstream
from pytest_rlenv.sandboxes.network.accepting import Accepting
from pytest_rlenv.sandboxes.network.background import BackgroundLoop
from pytest_rlenv.sandboxes.network.stream import Stream

_LOOPBACK = "127.0.0.1"


def new_key() -> str:
    """Return a key for one rollout. Some clients only take what begins like a provider's."""
    return f"sk-rlenv-{secrets.token_hex(20)}"


class ModelProxy:
    """Serves one rollout's agent, from the making of its box to the end. Safe to use from several threads.

    Args:
        terms: what holds for its calls.
        source: where answers come from; an :class:`Upstream` is closed with the proxy.
        ledger: where calls are noted.
        recorder: keeps calls; closed with the proxy.
        loop: where all of it runs; the proxy is one of its users and takes leave.
    """

    def __init__(
        self, terms: Terms, source: Source, ledger: Ledger, recorder: Recorder | None, loop: BackgroundLoop
    ) -> None:
        self._terms = terms
        self._source = source
        self._ledger = ledger
        self._recorder = recorder
        self._loop: BackgroundLoop | None = loop
        self._lock = threading.Lock()
        self._exchanges = Exchanges(terms, source, ledger, recorder)
        self._in_box: Accepting | None = None
        self._here: Accepting | None = None
        self._ports: dict[str, int] = {}
        self._seen = 0

    # ---- where it is reached

    def take_listener(self, listener: socket.socket) -> None:
        """Serve a box's listening socket, in the place of an earlier one of the same box."""
        with self._lock:
            if self._loop is None:
                listener.close()
                return
            self._ports["box"] = listener.getsockname()[1]
            self._in_box = self._loop.run(self._served(listener, self._in_box, self._loop))

    def open_here(self) -> None:
        """Serve a port of this machine's loopback, too."""
        with self._lock:
            if self._loop is None or self._here is not None:
                return
            listener = socket.create_server((_LOOPBACK, 0), backlog=128)
            self._ports["here"] = listener.getsockname()[1]
            self._here = self._loop.run(self._served(listener, None, self._loop))

    def endpoint(self, *, from_box: bool) -> ModelEndpoint:
        """Return what an agent is told, once there is a socket to serve.

        Args:
            from_box: True for the address as the box knows it, False for this machine's.
        """
        root = f"http://{_LOOPBACK}:{self._ports['box' if from_box else 'here']}"
        return ModelEndpoint(
            openai_base_url=f"{root}/v1",
            anthropic_base_url=root,
            google_base_url=root,
            key=self._terms.key,
            model=self._terms.model,
            provider=self._terms.provider,
            wires=tuple(wire.value for wire in self._terms.wires),
        )

    # ---- while an agent acts

    def begin(self, *, hosted_tools: bool) -> None:
        """Answer from now on.

        Args:
            hosted_tools: False takes the provider's own tools out of requests: the agent's network is not
                the whole world, and they would be a way around that.
        """
        self._exchanges.hosted_tools = hosted_tools
        self._exchanges.open = True

    def end(self) -> None:
        """Answer no more, and cut what is under way."""
        self._exchanges.open = False
        with self._lock:
            if self._loop is not None:
                for accepting in (self._in_box, self._here):
                    if accepting is not None:
                        self._loop.run(accepting.cut())

    def take_turn(self) -> Turn:
        """Return what was called since this was last asked."""
        calls = self._ledger.calls(self._seen)
        self._seen += len(calls)
        removed, self._exchanges.removed = tuple(self._exchanges.removed), {}
        return Turn(calls, removed)

    def left_unasked(self) -> str | None:
        """Return what of a recording was not asked for, if something was not."""
        replay = self._source.replay if isinstance(self._source, ReplaySource) else None
        if replay is None or not replay.left:
            return None
        return f"{replay.left} of {len(replay)} recorded calls of the model were not made"

    @property
    def recording_problem(self) -> str:
        """Why the recording is not complete; empty if it is."""
        return self._recorder.problem if self._recorder is not None else ""

    def forget_recording(self) -> None:
        """Drop what is recorded: the rollout does not come to its end. A recording of before stays."""
        if self._recorder is not None:
            self._recorder.drop()

    def close(self) -> None:
        """End all of it; may be called twice."""
        self._exchanges.open = False
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            try:
                loop.run(self._closed())
            finally:
                loop.release()
                if self._recorder is not None:
                    self._recorder.close()

    # ---- on the loop

    async def _served(
        self, listener: socket.socket, before: Accepting | None, loop: BackgroundLoop
    ) -> Accepting:
        if before is not None:
            await before.shut()
        return Accepting(listener, self._serve, loop.slots)

    async def _serve(self, client: Stream) -> None:
        await serve_http(client, self._exchanges.handle)

    async def _closed(self) -> None:
        for accepting in (self._in_box, self._here):
            if accepting is not None:
                await accepting.shut()
        if isinstance(self._source, Upstream):
            await self._source.close()
