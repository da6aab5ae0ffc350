"""A Terminal-Bench 1 task in Harbor's terms, so that there is one lifecycle for both.

``task.yaml`` and ``docker-compose.yaml`` become the configuration of a Harbor task; where files lie
elsewhere, or do something else, the task and its one step say so themselves.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import cast

from pytest_rlenv.errors import TaskInvalid, VariableMissing
from pytest_rlenv.frameworks.harbor.config import AgentConfig, EnvironmentConfig, TaskConfig, VerifierConfig
from pytest_rlenv.frameworks.harbor.context_files import context_warnings
from pytest_rlenv.frameworks.harbor.definitions import DOCKERFILE, BoxDefinition
from pytest_rlenv.frameworks.harbor.digest import task_digest
from pytest_rlenv.frameworks.harbor.environment_config import TaskOs
from pytest_rlenv.frameworks.harbor.files import read_folder
from pytest_rlenv.frameworks.harbor.inside import holding, read_inside
from pytest_rlenv.frameworks.harbor.network import NetworkMode
from pytest_rlenv.frameworks.harbor.task import HarborTask
from pytest_rlenv.frameworks.terminal_bench.compose_file import CLIENT, HARNESS_VARIABLES, Client, read_client
from pytest_rlenv.frameworks.terminal_bench.compose_values import COMPOSE_FILE
from pytest_rlenv.frameworks.terminal_bench.config import ParserName, TaskYaml, parse_config
from pytest_rlenv.frameworks.terminal_bench.interpolation import interpolate
from pytest_rlenv.frameworks.terminal_bench.solution import Solution, read_solution
from pytest_rlenv.frameworks.terminal_bench.yaml_text import MAX_YAML_BYTES
from pytest_rlenv.sandboxes.model import BuildOptions, Entry, ImageSpec

CONFIG_FILE = "task.yaml"
RUN_TESTS = "run-tests.sh"
MAX_SCRIPT_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class ClientDefinition(BoxDefinition):
    """The container of a task.

    Attributes:
        options: how its image is built.
        services: True if its compose file says more than a plain container can be.
    """

    options: BuildOptions = field(default_factory=BuildOptions)
    services: bool = False

    @property
    def compose_file(self) -> Path | None:
        """The compose file, where Docker Compose is to read it."""
        return self.folder / COMPOSE_FILE if self.services else None

    @property
    def main_service(self) -> str:
        """The service that is the box."""
        return CLIENT

    @property
    def compose_variables(self) -> Mapping[str, str]:
        """What Terminal-Bench's harness sets."""
        return HARNESS_VARIABLES

    def image(self, slug: str) -> ImageSpec:
        """Return the image to prepare."""
        return replace(super().image(slug), options=self.options)


@dataclass(frozen=True)
class TerminalBenchTask(HarborTask):
    """One task.

    Attributes:
        client: its container.
        solution: its reference solution.
        reasons: why it cannot be run in any sandbox, one line each.
    """

    client: Client = field(kw_only=True)
    solution: Solution = field(kw_only=True)
    reasons: tuple[str, ...] = field(kw_only=True)

    @cached_property
    def digest(self) -> str:
        """``sha256:...`` over all files of the task: each of them may be part of its image."""
        return task_digest(self.root, whole=True)

    @property
    def dockerfile(self) -> Path | None:
        """The Dockerfile, where the image is not a prebuilt one, as far as it is known."""
        path = self.client.context / (self.client.options.dockerfile or DOCKERFILE)
        return path if not self.client.image and path.is_file() else None

    @property
    def agent_definition(self) -> BoxDefinition:
        """What the task's one box is made from."""
        client, environment = self.client, self.config.environment
        where = f"services.{CLIENT}"
        return ClientDefinition(
            where,
            environment,
            client.context,
            client.image,
            TaskOs.LINUX,
            options=client.options,
            services=bool(client.more),
        )

    def environment_entries(self) -> list[Entry]:
        """Return nothing: all files are in the image."""
        return []

    @property
    def names_a_user(self) -> bool:
        """True if the agent may be another user than root, as far as the task's own files tell."""
        if self.client.user is not None:
            return True
        text = self.dockerfile.read_bytes().upper() if self.dockerfile else b""
        return any(line.lstrip().startswith(b"USER ") for line in text.splitlines())

    def with_surroundings(self, environ: Mapping[str, str], *, switches_users: bool) -> TerminalBenchTask:
        """Return the task with its variables filled in, and with root for the tests.

        Args:
            environ: the caller's environment.
            switches_users: True if the sandbox can run a command as another user.

        Raises:
            VariableMissing: variables that the container is to have from the caller have no value.
        """
        env = _filled(self.client.env, environ)
        verifier = {"user": 0} if switches_users or self.names_a_user else {}
        config = self.config.model_copy(
            update={
                "environment": self.config.environment.model_copy(update={"env": env}),
                "verifier": self.config.verifier.model_copy(update=verifier),
            }
        )
        return replace(self, config=config)


def load_task(folder: Path, name: str) -> TerminalBenchTask:
    """Read and check the task in a folder.

    Args:
        folder: holds ``task.yaml``.
        name: the task's name in ids and records.

    Raises:
        TaskInvalid: something that is needed is missing or wrong; the message names the file.
    """
    root = resolved(folder)
    config, warnings = parse_config(read_inside(root, CONFIG_FILE, cap=MAX_YAML_BYTES), CONFIG_FILE)
    client, solution = read_client(root), read_solution(root)
    warnings += [*client.warnings, *_tests_warnings(root), *solution.warnings]
    if client.image is None:
        warnings += context_warnings(root, client.context)
    return TerminalBenchTask(
        name,
        root,
        _as_harbor(config, client),
        config.instruction,
        tuple(dict.fromkeys(warnings)),
        client=client,
        solution=solution,
        reasons=_not_supported(config),
    )


def resolved(folder: Path) -> Path:
    """Return a task's folder with links followed.

    Raises:
        TaskInvalid: there is no such folder.
    """
    try:
        return folder.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise TaskInvalid(f"{folder}: no such folder", detail=str(error)) from None


def _as_harbor(config: TaskYaml, client: Client) -> TaskConfig:
    environment = EnvironmentConfig(
        docker_image=client.image,
        cpus=client.limits.cpus,
        memory_mb=client.limits.memory_mb,
        workdir=client.workdir,
        network_mode=NetworkMode.PUBLIC if client.network else NetworkMode.NO_NETWORK,
    )
    return TaskConfig(
        environment=environment,
        agent=AgentConfig(timeout_sec=config.max_agent_timeout_sec, user=client.user),
        verifier=VerifierConfig(timeout_sec=config.max_test_timeout_sec),
    )


def _not_supported(config: TaskYaml) -> tuple[str, ...]:
    reasons = []
    if config.parser_name is not ParserName.PYTEST:
        name = config.parser_name.value
        reasons.append(f"{CONFIG_FILE}: parser_name: parser {name} is not supported; only pytest is")
    if config.run_tests_in_same_shell:
        reasons.append(f"{CONFIG_FILE}: run_tests_in_same_shell: true needs the agent's own shell")
    return tuple(reasons)


def _tests_warnings(root: Path) -> list[str]:
    """Check what goes to the tests' folder, and return warnings about it.

    Raises:
        TaskInvalid: there is no script that runs the tests, or files cannot be used.
    """
    if not (root / RUN_TESTS).is_file():
        raise TaskInvalid(f"{RUN_TESTS}: not found ({holding(root, root)})")
    read_inside(root, RUN_TESTS, cap=MAX_SCRIPT_BYTES)
    return read_folder(root, root / "tests").warnings


def _filled(env: Mapping[str, str | None], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with their values.

    Raises:
        VariableMissing, TaskInvalid: one has none, or is not written as a compose file has it.
    """
    # A view and no copy: what is taken from the caller's environment is noticed. Nothing is written to it.
    known = ChainMap(dict(HARNESS_VARIABLES), cast("MutableMapping[str, str]", environ))
    found, missing = {}, []
    for name, value in env.items():
        if value is None:
            if name in environ:
                found[name] = environ[name]
            continue
        lacking: list[str] = []
        try:
            found[name] = interpolate(value, known, lacking)
        except ValueError as error:
            raise TaskInvalid(f"{COMPOSE_FILE}: services.{CLIENT}.environment.{name}: {error}") from None
        missing += [f"{variable} (services.{CLIENT}.environment.{name})" for variable in lacking]
    if missing:
        raise VariableMissing(
            f"{COMPOSE_FILE}: not set in the environment: {', '.join(missing)}",
            hint="Set them where pytest runs, or give the task defaults: ${VAR:-default}.",
        )
    return found
