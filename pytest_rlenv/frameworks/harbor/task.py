"""A Harbor task as it is read from its folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pytest_rlenv.errors import TaskInvalid
from pytest_rlenv.frameworks.harbor import layout
from pytest_rlenv.frameworks.harbor.config import RlenvMetadata, TaskConfig, parse_config
from pytest_rlenv.frameworks.harbor.config_text import MAX_CONFIG_BYTES
from pytest_rlenv.frameworks.harbor.definitions import (
    COMPOSE_FILE,
    DOCKERFILE,
    BoxDefinition,
    agent_definition,
)
from pytest_rlenv.frameworks.harbor.digest import task_digest
from pytest_rlenv.frameworks.harbor.files import read_folder
from pytest_rlenv.frameworks.harbor.inside import read_inside
from pytest_rlenv.frameworks.harbor.instruction import read_instruction
from pytest_rlenv.sandboxes.model import Entry

CONFIG_FILE = "task.toml"
TRAJECTORY_FILE = "trajectory.json"
"""What an agent has done before the task begins: in the task's folder, or in that of its first step."""


@dataclass(frozen=True)
class HarborTask:
    """One task, checked: everything that it needs to run is there.

    Attributes:
        name: its name in ids and records.
        root: its folder, resolved.
        config: its ``task.toml``.
        instruction: the text for the agent; empty for a task of several steps.
        warnings: what its author should know, one line each.
    """

    name: str
    root: Path
    config: TaskConfig
    instruction: str
    warnings: tuple[str, ...] = field(default=())

    @cached_property
    def digest(self) -> str:
        """``sha256:...`` over the files that make the task, as in Harbor's lock file."""
        return task_digest(self.root)

    @cached_property
    def rlenv(self) -> RlenvMetadata:
        """What the task says of its rewards in ``[metadata.rlenv]``."""
        return self.config.rlenv

    @property
    def environment_dir(self) -> Path:
        """The build context; it may be missing where ``docker_image`` is set."""
        return self.root / "environment"

    @property
    def dockerfile(self) -> Path | None:
        """The Dockerfile, if there is one; with a ``docker_image`` it is not used."""
        return self._definition(DOCKERFILE)

    @property
    def compose_file(self) -> Path | None:
        """The ``docker-compose.yaml``, if there is one."""
        return self._definition(COMPOSE_FILE)

    @property
    def agent_definition(self) -> BoxDefinition:
        """What the agent's box is made from."""
        return agent_definition(self.root, self.config)

    def environment_entries(self) -> list[Entry]:
        """Return the loose files for the working directory of a prebuilt image, relative to it.

        There are some only where ``docker_image`` is set and ``environment/`` has nothing to build from.

        Raises:
            TaskInvalid: the files have changed since the task was loaded and cannot be used any more.
        """
        if not self.has_loose_files:
            return []
        return read_folder(self.root, self.environment_dir).entries()

    @property
    def has_loose_files(self) -> bool:
        """True if files of ``environment/`` are put into the working directory of a prebuilt image."""
        prebuilt = bool(self.config.environment.docker_image)
        return prebuilt and not self.dockerfile and not self.compose_file and self.environment_dir.is_dir()

    def _definition(self, name: str) -> Path | None:
        path = self.environment_dir / name
        return path if path.is_file() else None


def load_task(root: Path, name: str) -> HarborTask:
    """Read and check the task in a folder.

    Args:
        root: the folder that holds ``task.toml``.
        name: the task's name in ids and records.

    Raises:
        TaskInvalid: something that Harbor 0.26 needs is missing or wrong; the message names the file.
    """
    root, config, warnings = read_config(root)
    layout.check_services(root, config)
    warnings += layout.check_artifacts(config) + layout.check_verifier_environments(config)
    warnings += layout.check_environment(root, config)
    instruction = ""
    if config.steps:
        warnings += layout.check_steps(root, config)
    else:
        instruction, about = read_instruction(root)
        warnings += about + layout.check_tests(root, config)
    warnings += layout.check_solution(root, config.environment.os, root / "solution")
    task = HarborTask(name, root, config, instruction, tuple(dict.fromkeys(warnings)))
    if task.has_loose_files:
        more = read_folder(root, task.environment_dir).warnings
        task = HarborTask(name, root, config, instruction, tuple(dict.fromkeys([*task.warnings, *more])))
    return task


def read_config(root: Path) -> tuple[Path, TaskConfig, list[str]]:
    """Return a task's folder, resolved, with its ``task.toml`` and one warning for each odd field there.

    Raises:
        TaskInvalid: there is no such folder, or the file is missing or wrong.
    """
    try:
        root = root.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise TaskInvalid(f"{root}: no such folder", detail=str(error)) from None
    config, warnings = parse_config(read_inside(root, CONFIG_FILE, cap=MAX_CONFIG_BYTES), CONFIG_FILE)
    return root, config, warnings
