"""A container that runs its image's own command as a server, one port of which is published on this machine.

It is made, labelled, limited and removed as a box is; it differs in what PID 1 is, so nothing can be killed
in it but all of it.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

from pytest_rlenv.errors import BoxUnfit, SandboxFailed, Unsupported
from pytest_rlenv.sandboxes.docker import archive
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.endpoint import Endpoint
from pytest_rlenv.sandboxes.docker.exec import Exec
from pytest_rlenv.sandboxes.docker.failures import EngineRefused, refusals_as_errors
from pytest_rlenv.sandboxes.docker.hostconfig import check_warnings, host_config
from pytest_rlenv.sandboxes.docker.labels import box_labels
from pytest_rlenv.sandboxes.docker.parts import Parts
from pytest_rlenv.sandboxes.docker.postmortem import inspect, is_root, start_refused, tail_of_log
from pytest_rlenv.sandboxes.docker.removal import remove_container
from pytest_rlenv.sandboxes.model import (
    PUBLIC,
    BoxSpec,
    Completed,
    Entry,
    ImageRef,
    SandboxContext,
    ServerSpec,
)
from pytest_rlenv.sandboxes.output import Demultiplexer, HeadTail
from pytest_rlenv.sandboxes.starts import Starts

LOOPBACK = "127.0.0.1"
LOG_CAP = "8m"
"""Most that the engine keeps of what a server prints."""

_LOG_BYTES = 8 * 1024 * 1024
_TAIL_LINES = 40
_TAIL_BYTES = 64 * 1024
_OUTPUT_CAP = 1024 * 1024
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_.-]+")


class DockerServer:
    """A running server; see :class:`~pytest_rlenv.sandboxes.protocol.ServerBox`."""

    def __init__(self, parts: Parts, container: str, address: tuple[str, int], spec: ServerSpec) -> None:
        self._parts = parts
        self._engine = parts.engine
        self._container = container
        self._spec = spec
        self._closed = False
        self.address = address

    @property
    def id(self) -> str:
        """The container's id."""
        return self._container

    def ended(self) -> str | None:
        """Return how it ended; ``None`` while it runs."""
        if self._closed:
            return "it was closed"
        try:
            with refusals_as_errors():
                found = inspect(self._engine, self._container)
        except Exception as error:  # an engine that does not answer has no server for anybody
            return str(error)
        if found is None:
            return "its container was removed"
        state = found["State"]
        if state.get("Running"):
            return None
        return f"exit code {state.get('ExitCode')}{', out of memory' if state.get('OOMKilled') else ''}"

    def tail(self) -> str:
        """Return the last lines that it printed; empty where they cannot be had."""
        return self._output(_TAIL_BYTES, {"tail": _TAIL_LINES}).decode("utf-8", "replace").strip()

    def put(self, entries: Sequence[Entry], dest: str = "/") -> None:
        """Write files below ``dest`` as root.

        Raises:
            SandboxFailed: the container is gone or refuses. DiskFull, EngineUnavailable.
        """
        with refusals_as_errors():
            archive.put(self._engine, self._container, entries, dest)

    def run(self, argv: Sequence[str], *, timeout: float, env: Mapping[str, str] | None = None) -> Completed:
        """Run a command as root beside the server; one that times out is left to run.

        Raises:
            SandboxFailed: it cannot be started, or the container died. EngineUnavailable.
        """
        begin = time.monotonic()
        with refusals_as_errors():
            command = Exec(self._engine, self._container, argv, user=0, env=env, cap=_OUTPUT_CAP)
            with closing(command):
                timed_out = not command.pump(begin + timeout)
                code, started = (None, True) if timed_out else command.result()
        if not started:
            raise SandboxFailed(
                f"{argv[0]!r} cannot be started beside the server",
                detail=command.output.both.value().decode(errors="replace"),
            )
        return command.output.completed(
            code,
            timed_out=timed_out,
            seconds=time.monotonic() - begin,
        )

    def close(self) -> None:
        """Remove it, and leave its log; never raises, and may be called twice."""
        if self._closed:
            return
        self._closed = True
        if self._spec.log is not None:
            with contextlib.suppress(OSError):
                self._spec.log.write_bytes(self._output(_LOG_BYTES, {}))
        self._parts.disposal.discard(self._container)

    def _output(self, cap: int, params: Mapping[str, Any]) -> bytes:
        kept = HeadTail(cap)
        with contextlib.suppress(Exception):  # whoever asks has something else to tell
            answer = self._engine.request(
                "GET",
                f"/containers/{self._container}/logs",
                params={"stdout": 1, "stderr": 1, **params},
                doing="read the server's log",
            )
            Demultiplexer(lambda _, data: kept.write(data)).feed(answer.content)
        return kept.value()


def start_server(
    parts: Parts, context: SandboxContext, starts: Starts, image: ImageRef, spec: ServerSpec
) -> DockerServer:
    """Start a server; nothing is left of one that fails.

    Raises:
        Unsupported: the engine is on another machine, or cannot hold it to its limits.
        BoxUnfit: its image has no command, or one that cannot be started.
        EngineRefused, EngineUnavailable, SandboxFailed.
    """
    engine = parts.engine
    check_near(engine.endpoint)
    found = engine.find(f"/images/{image.id}/json", doing=f"look at image {image.name}") or {}
    config = found.get("Config") or {}
    if not (spec.command or config.get("Cmd") or config.get("Entrypoint")):
        raise BoxUnfit(f"image {image.name} has no command to start a server with", hint="add a CMD to it")
    port = spec.port or _only_port(config) or spec.default_port
    owner = _NOT_IN_NAMES.sub("-", f"{context.session[:8]}-{context.worker}")
    name = f"rlenv-{owner}-{secrets.token_hex(6)}"
    box = BoxSpec(cpus=spec.cpus, memory_mb=spec.memory_mb, lifetime=spec.lifetime, labels=spec.labels)
    body = _body(image, spec, box, config, port, context)
    container = name
    parts.boxes.add(name)
    try:
        with parts.slots.take(starts.check):
            created = engine.request(
                "POST", "/containers/create", params={"name": name}, body=body, doing="create the server"
            )
            container = str(created.json()["Id"])
            parts.boxes.add(container)
            starts.check()
            check_warnings(box, created.json().get("Warnings") or ())
            _start(engine, container)
        published = _published(engine, container, port)
    except BaseException:
        remove_container(engine, container)
        parts.forget(container)
        raise
    finally:
        parts.forget(name)
    return DockerServer(parts, container, (LOOPBACK, published), spec)


def check_near(endpoint: Endpoint) -> None:
    """See that what an engine publishes on its machine's loopback can be reached from here.

    Raises:
        Unsupported: it is another machine.
    """
    host = urlsplit(endpoint.url).hostname or ""
    if endpoint.socket_path is None and host not in ("", "localhost", "::1") and not host.startswith("127."):
        raise Unsupported(
            f"the engine at {endpoint} is on another machine, where a server would have to be open to all"
        )


def _body(
    image: ImageRef,
    spec: ServerSpec,
    box: BoxSpec,
    config: Mapping[str, Any],
    port: int,
    context: SandboxContext,
) -> dict[str, Any]:
    host = host_config(box, keep_output=True, as_root=is_root(str(config.get("User") or "")))
    host["LogConfig"]["Config"]["max-size"] = LOG_CAP
    host["PortBindings"] = {f"{port}/tcp": [{"HostIp": LOOPBACK, "HostPort": ""}]}
    body: dict[str, Any] = {
        "Image": image.id,
        "Env": [f"{name}={value}" for name, value in spec.env.items()],
        "Labels": box_labels(context, box),
        "StopSignal": "SIGKILL",
        "ExposedPorts": {f"{port}/tcp": {}},
        "HostConfig": host,
    }
    if spec.command:
        body["Cmd"] = list(spec.command)
    assert box.network == PUBLIC  # a published port needs one
    return body


def _start(engine: Engine, container: str) -> None:
    try:
        engine.request("POST", f"/containers/{container}/start", doing="start the server")
    except EngineRefused as refused:
        raise start_refused(refused) from refused


def _published(engine: Engine, container: str, port: int) -> int:
    """Return the port of this machine that leads to the container's."""
    found = inspect(engine, container) or {}
    ports = (found.get("NetworkSettings") or {}).get("Ports") or {}
    for each in ports.get(f"{port}/tcp") or ():
        if each.get("HostPort"):
            return int(each["HostPort"])
    state = found.get("State") or {}
    code = "" if state.get("Running") else f" (it ended with exit code {state.get('ExitCode')})"
    raise SandboxFailed(
        f"the engine has not published port {port} of the server{code}",
        detail=tail_of_log(engine, container),
    )


def _only_port(config: Mapping[str, Any]) -> int | None:
    """Return the TCP port that an image exposes, if it is one."""
    exposed = [name for name in config.get("ExposedPorts") or {} if name.endswith("/tcp")]
    return int(exposed[0].partition("/")[0]) if len(exposed) == 1 else None
