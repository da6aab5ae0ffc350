"""One client's connection to the gate: a tunnel to an allowed host, or one plain HTTP request to it.

To a host that is allowed by its name, a tunnel carries TLS for an allowed name, or plain HTTP, as in Harbor
0.26. To a host that is allowed by its address it carries anything.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from pytest_rlenv.sandboxes.network.bodies import copy_body
from pytest_rlenv.sandboxes.network.client_hello import HANDSHAKE, NotTls, peek_server_name
from pytest_rlenv.sandboxes.network.dialing import Forbidden, NotReached, Resolver, dial, resolve
from pytest_rlenv.sandboxes.network.heads import MAX_HEAD, BadRequest, Head, parse_head, split_url
from pytest_rlenv.sandboxes.network.policy import Policy
from pytest_rlenv.sandboxes.network.stream import Ended, Stream, TooLong
from pytest_rlenv.sandboxes.network.targets import BadTarget, Target, parse_host, parse_target

HEAD_TIMEOUT = 60.0
"""Seconds that a client has to say what it wants, and again inside a tunnel."""

_LINGER, _LINGER_BYTES = 1.0, 1024 * 1024
_HTTP_PORT = 80


class Session:
    """One connection, under the policy that held when it was made.

    Args:
        client: the connection.
        policy: what is allowed.
        deny: told of every refusal: the host and port, and the reason if it is not the obvious one.
        resolver: from names to addresses.
    """

    def __init__(
        self, client: Stream, policy: Policy, deny: Callable[[str], None], resolver: Resolver = resolve
    ) -> None:
        self._client = client
        self._policy = policy
        self._deny = deny
        self._resolver = resolver

    async def serve(self) -> None:
        """Serve the connection to its end; nothing that a client or a server does raises."""
        try:
            await self._serve()
        except BadRequest as bad:
            await self._answer(bad.status, bad.reason)
        except NotReached as problem:
            await self._answer(problem.status, problem.reason)
        except (Ended, OSError):
            pass  # one of the two went away

    async def _serve(self) -> None:
        head = await self._head()
        if head.method == "CONNECT":
            await self._tunnel(_target(head.target))
            return
        scheme, authority, path = split_url(head.target)
        if scheme != "http":
            raise BadRequest("501 Not Implemented", f"{scheme}:// is not passed on; use CONNECT")
        await self._request(head, path, _target(authority, _HTTP_PORT))

    async def _head(self) -> Head:
        try:
            data = await asyncio.wait_for(self._client.read_until(b"\r\n\r\n", MAX_HEAD), HEAD_TIMEOUT)
        except TooLong:
            reason = f"the request's head is longer than {MAX_HEAD} bytes"
            raise BadRequest("431 Request Header Fields Too Large", reason) from None
        except asyncio.TimeoutError:
            raise BadRequest("408 Request Timeout", f"no request within {HEAD_TIMEOUT:g} s") from None
        return parse_head(data)

    # ---- tunnels

    async def _tunnel(self, target: Target) -> None:
        server = await self._dial(target)
        if server is None:
            return
        try:
            await self._client.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
            if self._policy.restricts(target) and not await self._is_tls_for_allowed_name(target):
                await self._request_in_tunnel(target, server)
            else:
                await _both(self._client.copy_all(server), server.copy_all(self._client))
        finally:
            server.close()

    async def _is_tls_for_allowed_name(self, target: Target) -> bool:
        """Return False for plain HTTP.

        Raises:
            Ended: it is something else, or TLS for another site; the client is not answered.
        """
        try:
            first = await asyncio.wait_for(self._client.peek(1), HEAD_TIMEOUT)
            if first.isalpha():
                return False
            if first != bytes([HANDSHAKE]):
                raise NotTls("neither TLS nor HTTP")
            said = await asyncio.wait_for(peek_server_name(self._client), HEAD_TIMEOUT)
            name = parse_host(said)
        except asyncio.TimeoutError:
            self._deny(f"{target.authority} (neither TLS nor HTTP)")
            raise Ended from None
        except (NotTls, BadTarget) as problem:
            if first:
                self._deny(f"{target.authority} ({problem})")
            raise Ended from None
        if not (isinstance(name, str) and self._policy.allows(Target(name, target.port))):
            self._deny(f"{name}:{target.port}")
            raise Ended
        return True

    async def _request_in_tunnel(self, target: Target, server: Stream) -> None:
        """Pass on one plain HTTP request, which is for the tunnel's host whatever it says."""
        head = await self._head()
        if not head.target.startswith("/"):
            raise BadRequest("400 Bad Request", "a request in a tunnel names a path")
        await self._exchange(head, head.target, target, server)

    # ---- plain requests

    async def _request(self, head: Head, path: str, target: Target) -> None:
        server = await self._dial(target)
        if server is None:
            return
        try:
            await self._exchange(head, path, target, server)
        finally:
            server.close()

    async def _exchange(self, head: Head, path: str, target: Target, server: Stream) -> None:
        """Pass on a request and its answer, and no more than one: the next may be for another host."""
        host = target.written_host if target.port == _HTTP_PORT else target.authority
        await server.send(head.rewritten(path, host))

        async def ask() -> None:
            try:
                await copy_body(self._client, server, head.body)
                await self._client.discard()
            except TooLong:
                raise Ended from None
            except OSError:
                pass  # the server wants no more of it, and may have said why
            await asyncio.Event().wait()  # the answer's end is the end

        await _first(ask(), server.copy_all(self._client))
        await self._linger()

    # ----

    async def _dial(self, target: Target) -> Stream | None:
        """Return a connection to the target; ``None`` once the client has been told that there is none."""
        if not self._policy.allows(target):
            why = self._policy.explanation
            self._deny(target.authority)
            await self._answer("403 Forbidden", f"{target.authority} is not allowed: {why}")
            return None
        try:
            return Stream(await dial(target, self._policy.hosts, self._resolver))
        except Forbidden as problem:
            self._deny(f"{target.authority} ({problem})")
            await self._answer("403 Forbidden", f"{target.authority} is not allowed: {problem}")
            return None

    async def _answer(self, status: str, text: str) -> None:
        body = f"pytest-rlenv: {text}\n".encode("utf-8", "backslashreplace")
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n"
        )
        try:
            await self._client.send(head.encode("ascii") + body)
        except OSError:
            return
        await self._linger()

    async def _linger(self) -> None:
        """Let the client read the answer: a connection closed with unread input is reset, answer and all."""
        self._client.end()
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            await asyncio.wait_for(self._client.discard(_LINGER_BYTES), _LINGER)


def _target(authority: str, default_port: int | None = None) -> Target:
    try:
        return parse_target(authority, default_port)
    except BadTarget as bad:
        raise BadRequest("400 Bad Request", str(bad)) from None


async def _both(*ways: Coroutine[Any, Any, None]) -> None:
    """Wait for all; if one fails, the others end, and it is raised."""
    await _wait(ways, asyncio.FIRST_EXCEPTION)


async def _first(*ways: Coroutine[Any, Any, None]) -> None:
    """Wait for the first, and end the others; if it failed, that is raised."""
    await _wait(ways, asyncio.FIRST_COMPLETED)


async def _wait(ways: tuple[Coroutine[Any, Any, None], ...], until: str) -> None:
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        done, _ = await asyncio.wait(tasks, return_when=until)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
