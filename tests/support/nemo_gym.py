"""Rows, and servers that speak NeMo Gym's wire: one that answers as a test says, and an installed package."""

from __future__ import annotations

import json
import threading
import time
import uuid
import venv
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import yaml

from pytest_rlenv.frameworks.nemo_gym.responses import message, response
from pytest_rlenv.frameworks.nemo_gym.rows import REQUEST

if TYPE_CHECKING:
    from typing_extensions import Self

EXAMPLE = Path(__file__).parents[2] / "example_envs" / "nemo-gym"
TRICKLE = -1
"""A status that stands for sending byte after byte."""
COOKIE = "Fake___fake"

Body = Any
Answer = Callable[[str, Body], tuple[int, Any]]
"""Makes of a session and a body the status and the answer; an answer that is bytes is sent as it is."""


def row(prompt: Any = "How many?", **fields: Any) -> dict[str, Any]:
    """Return a row; fields of the request are given as ``request``."""
    request = fields.pop("request", {})
    return {REQUEST: {"input": prompt, **request}, **fields}


def write_rows(path: Path, *rows: Mapping[str, Any] | str) -> Path:
    """Write a JSONL file; a text is a line as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [each if isinstance(each, str) else json.dumps(each) for each in rows]
    path.write_text("".join(line + "\n" for line in lines))
    return path


def rollout_line(of: Mapping[str, Any], text: str, reward: Any, **more: Any) -> dict[str, Any]:
    """Return a line of recorded rollouts: the row's request, a response that is a message, and its reward."""
    return {REQUEST: of[REQUEST], "response": response(of, [message(text)], "m"), "reward": reward, **more}


class FakeGym:
    """A server in this process whose routes a test says.

    Args:
        gymnasium: True for ``/reset`` and ``/step`` in place of ``/verify``.
    """

    def __init__(self, *, gymnasium: bool = False) -> None:
        self.asked: list[tuple[str, str, Body]] = []
        """Path, session and body of each call."""
        self.all_sent = False
        self.cookies = True
        self.openapi = True
        self.routes: dict[str, Answer] = {
            "/reset" if gymnasium else "/seed_session": lambda session, body: (200, {}),
            "/step" if gymnasium else "/verify": lambda session, body: (200, {"reward": 1.0}),
        }
        self.closing = threading.Event()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                paths = {path: {"post": {}} for path in fake.routes}
                known = self.path == "/" or fake.openapi
                self.answer(200 if known else 404, {"paths": paths})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                cookie = SimpleCookie(self.headers.get("cookie", "")).get(COOKIE)
                session = cookie.value if cookie else uuid.uuid4().hex
                fake.asked.append((self.path, session, body))
                make = fake.routes.get(self.path)
                status, content = (404, {"detail": "Not Found"}) if make is None else make(session, body)
                if status == TRICKLE:
                    fake.trickle(self.wfile, content)
                    self.close_connection = True
                elif status:
                    self.answer(status, content, session if fake.cookies else None)
                else:  # hang up
                    self.close_connection = True

            def answer(self, status: int, content: Any, session: str | None = None) -> None:
                data = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                if session:
                    self.send_header("set-cookie", f"{COOKIE}={session}; path=/; httponly; samesite=lax")
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def trickle(self, out: IO[bytes], head: bytes) -> None:
        end = time.monotonic() + 60
        with suppress(OSError):
            out.write(head)
            while time.monotonic() < end and not self.closing.wait(0.02):
                out.write(b"x")
            self.all_sent = time.monotonic() >= end

    def hang(self, session: str, body: Body) -> tuple[int, Any]:
        """Answer nothing until the server is closed."""
        self.closing.wait(30)
        return 0, None

    def trickles(self, path: str, head: bytes) -> None:
        """Have a route send a beginning, and then byte after byte; ``all_sent`` tells if nobody broke off."""
        self.routes[path] = lambda session, body: (TRICKLE, head)

    def answers(self, path: str, content: Any, status: int = 200) -> None:
        """Have a route give one answer."""
        self.routes[path] = lambda session, body: (status, content)

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


FAKE_UVICORN = '''
"""Serves what the fake servers call an app: a handler class of http.server."""
from http.server import ThreadingHTTPServer


class Config:
    def __init__(self, app, **options):
        assert not {"host", "port", "workers"} & options.keys()
        self.app = app


class Server:
    def __init__(self, config):
        self.config = config

    def run(self, sockets):
        server = ThreadingHTTPServer(("127.0.0.1", 0), self.config.app, bind_and_activate=False)
        server.daemon_threads = True
        (server.socket,) = sockets
        server.serve_forever()


def run(app, **options):
    raise SystemExit("a server of its own port was started")
'''
FAKE_UTILS = """
def initialize_ray():
    raise SystemExit("Ray was started")
"""
FAKE_APP = """
import json, os, sys
from resources_servers.counter.app import Handler, ROUTES
import nemo_gym.server_utils, uvicorn

CONFIG = json.loads(os.environ["NEMO_GYM_CONFIG_DICT"])
OWN = CONFIG[os.environ["NEMO_GYM_CONFIG_PATH"]]["resources_servers"]["NAME"]

def about(session, body):
    secrets = sorted(name for name in os.environ if "SECRET" in name)
    cache = os.environ["HF_HOME"]
    return {"config": CONFIG, "own": OWN, "cwd": os.getcwd(), "secrets": secrets, "cache": cache}

ROUTES["/about"] = about

class FakeServer:
    @classmethod
    def run_webserver(cls):
        nemo_gym.server_utils.initialize_ray()
        uvicorn.run(Handler, host=OWN["host"], port=OWN["port"], workers=4, timeout_keep_alive=30)

if __name__ == "__main__":
    FakeServer.run_webserver()
"""


def config(name: str, *, instance: str = "", agent: str = "", **own: Any) -> dict[str, Any]:
    """Return the config of a server and its agent, as NeMo Gym's YAML files have it."""
    instance = instance or name
    datasets = own.pop("datasets", [])
    kind, steps = own.pop("kind", "simple_agent"), own.pop("max_steps", None)
    loop: dict[str, Any] = {
        "entrypoint": "app.py",
        "resources_server": {"type": "resources_servers", "name": instance},
        "model_server": {"type": "responses_api_models", "name": "policy_model"},
        "datasets": datasets,
    }
    if steps is not None:
        loop["max_steps"] = steps
    return {
        instance: {"resources_servers": {name: {"entrypoint": "app.py", **own}}},
        agent or f"{name}_simple_agent": {"responses_api_agents": {kind: loop}},
    }


def write_server(root: Path, name: str, app: str = FAKE_APP, **own: Any) -> Path:
    """Write a server below ``resources_servers`` and return its folder."""
    folder = root / "resources_servers" / name
    (folder / "configs").mkdir(parents=True, exist_ok=True)
    (folder / "app.py").write_text(app.replace("NAME", name))
    (folder / "configs" / f"{name}.yaml").write_text(yaml.safe_dump(config(name, **own), sort_keys=False))
    return folder


class FakePackage:
    """An interpreter of its own in which a package called nemo-gym is installed, with servers of ours."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=False, symlinks=True)
        self.python = str(folder / "bin" / "python")
        (self.site,) = folder.glob("lib/python*/site-packages")
        package = self.site / "nemo_gym"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "server_utils.py").write_text(FAKE_UTILS)
        (self.site / "uvicorn.py").write_text(FAKE_UVICORN)
        (self.site / "ours.pth").write_text(str(Path(yaml.__file__).parents[1]))
        info = self.site / "nemo_gym-0.4.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nemo-gym\nVersion: 0.4.0\n")
        counter = self.site / "resources_servers" / "counter"
        counter.mkdir(parents=True)
        source = (EXAMPLE / "resources_servers" / "counter" / "app.py").read_text()
        (counter / "app.py").write_text(source)
