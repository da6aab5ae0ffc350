"""A small engine on a Unix socket, for faults that a real one cannot be brought to."""

from __future__ import annotations

import json
import re
import shutil
import socketserver
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.endpoint import Endpoint

VERSION = {"ApiVersion": "1.41", "Version": "99.1.2+test", "Os": "linux"}
INFO = {"ID": "FAKE", "NCPU": 4, "MemTotal": 8 << 30, "Architecture": "x86_64", "Runtimes": {"runc": {}}}


class Answer:
    """What to answer: a status with a JSON body, lines to stream, raw bytes of an upgraded connection that
    ends after them, or nothing at all.
    """

    def __init__(
        self,
        body: Any = None,
        *,
        status: int = 200,
        lines: list[Any] | None = None,
        upgrade: bytes | None = None,
        drop: bool = False,
    ) -> None:
        self.body, self.status, self.lines, self.drop = body, status, lines, drop
        self.upgrade = upgrade
        self.headers: dict[str, str] = {}


class FakeEngine:
    """Routes by ``METHOD regex``, the last added first; every request is noted."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.routes: list[tuple[re.Pattern[str], Callable[[], Answer]]] = []
        self.answer("GET .*/version$", Answer(VERSION))
        self.answer("GET .*/info$", Answer(INFO))
        self.answer("GET .*/_ping$", Answer("OK"))
        self.answer("GET .*/networks", Answer([]))
        self.answer("GET .*/volumes", Answer({"Volumes": []}))

    def answer(self, route: str, *answers: Answer) -> None:
        """Answer a route with each of ``answers`` in turn, and the last one from then on."""
        left = list(answers)
        self.routes.insert(0, (re.compile(route), lambda: left.pop(0) if len(left) > 1 else left[0]))

    def find(self, request: str) -> Answer:
        self.requests.append(request)
        for pattern, make in self.routes:
            if pattern.match(request):
                return make()
        return Answer({"message": f"no route for {request}"}, status=404)

    def count(self, route: str) -> int:
        return sum(bool(re.match(route, request)) for request in self.requests)


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is part of the test."""


def _handler(fake: FakeEngine) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def address_string(self) -> str:
            return "client"

        def log_message(self, *args: Any) -> None:
            pass

        def _serve(self) -> None:
            self._drain()
            answer = fake.find(f"{self.command} {self.path}")
            if answer.drop:
                self.close_connection = True
                return
            if answer.upgrade is not None:
                self.wfile.write(b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
                self.wfile.write(answer.upgrade)
                self.close_connection = True
                return
            if answer.lines is not None:
                body = "".join(json.dumps(line) + "\n" for line in answer.lines).encode()
            else:
                body = json.dumps(answer.body).encode()
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def _drain(self) -> None:
            if self.headers.get("Transfer-Encoding") == "chunked":
                while size := int(self.rfile.readline(), 16):
                    self.rfile.read(size + 2)
                self.rfile.readline()
            else:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))

        do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _serve  # noqa: N815  # named by http.server

    return Handler


@contextmanager
def serving(fake: FakeEngine) -> Iterator[Endpoint]:
    """Serve a fake engine; the socket's path must be short, so it is not in pytest's own folder."""
    folder = Path(tempfile.mkdtemp(prefix="rl-"))
    server = _Server(str(folder / "s"), _handler(fake))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield Endpoint(f"unix://{folder}/s", "the test")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        shutil.rmtree(folder)


@contextmanager
def connected(fake: FakeEngine) -> Iterator[Engine]:
    with serving(fake) as endpoint:
        engine = Engine(endpoint)
        try:
            yield engine
        finally:
            engine.close()
