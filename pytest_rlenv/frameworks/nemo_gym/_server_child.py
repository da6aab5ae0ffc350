"""Runs one resources server in the user's interpreter: without Ray, without a head server, without uv.

``_server_child.py FACTS`` with FACTS as JSON: behind the word ``token`` the port is printed once there is
one, ``entry`` is the program, run in its own folder. A server of NeMo Gym (with ``instance``) is started by
its own ``run_webserver``, which finds its config where NeMo Gym leaves it for its children; what it would
start besides is left out. Any other program is given its listening socket as systemd gives it: descriptor 3,
and ``LISTEN_FDS=1``.
"""

from __future__ import annotations

import json
import os
import pathlib
import runpy
import socket
import sys
from typing import Any
from urllib.parse import urlsplit

LISTEN_FD = 3
BACKLOG = 128


def main() -> None:
    """Run the server until the process is ended."""
    facts = json.loads(sys.argv[1])
    entry = pathlib.Path(facts["entry"])
    listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    port = listener.getsockname()[1]
    os.chdir(entry.parent)
    sys.path[:0] = [str(entry.parent), *facts["path"]]
    sys.argv = [str(entry)]
    if facts["nemo_gym"]:
        _prepare_nemo_gym(facts, listener, port)
    else:
        os.dup2(listener.fileno(), LISTEN_FD)
        os.environ |= {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
        _tell(facts["token"], port)
    runpy.run_path(str(entry), run_name="__main__")


def _prepare_nemo_gym(facts: dict[str, Any], listener: socket.socket, port: int) -> None:
    """Put the server's config in place, and have uvicorn serve our socket once the server asks for it."""
    config = _config(facts, port)
    os.environ |= {"NEMO_GYM_CONFIG_DICT": json.dumps(config), "NEMO_GYM_CONFIG_PATH": facts["instance"]}
    import nemo_gym.server_utils  # type: ignore[import-not-found] # of the interpreter that runs this
    import uvicorn  # type: ignore[import-not-found] # likewise

    def run(app: Any, **options: Any) -> None:
        # of all options these would have it listen elsewhere, or in further processes
        kept = {name: value for name, value in options.items() if name not in ("host", "port", "workers")}
        server = uvicorn.Server(uvicorn.Config(app, **kept))
        _tell(facts["token"], port)
        server.run(sockets=[listener])

    uvicorn.run = run
    if not facts["ray"] and hasattr(nemo_gym.server_utils, "initialize_ray"):
        nemo_gym.server_utils.initialize_ray = lambda *args, **options: None


def _config(facts: dict[str, Any], port: int) -> dict[str, Any]:
    """Return what NeMo Gym's command line would have made of the server's YAML file."""
    import yaml

    document: dict[str, Any] = {}
    if facts["config"]:
        document = yaml.safe_load(pathlib.Path(facts["config"]).read_text(encoding="utf-8"))
    instance, name = facts["instance"], facts["name"]
    own = document.get(instance, {}).get("resources_servers", {}).get(name, {})
    own |= {"host": "127.0.0.1", "port": port, "entrypoint": pathlib.Path(facts["entry"]).name}
    own.setdefault("domain", "other")
    document[instance] = {"resources_servers": {name: own}}
    if facts["judge_url"]:
        address = urlsplit(facts["judge_url"])
        judge = {"host": address.hostname, "port": address.port or 80}
        document |= {judged: {"responses_api_models": {"judge": judge}} for judged in facts["judges"]}
    document.setdefault("head_server", {"host": "127.0.0.1", "port": port})
    document.setdefault("dry_run", False)
    return document


def _tell(token: str, port: int) -> None:
    os.write(1, f"\n{token}{port}\n".encode())  # at once, whatever else is printed


if __name__ == "__main__":
    main()
