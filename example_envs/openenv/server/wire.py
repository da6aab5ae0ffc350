"""OpenEnv's wire in the standard library: HTTP for health, schemas and tasks, and /ws for episodes.

A real environment uses `openenv.core`'s `create_app` in place of this file. What goes over the wire is the same.
"""

import base64
import hashlib
import json
import os
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class BadAction(Exception):
    """The action does not have the fields that it should."""


class Server(ThreadingHTTPServer):
    """Serves one environment class; each WebSocket gets an object of its own, up to a capacity."""

    daemon_threads = True

    def __init__(self, address, environment, capacity=1, handler=None):
        super().__init__(address, handler or Handler)
        self.environment = environment
        self.capacity = capacity
        self.active = 0
        self.lock = threading.Lock()

    def handle_error(self, request, client_address):
        """Say nothing of clients that are gone."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        environment = self.server.environment
        if self.path.partition("?")[0] == "/ws":
            return self.upgrade()
        answers = {
            "/health": lambda: {"status": "healthy"},
            "/metadata": lambda: {"name": environment.name, "description": environment.__doc__},
            "/schema": lambda: environment.schema,
            "/list_environments": lambda: [environment.name],
            f"/{environment.name}/splits": lambda: [
                {"name": each, "type": "train"} for each in environment.tasks
            ],
        }
        if self.path not in answers:
            return self.answer(404, {"detail": "Not Found"})
        if self.path.endswith("/splits") and not environment.tasks:
            return self.answer(501, {"detail": "no tasks are listed"})
        return self.answer(200, answers[self.path]())

    def do_POST(self):
        environment = self.server.environment
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "{}")
        tasks = environment.tasks.get(body.get("split"), [])
        if self.path == f"/{environment.name}/num_tasks":
            return self.answer(200, {"num_tasks": len(tasks)})
        if self.path == f"/{environment.name}/task_range":
            return self.answer(200, {"tasks": tasks[body.get("start", 0) : body.get("stop")]})
        return self.answer(404, {"detail": "Not Found"})

    def answer(self, status, content):
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    # ---- /ws

    def upgrade(self):
        key = self.headers.get("Sec-WebSocket-Key", "")
        accept = base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode()
        self.send_response(101, "Switching Protocols")
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", accept)
        self.end_headers()
        self.close_connection = True
        server = self.server
        with server.lock:
            full = server.active >= server.capacity
            server.active += not full
        if full:
            told = f"Server at capacity: {server.active}/{server.capacity} sessions active."
            self.send(
                error(told, "CAPACITY_REACHED", active_sessions=server.active, max_sessions=server.capacity)
            )
            self.send_frame(0x8, struct.pack("!H", 1000))
            while self.receive() is not None:  # what the client sent meanwhile, or the answer is lost with it
                pass
            return
        try:
            self.session(server.environment())
        finally:
            with server.lock:
                server.active -= 1

    def session(self, environment):
        """Answer one frame after the other, until the client closes or is gone."""
        while (text := self.receive()) is not None:
            try:
                frame = json.loads(text)
            except ValueError as problem:
                self.send(error(f"Invalid JSON: {problem}", "INVALID_JSON"))
                continue
            if frame.get("type") == "close":
                return self.send_frame(0x8, struct.pack("!H", 1000))
            self.send(self.reply(environment, frame))

    def reply(self, environment, frame):
        """Return the answer to a frame."""
        data = frame.get("data", {})
        try:
            if frame.get("type") == "reset":
                return observation(environment.reset(**data))
            if frame.get("type") == "step":
                return observation(environment.step(data))
            if frame.get("type") == "state":
                return {"type": "state", "data": environment.state()}
        except BadAction as problem:
            return error("Invalid message", "VALIDATION_ERROR", errors=problem.args[0])
        except Exception as problem:
            return error(str(problem), "EXECUTION_ERROR")
        return error(f"Unknown message type: {frame.get('type')}", "UNKNOWN_TYPE")

    def send(self, frame):
        self.send_frame(0x1, json.dumps(frame).encode())

    def send_frame(self, opcode, data):
        size = len(data)
        if size < 126:
            head = struct.pack("!BB", 0x80 | opcode, size)
        elif size < 65536:
            head = struct.pack("!BBH", 0x80 | opcode, 126, size)
        else:
            head = struct.pack("!BBQ", 0x80 | opcode, 127, size)
        self.wfile.write(head + data)

    def receive(self):
        """Return the next message as text, None when the client is gone."""
        message = b""
        while True:
            head = self.rfile.read(2)
            if len(head) < 2:
                return None
            opcode, size = head[0] & 0x0F, head[1] & 0x7F
            if size == 126:
                size = struct.unpack("!H", self.rfile.read(2))[0]
            elif size == 127:
                size = struct.unpack("!Q", self.rfile.read(8))[0]
            mask = self.rfile.read(4)
            data = bytes(byte ^ mask[i % 4] for i, byte in enumerate(self.rfile.read(size)))
            if opcode == 0x8:
                self.send_frame(0x8, data[:2])
                return None
            if opcode == 0x9:
                self.send_frame(0xA, data)
            elif opcode in (0x0, 0x1, 0x2):
                message += data
                if head[0] & 0x80:
                    return message.decode()


def observation(answer):
    """Return the frame for what a reset or a step gives: what is shown, the reward, and whether it is over."""
    shown, reward, done = answer
    return {"type": "observation", "data": {"observation": shown, "reward": reward, "done": done}}


def error(message, code, **more):
    """Return the frame for an error."""
    return {"type": "error", "data": {"message": message, "code": code, **more}}


def serve(environment, host, port):
    """Serve an environment until the process is ended."""
    server = Server((host, port), environment, int(os.environ.get("MAX_CONCURRENT_ENVS", "1")))
    print(f"serving {environment.name} on {host}:{server.server_address[1]}", flush=True)
    server.serve_forever()
