"""``docker-compose.yaml`` of a task, as what it is for nearly all tasks: one container from a Dockerfile.

Terminal-Bench 1 wants this file of every task. What is only there for its harness (names, log folders, a
command that sleeps) is dropped, and what describes the container is taken over, so that any sandbox can run
it. A file that says more is left to Docker Compose as a whole.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_rlenv.errors import TaskInvalid
from pytest_rlenv.frameworks.harbor.inside import holding, read_inside, relative_name, resolve_inside
from pytest_rlenv.frameworks.terminal_bench.client_limits import Limits, read_limits
from pytest_rlenv.frameworks.terminal_bench.compose_values import (
    COMPOSE_FILE,
    listed,
    mapping,
    scalar,
    shown,
    sleeps,
    variables,
)
from pytest_rlenv.frameworks.terminal_bench.interpolation import interpolate
from pytest_rlenv.frameworks.terminal_bench.yaml_text import MAX_YAML_BYTES, parse_yaml
from pytest_rlenv.sandboxes.model import LEFT_OUT, BuildOptions

DOCKERFILE = "Dockerfile"
CLIENT = "client"
"""The service in which the agent acts and the tests run."""

TEST_DIR = "/tests"
CLIENT_IMAGE = "rlenv/terminal-bench-client"
"""Stands for the image that is built from the task's Dockerfile; there is none of this name."""

HARNESS_VARIABLES: Mapping[str, str] = {
    "T_BENCH_TEST_DIR": TEST_DIR,
    "T_BENCH_CONTAINER_LOGS_PATH": "/logs",
    "T_BENCH_CONTAINER_AGENT_LOGS_PATH": "/agent-logs",
    "T_BENCH_TASK_LOGS_PATH": f"{LEFT_OUT}/logs",
    "T_BENCH_TASK_AGENT_LOGS_PATH": f"{LEFT_OUT}/agent-logs",
    "T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME": CLIENT_IMAGE,
    "T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME": "rlenv-client",
    "T_BENCH_TASK_DOCKER_NAME_PREFIX": "rlenv",
}
"""What Terminal-Bench's harness sets for the compose file."""

_LOG_VOLUMES = frozenset({f"{LEFT_OUT}/logs:/logs", f"{LEFT_OUT}/agent-logs:/agent-logs"})
_NO_EFFECT = frozenset(
    (
        *("container_name", "expose", "init", "labels", "logging", "pull_policy", "restart"),
        *("stdin_open", "stop_grace_period", "stop_signal", "tty"),
    )
)
_READ_APART = frozenset({"build", "image", "environment"})
_TOP_LEVEL = frozenset({"services", "version", "name"})
_MACHINES = {
    "x86_64": "linux/amd64",
    "amd64": "linux/amd64",
    "aarch64": "linux/arm64",
    "arm64": "linux/arm64",
}


@dataclass(frozen=True)
class Client:
    """The container of a task.

    Attributes:
        context: the folder that its image is built from.
        options: how it is built.
        image: a prebuilt image, where nothing is to be built.
        env: its variables as they stand in the file; ``None`` takes the caller's value, if there is one.
        workdir: its working directory; ``None`` is the image's.
        user: who the agent is; ``None`` is the image's user.
        network: False for a container without a network.
        limits: its processors and memory.
        more: what the file says beyond a plain container, a phrase each. If there is any, the file is for
            Docker Compose to read, and all else keeps its default but ``image`` and ``env``.
        warnings: what its author should know, one line each.
    """

    context: Path
    options: BuildOptions = field(default_factory=BuildOptions)
    image: str | None = None
    env: Mapping[str, str | None] = field(default_factory=lambda: {"TEST_DIR": TEST_DIR})
    workdir: str | None = None
    user: str | None = None
    network: bool = True
    limits: Limits = field(default_factory=Limits)
    more: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def read_client(root: Path) -> Client:
    """Return the container that a task describes.

    Args:
        root: the task's folder, resolved.

    Raises:
        TaskInvalid: the compose file is wrong, or there is no Dockerfile.
    """
    if (root / COMPOSE_FILE).exists():
        document = parse_yaml(read_inside(root, COMPOSE_FILE, cap=MAX_YAML_BYTES), COMPOSE_FILE)
        client = _Reader(root, document).client()
    else:
        client = Client(root, warnings=(f"{COMPOSE_FILE}: not found, which Terminal-Bench 1 refuses",))
    if client.image is None and not client.more:
        dockerfile = client.context / (client.options.dockerfile or DOCKERFILE)
        if not resolve_inside(root, dockerfile).is_file():
            there = holding(root, client.context)
            raise TaskInvalid(f"{relative_name(root, dockerfile)}: not found ({there})")
    return client


class _Reader:
    """Reads one compose file, and keeps what a plain container cannot be."""

    def __init__(self, root: Path, document: Any) -> None:
        self.root = root
        self.more: list[str] = []
        self.warnings: list[str] = []
        self.document = mapping(document, "the file")
        self.services = mapping(self.document.get("services"), "services")
        if CLIENT not in self.services:
            raise TaskInvalid(f"{COMPOSE_FILE}: no service `{CLIENT}` (it has {listed(self.services)})")
        self.service = mapping(self.services[CLIENT], f"services.{CLIENT}")

    def client(self) -> Client:
        self._look_around()
        client = Client(*self._build(), self._image(), self._environment())
        for key, value in self.service.items():
            if key not in _NO_EFFECT | _READ_APART and not str(key).startswith("x-"):
                client = self._with(client, str(key), value)
        if self.more:
            return Client(self.root, image=client.image, env=client.env, more=tuple(self.more))
        return replace(client, warnings=tuple(self.warnings))

    def _look_around(self) -> None:
        others = [name for name in self.services if name != CLIENT]
        if others:
            self.more.append(f"services beside the {CLIENT} ({listed(others)})")
        for key, value in self.document.items():
            if key not in _TOP_LEVEL and not str(key).startswith("x-") and value:
                self.more.append(shown(key))

    def _with(self, client: Client, key: str, value: Any) -> Client:
        """Return the client with what one key of the service says."""
        where = f"services.{CLIENT}.{key}"
        if key == "working_dir":
            return replace(client, workdir=self._text(value, where))
        if key == "user":
            return replace(client, user=self._text(value, where))
        if key == "network_mode" and value in ("none", "bridge", "default"):
            return replace(client, network=value != "none")
        if key in ("cpus", "mem_limit", "deploy"):
            limits = read_limits(key, value, client.limits)
            if limits is not None:
                return replace(client, limits=limits)
        if key == "ports":
            self._warn(f"{where}: not published; only the container itself has them")
        elif not self._means_nothing_here(key, value, where):
            self.more.append(f"{where} = {shown(value)}")
        return client

    def _means_nothing_here(self, key: str, value: Any, where: str) -> bool:
        if key == "command":
            return sleeps(value)
        if key == "platform":
            return bool(value == _MACHINES.get(platform.machine().lower()))
        return key == "volumes" and isinstance(value, list) and set(self._texts(value, where)) <= _LOG_VOLUMES

    def _image(self) -> str | None:
        if "build" in self.service:
            return None
        where = f"services.{CLIENT}"
        if not self.service.get("image") and "extends" in self.service:
            return None
        if not self.service.get("image"):
            raise TaskInvalid(f"{COMPOSE_FILE}: {where} has neither `build` nor `image`")
        image = self._text(self.service["image"], f"{where}.image")
        if image == CLIENT_IMAGE:
            raise TaskInvalid(f"{COMPOSE_FILE}: {where} has no `build`, so nothing makes its image")
        return image

    def _build(self) -> tuple[Path, BuildOptions]:
        where = f"services.{CLIENT}.build"
        build = self.service.get("build", ".")
        table = {"context": build} if isinstance(build, str) else mapping(build, where)
        for key in table.keys() - {"context", "dockerfile", "args", "target"}:
            self.more.append(f"{where}.{shown(key)}")
        name = self._text(table.get("context", "."), f"{where}.context")
        folder = (self.root / name).resolve()
        if not folder.is_relative_to(self.root):
            self.more.append(f"{where}.context = {shown(name)}")
        file, target = (self._text(table.get(k, ""), f"{where}.{k}") for k in ("dockerfile", "target"))
        args = self._arguments(table.get("args"), f"{where}.args")
        return folder, BuildOptions("" if file == DOCKERFILE else file, args=args, target=target)

    def _arguments(self, value: Any, where: str) -> tuple[tuple[str, str], ...]:
        found = []
        for name, content in variables(value, where):
            if content is None:
                self.more.append(f"{where}.{shown(name)} without a value")
            else:
                found.append((name, self._text(content, f"{where}.{name}")))
        return tuple(sorted(found))

    def _environment(self) -> dict[str, str | None]:
        given = variables(self.service.get("environment"), f"services.{CLIENT}.environment")
        return {"TEST_DIR": TEST_DIR, **dict(given)}

    def _text(self, value: Any, where: str) -> str:
        """Return a scalar as text, filled in; variables of the caller's are for Docker Compose."""
        missing: list[str] = []
        try:
            text = interpolate(scalar(value, where), HARNESS_VARIABLES, missing)
        except ValueError as error:
            raise TaskInvalid(f"{COMPOSE_FILE}: {where}: {error}") from None
        if missing:
            self.more.append(f"{where} with the variable {missing[0]}")
        return text

    def _texts(self, values: list[Any], where: str) -> Iterator[str]:
        for value in values:
            yield self._text(value, where) if isinstance(value, str) else shown(value)

    def _warn(self, warning: str) -> None:
        self.warnings.append(f"{COMPOSE_FILE}: {warning}")
