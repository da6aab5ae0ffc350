"""Servers whose HTTP answers break off or never end."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from pytest_rlenv.errors import RlenvError, SandboxFailed
from pytest_rlenv.frameworks.openenv import routes
from pytest_rlenv.frameworks.openenv.routes import Routes, wait_ready
from pytest_rlenv.frameworks.openenv.server import Server

Answer = Callable[[socket.socket, threading.Event], None]


class Raw(Server):
    """Listens in a thread, and answers as it is told."""

    def __init__(self, answer: Answer) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        super().__init__(f"http://127.0.0.1:{self._listening.getsockname()[1]}", "raw")
        self._answer, self.closed = answer, threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while not self.closed.is_set():
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                connection.recv(4096)
                self._answer(connection, self.closed)

    def ended(self) -> str | None:
        return "ended" if self.closed.is_set() else None

    def tail(self) -> str:
        return "last words"

    def close(self) -> None:
        self.closed.set()
        self._listening.close()


@contextmanager
def answering(answer: Answer) -> Iterator[Raw]:
    server = Raw(answer)
    try:
        yield server
    finally:
        server.close()


def breaks_off(connection: socket.socket, closed: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")


def breaks_off_in_a_chunk(connection: socket.socket, closed: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{")


def is_no_gzip(connection: socket.socket, closed: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}")


def never_ends(connection: socket.socket, closed: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    _drip(connection, closed)


def never_ends_its_head(connection: socket.socket, closed: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
    _drip(connection, closed)


def _drip(connection: socket.socket, closed: threading.Event) -> None:
    try:
        while not closed.wait(0.05):
            connection.sendall(b"1")
    except OSError:
        return


@pytest.mark.parametrize("answer", [breaks_off, breaks_off_in_a_chunk, is_no_gzip])
def test_an_answer_that_breaks_off_is_an_error(answer: Answer) -> None:
    with (
        answering(answer) as server,
        closing(Routes(server, 5)) as asked,
        pytest.raises(RlenvError) as caught,
    ):
        asked.schema()
    assert "/schema" in caught.value.message


@pytest.mark.parametrize("answer", [never_ends, never_ends_its_head])
def test_a_server_whose_answer_never_ends_is_ended(answer: Answer) -> None:
    with answering(answer) as server, closing(Routes(server, 0.2)) as asked:
        with pytest.raises(RlenvError) as caught:
            asked.schema()
        assert server.closed.is_set()
    assert caught.value.detail == "last words"


def test_a_server_that_never_ends_saying_that_it_is_healthy_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "REQUEST_SEC", 0.2)
    with answering(never_ends_its_head) as server:
        with pytest.raises(SandboxFailed):
            wait_ready(server, 0.2)
        assert server.closed.is_set()
