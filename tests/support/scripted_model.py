"""A model server that says what it is told, on four wires: chat completions, responses, messages, Google's.

    with ScriptedModel([use("bash", command="ls"), "done"]) as model:
        ...  # model.url is for OpenAI's wires, model.root for Anthropic's

It keeps what it was asked in ``requests``. A reply is a :class:`Reply`, a text, or a :class:`Failure`; when
there are no more of them, it answers with 400, which no client tries again.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from support.model_script import Failure, Reply, ToolCall, context_exceeded, use
from support.model_wires import CHAT, GOOGLE, MESSAGES, PATHS, RESPONSES, Answer, error_body

__all__ = [
    "CHAT",
    "GOOGLE",
    "MESSAGES",
    "RESPONSES",
    "Failure",
    "Reply",
    "ScriptedModel",
    "Seen",
    "ToolCall",
    "context_exceeded",
    "use",
]

Script = Reply | Failure | str


class Seen(NamedTuple):
    """A request as it came."""

    wire: str
    path: str
    body: dict[str, Any]
    headers: dict[str, str]


class ScriptedModel(AbstractContextManager["ScriptedModel"]):
    """The server; it serves from its making until it is closed.

    Args:
        replies: what to say, one after another; or what makes a reply of a request.
        aside: the reply to requests that offer no tools, such as those for a title, which then take none
            of ``replies``.
        key: what clients must show; ``None`` takes any.
        models: the names of models that there are; any other is answered with 404. ``None`` takes any.
        host: the address to listen at.
        before_event: called before each event of a stream, to hold it up.
    """

    def __init__(
        self,
        replies: Iterable[Script] | Callable[[Seen], Script] = (),
        *,
        aside: Script | None = None,
        key: str | None = None,
        models: Iterable[str] | None = None,
        host: str = "127.0.0.1",
        before_event: Callable[[int], None] | None = None,
    ) -> None:
        self.requests: list[Seen] = []
        self._choose = replies if callable(replies) else None
        self._replies = iter(()) if callable(replies) else iter(replies)
        self._aside = aside
        self.key = key
        self.models = None if models is None else tuple(models)
        self.before_event = before_event
        self._lock = threading.Lock()
        self._server = _Server((host, 0), _Handler)
        self._server.model = self
        self.host = host
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def root(self) -> str:
        """Base URL for Anthropic's wire."""
        return f"http://{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """Base URL for OpenAI's wires."""
        return f"{self.root}/v1"

    @property
    def google_url(self) -> str:
        """Base URL for OpenAI's wires below Google's own."""
        return f"{self.root}/v1beta/openai"

    @property
    def calls(self) -> int:
        """How many requests for a reply have come."""
        return len(self.requests)

    def take(self, seen: Seen) -> tuple[int, Reply | Failure]:
        """Return the number of a request and what to answer."""
        with self._lock:
            self.requests.append(seen)
            number = len(self.requests)
            if self._choose is not None:
                said = self._choose(seen)
            elif self._aside is not None and not seen.body.get("tools"):
                said = self._aside
            else:
                said = next(self._replies, Failure(400, "the script has no more replies"))
        return number, Reply(said) if isinstance(said, str) else said

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __exit__(self, *_: object) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    model: ScriptedModel

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are none of a test's business."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        names = self.server.model.models or ("scripted",)
        if self.path.partition("?")[0].endswith("/models"):
            self._send(200, {"object": "list", "data": [{"id": name, "object": "model"} for name in names]})
        else:
            self._send(404, {"error": {"message": f"no such path: {self.path}"}})

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        path = self.path.partition("?")[0]
        if path.endswith("/messages/count_tokens"):
            self._send(200, {"input_tokens": 42})
            return
        wire = next((wire for end, wire in PATHS.items() if path.endswith(end)), None)
        if wire is None:
            self._send(404, {"error": {"message": f"no such path: {self.path}"}})
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        if wire == GOOGLE:
            body = {**body, "model": path.rpartition("/")[2].partition(":")[0], "stream": ":stream" in path}
        number, said = self._answer(Seen(wire, path, body, headers))
        if isinstance(said, Failure):
            self._fail(wire, said)
            return
        answer = Answer(said, number, str(body.get("model")))
        if not body.get("stream"):
            self._send(200, answer.whole(wire))
            return
        with_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        self._stream(answer.events(wire, with_usage=with_usage))

    def _answer(self, seen: Seen) -> tuple[int, Reply | Failure]:
        model = self.server.model
        shown = seen.headers.get("x-api-key") or seen.headers.get("x-goog-api-key")
        shown = shown or seen.headers.get("authorization", "").removeprefix("Bearer ")
        if model.key is not None and shown != model.key:
            return 0, Failure(401, "Incorrect API key provided.", "invalid_api_key")
        name = str(seen.body.get("model"))
        if model.models is not None and name not in model.models:
            return 0, Failure(404, f"The model `{name}` does not exist.", "model_not_found")
        return model.take(seen)

    def _fail(self, wire: str, failure: Failure) -> None:
        if failure.status == 0:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        more = {"Retry-After": failure.retry_after} if failure.retry_after else {}
        self._send(failure.status, error_body(wire, failure), more)

    def _send(self, status: int, body: dict[str, Any], more: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(more or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, events: Iterable[bytes]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, event in enumerate(events):
            if self.server.model.before_event is not None:
                self.server.model.before_event(number)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")
