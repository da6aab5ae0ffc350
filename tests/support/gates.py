"""A gate on this machine's loopback, and servers behind it that remember what came."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address

import pytest

from pytest_rlenv.sandboxes.model import ALLOWLIST
from pytest_rlenv.sandboxes.network.gate import Gate
from pytest_rlenv.sandboxes.network.hosts import Address
from pytest_rlenv.sandboxes.network.policy import Policy
from pytest_rlenv.sandboxes.protocol import Box

LIMIT = 10.0
"""Seconds after which a test that waits for bytes has failed."""


class Server:
    """A TCP server that keeps what each of its connections has sent."""

    def __init__(self, answer: Callable[[socket.socket, bytearray], None], host: str = "127.0.0.1") -> None:
        self.received: list[bytearray] = []
        self._answer = answer
        self._listener = socket.create_server((host, 0), backlog=256)
        self.port = self._listener.getsockname()[1]
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.settimeout(LIMIT)
            received = bytearray()
            self.received.append(received)
            self._connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection, received))
            thread.start()
            self._threads.append(thread)

    def _serve(self, connection: socket.socket, received: bytearray) -> None:
        with connection, contextlib.suppress(OSError):
            self._answer(connection, received)

    def saw(self, end: bytes) -> bool:
        """Return whether the last of what came is ``end``, which may take its time to come."""
        until = time.monotonic() + LIMIT
        while not self.text.endswith(end) and time.monotonic() < until:
            time.sleep(0.01)
        return self.text.endswith(end)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join()
        for connection in self._connections:  # some may be dead without a word
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    @property
    def text(self) -> bytes:
        """What came over all connections."""
        return b"".join(bytes(each) for each in self.received)


def echo(connection: socket.socket, received: bytearray) -> None:
    """Send back whatever comes, and say goodbye when nothing more does."""
    while data := connection.recv(65536):
        received += data
        connection.sendall(data)
    connection.sendall(b"bye")


def web(connection: socket.socket, received: bytearray) -> None:
    """Answer the first request once its head is there, and read on to the end."""
    while b"\r\n\r\n" not in received:
        data = connection.recv(65536)
        if not data:
            return
        received += data
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
    connection.shutdown(socket.SHUT_WR)
    while data := connection.recv(65536):
        received += data


@contextmanager
def serving(answer: Callable[[socket.socket, bytearray], None], host: str = "127.0.0.1") -> Iterator[Server]:
    server = Server(answer, host)
    try:
        yield server
    finally:
        server.close()


class Door:
    """A gate whose box is this machine, with names that lead where the test says."""

    def __init__(self, *allowed: str, names: dict[str, str] | None = None) -> None:
        names = {name: ip_address(address) for name, address in (names or {}).items()}
        listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.address = listener.getsockname()

        async def resolve(name: str) -> list[Address]:
            return [names[name]] if name in names else []

        self.gate = Gate(listener, Policy.of(ALLOWLIST, allowed), resolve)

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, LIMIT)

    def ask(self, data: bytes, *, end: bool = False) -> bytes:
        """Send all of it and return all that comes back; without ``end``, more could follow."""
        with self.connect() as client:
            client.sendall(data)
            if end:
                client.shutdown(socket.SHUT_WR)
            return read_all(client)

    def tunnel(self, authority: str) -> socket.socket:
        """Return a connection through to a server."""
        client = self.connect()
        client.sendall(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
        answer = read_until(client, b"\r\n\r\n")
        assert answer == b"HTTP/1.1 200 Connection established\r\n\r\n"
        return client


def read_all(client: socket.socket) -> bytes:
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := client.recv(65536):
            data += piece
    return data


def read_until(client: socket.socket, end: bytes) -> bytes:
    data = b""
    while not data.endswith(end):
        piece = client.recv(1)
        assert piece, f"closed after {data!r}"
        data += piece
    return data


def client_hello(name: str | None) -> bytes:
    """Return what a TLS client sends first."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    return outgoing.read()


FETCH = """
# fetch HOST PORT, as a program does that heeds http_proxy
proxy=${http_proxy#http://}
to=${proxy:-$1:$2}
exec 3<>"/dev/tcp/${to%:*}/${to##*:}" || exit 7
printf 'GET %s/ HTTP/1.1\\r\\nHost: %s\\r\\nConnection: close\\r\\n\\r\\n' "${proxy:+http://$1:$2}" "$1" >&3
cat <&3
"""


def fetch(box: Box, name: str, port: int) -> str:
    """Return what a program in a box gets from a web site."""
    done = box.run(["bash", "-c", FETCH, "fetch", name, str(port)], timeout=20)
    assert not done.timed_out
    return done.output.decode()


def own_address() -> str:
    """Return an address of this machine that is not its loopback; without one, skip the test."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no address but its loopback")
        return str(probe.getsockname()[0])
