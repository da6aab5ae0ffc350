"""A resources server as NeMo Gym has them, with the standard library alone: a counter for each session.

It speaks what NeMo Gym's agents ask for: ``/seed_session`` begins a session, which is known by its cookie;
each tool is a route of its own; ``/verify`` gives the reward. Start it by hand with ``python app.py 8000``, or
let pytest-rlenv start it: then its socket is descriptor 3, as systemd hands sockets over.
"""

import json
import os
import socket
import sys
import uuid
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COOKIE = "CounterResourcesServer___counter"
SESSIONS = {}


class Refused(Exception):
    """What the server does not take, with the status and the detail that it answers."""

    def __init__(self, status, detail):
        super().__init__(status, detail)
        self.status, self.detail = status, detail


def seed_session(session, body):
    SESSIONS[session] = field(body, "initial_count")
    return {}


def increment_counter(session, body):
    known(session)
    SESSIONS[session] += field(body, "count")
    return {"success": True}


def get_counter_value(session, body):
    return {"count": known(session)}


def verify(session, body):
    """Judge by the counter. The rows of verdicts.jsonl say how to go wrong, in ``fault``."""
    expected = field(body, "expected_count")
    if not isinstance(body.get("response"), dict):
        raise Refused(422, [{"loc": ["body", "response"], "msg": "Field required"}])
    count = known(session)
    answer = {**body, "reward": float(count == expected), "count": count}
    fault = body.get("fault")
    if fault == "raises":
        raise ValueError("the counter is stuck")
    if fault == "judge":
        answer |= {
            "reward": 0.0,
            "mask_sample": True,
            "failure_kind": "judge_failed",
            "failure_reason": "timed out",
        }
    if fault == "null":
        answer["reward"] = None
    if fault == "none":
        del answer["reward"]
    if fault == "text":
        answer["reward"] = "good"
    return answer


def field(body, name):
    """Return a whole number of a body, or refuse the body as NeMo Gym's servers do."""
    if not isinstance(body.get(name), int):
        raise Refused(422, [{"loc": ["body", name], "msg": "Field required", "input": body}])
    return body[name]


def known(session):
    if session not in SESSIONS:
        raise Refused(400, "Session not initialized. Please call seed_session first.")
    return SESSIONS[session]


ROUTES = {f"/{f.__name__}": f for f in (seed_session, increment_counter, get_counter_value, verify)}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/openapi.json":
            self.answer(200, {"paths": {path: {"post": {}} for path in ROUTES}})
        else:
            self.answer(200, {"status": "ok"})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        cookie = SimpleCookie(self.headers.get("cookie", "")).get(COOKIE)
        session = cookie.value if cookie else uuid.uuid4().hex
        route = ROUTES.get(self.path)
        if route is None:
            self.answer(404, {"detail": "Not Found"})
            return
        try:
            self.answer(200, route(session, body), session)
        except Refused as refused:
            self.answer(refused.status, {"detail": refused.detail}, session)
        except Exception as error:  # NeMo Gym answers with the exception's words, too
            print(repr(error), file=sys.stderr, flush=True)
            self.answer(500, repr(error))

    def answer(self, status, content, session=None):
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        if session:
            self.send_header("set-cookie", f"{COOKIE}={session}; Path=/; HttpOnly; SameSite=lax")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format, *args):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True


def main():
    if os.environ.get("LISTEN_FDS") == "1":
        server = Server(("127.0.0.1", 0), Handler, bind_and_activate=False)
        server.socket = socket.socket(fileno=3)
    else:
        server = Server(("127.0.0.1", int(sys.argv[1])), Handler)
    server.serve_forever()


if __name__ == "__main__":
    main()
