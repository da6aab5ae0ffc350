"""Our own HTTP over a Unix socket: connections are used again, and only those that can be."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from pytest_rlenv.sandboxes.docker.unix_http import UnixAnswer, UnixHttp


class Peer:
    """Answers each connection in its own thread by a script: the bytes to send for each request in turn.

    An empty text closes the connection in place of an answer.
    """

    def __init__(self, path: Path, *answers: bytes) -> None:
        self.answers = list(answers)
        self.connections = 0
        self.requests: list[bytes] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self.links: list[socket.socket] = []
        self.hung_up = threading.Event()
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self.links.append(link)
            threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link: socket.socket) -> None:
        with link, link.makefile("rb") as file:
            self._answer(link, file)
        self.hung_up.set()

    def _answer(self, link: socket.socket, file: IO[bytes]) -> None:
        while head := self._head(file):
            self.requests.append(head)
            answer = self.answers.pop(0)
            if not answer:
                return
            link.sendall(answer)
            if b"Connection: close" in answer:
                return

    def _head(self, file: IO[bytes]) -> bytes:
        lines = []
        for line in file:
            lines.append(line)
            if line == b"\r\n":
                return b"".join(lines)
        return b""

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for link in self.links:
            link.close()


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="rl-") as folder:
        yield Path(folder) / "s"


def ask(
    http_: UnixHttp, method: str = "GET", *, stream: bool = False, body: bytes | None = None
) -> UnixAnswer:
    return http_.request(method, "/x?y=1", body=body, stream=stream, connect_timeout=60, timeout=60)


PLAIN = b'HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{"a":1}'
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"4\r\none\n\r\n6\r\ntwo\r\nt\r\n4\r\nhree\r\n0\r\n\r\n"
)
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\nX-Said: yes\r\nContent-Length: 512\r\n\r\n"
LAST = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it"
SWITCHED = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\nfirst"


def test_one_connection_serves_what_is_read_to_its_end(path: Path) -> None:
    peer, unix = Peer(path, PLAIN, EMPTY, HEAD, CHUNKED, PLAIN), UnixHttp(str(path), 4)
    try:
        assert ask(unix).json() == {"a": 1}
        assert ask(unix, "POST").content == b""
        with ask(unix, "HEAD", stream=True) as head:
            assert head.headers.get("x-said") == "yes"
        with ask(unix, stream=True) as streamed:
            assert list(streamed.iter_lines()) == [b"one", b"two", b"three"]
        assert ask(unix).text == '{"a":1}'
        assert peer.connections == 1
        assert peer.requests[0].startswith(b"GET /x?y=1 HTTP/1.1\r\n")
    finally:
        unix.close()
        peer.close()


@pytest.mark.parametrize("first", [CHUNKED, SWITCHED, LAST], ids=["unread", "switched", "last"])
def test_a_connection_with_something_left_is_not_used_again(first: bytes, path: Path) -> None:
    peer, unix = Peer(path, first, PLAIN), UnixHttp(str(path), 4)
    try:
        with ask(unix, stream=True):
            pass
        assert ask(unix).status_code == 200
        assert peer.connections == 2
    finally:
        unix.close()
        peer.close()


def test_an_idle_connection_that_was_closed_is_replaced(path: Path) -> None:
    peer, unix = Peer(path, PLAIN, PLAIN), UnixHttp(str(path), 4)
    try:
        ask(unix)
        peer.links[0].shutdown(socket.SHUT_RDWR)
        assert ask(unix).status_code == 200
        assert peer.connections == 2
    finally:
        unix.close()
        peer.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\nshort",
        b"SSH-2.0-x\r\nConnection: close",
    ],
    ids=["hung-up", "cut", "another-protocol"],
)
def test_a_broken_answer_is_an_error(answer: bytes, path: Path) -> None:
    peer, unix = Peer(path, answer), UnixHttp(str(path), 4)
    try:
        with pytest.raises((OSError, http.client.HTTPException)):
            ask(unix)
    finally:
        unix.close()
        peer.close()


def test_a_refusal_before_the_end_of_a_body_is_read(path: Path) -> None:
    refused = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"
    peer, unix = Peer(path, refused), UnixHttp(str(path), 4)
    try:

        def body() -> Iterator[bytes]:
            yield b"x"
            assert peer.hung_up.wait(60)
            yield b"x" * 1_000_000

        answer = unix.request("PUT", "/x", body=body(), connect_timeout=60, timeout=60)
        assert (answer.status_code, answer.content) == (400, b"no")
    finally:
        unix.close()
        peer.close()


def test_neither_docker_nor_requests_is_imported_for_a_unix_socket() -> None:
    script = (
        "import sys; from pytest_rlenv.sandboxes.docker import client, exec, fetch, images, oom, sandbox\n"
        "print([name for name in ('docker', 'requests', 'urllib3') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
