"""What an ``openenv.yaml`` says that matters here, read as tolerantly as they are written.

OpenEnv 0.10 itself reads a handful of fields. What people write beside these differs from one environment
to the next (``runtime`` is a text or a map, ``tasks`` a list of texts or of maps), so what is of another form
than expected is as if it were not there, with a warning where it would have mattered.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_rlenv import yaml_reader

NAMES = ("openenv.yaml", "openenv.yml")
POINTERS = ("environment.yaml", "environment.yml")
"""Files of a dataset that name an environment which is elsewhere."""

PORT = 8000
"""Where a server listens in its container, where nothing says otherwise."""
TIMEOUT_SEC = 600.0
"""Seconds for an episode, where nothing says otherwise."""
INJECTED_STATE, SCRIPT = "injected_state", "script"

_IMAGES = "registry.hf.space"
_MOST_BYTES = 1024 * 1024


class ManifestInvalid(ValueError):
    """It is no YAML map; the message says why."""


@dataclass(frozen=True)
class Manifest:
    """What an environment says of itself.

    Attributes:
        name: its name.
        file: the file, relative to the environment's folder; empty where there is none.
        app: the ASGI app as ``module:name``.
        port: where the server listens in its container; ``None`` where it is not said.
        tasks: the list of tasks as it is written there.
        task_counts: how many tasks its server has by its own account, for each split.
        reward_range: lowest and highest reward; ``None`` where it declares none.
        oracle_tolerance, floor_margin: how far below the highest reward a reference may be, and one that does
            nothing must be; ``None`` where they are not declared.
        timeout_sec: seconds for an episode.
        cpus, memory_mb, gpus: what its server needs.
        network: ``public``, ``no-network`` or ``allowlist``.
        requires_credentials: it cannot be run without somebody's keys.
        oracle_form: :data:`INJECTED_STATE` or :data:`SCRIPT`; ``None`` where no reference is declared.
        oracle_location: the file or folder of that.
        set_state: reset takes an injected state.
        canaries: file or folder of episodes that must not score.
        probe: the file of a recorded episode that is no reference.
        dockerfile, context: how its image is built, relative to its folder; empty where it is not said.
        image: an image to start instead.
        rows: the file of a dataset whose rows are arguments of reset.
        warnings: what could not be used, one line each.
    """

    name: str = ""
    file: str = ""
    app: str = "server.app:app"
    port: int | None = None
    tasks: tuple[Any, ...] = ()
    task_counts: Mapping[str, int] = field(default_factory=dict)
    reward_range: tuple[float, float] | None = None
    oracle_tolerance: float | None = None
    floor_margin: float | None = None
    timeout_sec: float = TIMEOUT_SEC
    cpus: float | None = None
    memory_mb: int | None = None
    gpus: int = 0
    network: str = "public"
    requires_credentials: bool = False
    oracle_form: str | None = None
    oracle_location: str | None = None
    set_state: bool = False
    canaries: str | None = None
    probe: str = "validation/runtime.json"
    dockerfile: str = ""
    context: str = ""
    image: str | None = None
    rows: str | None = None
    warnings: tuple[str, ...] = field(default=(), compare=False)


def read_manifest(folder: Path, file: str) -> Manifest:
    """Read an environment's ``openenv.yaml``.

    Raises:
        ManifestInvalid: it cannot be read, or is no map.
    """
    content = _load(folder / file)
    port = {} if "port" in content else _port_of_card(folder / "README.md")
    return _Reader({**content, **port}).manifest(file)


def read_pointer(folder: Path, file: str) -> Manifest | None:
    """Read a dataset's ``environment.yaml``; ``None`` if it names no environment of OpenEnv's.

    Raises:
        ManifestInvalid: it cannot be read, or is no map.
    """
    content = _load(folder / file)
    frameworks = content.get("frameworks")
    ours = frameworks.get("openenv") if isinstance(frameworks, Mapping) else None
    if not isinstance(ours, Mapping):
        return None
    reader = _Reader({**content, **ours})
    space, image = reader.text(ours, "space_id"), reader.text(ours, "image")
    return replace(
        reader.manifest(file),
        image=image or (image_of_space(space) if space else None),
        rows=reader.text(ours, "rows") or reader.text(ours, "tasks") or reader.text(content, "rows"),
    )


def image_of_space(space: str) -> str:
    """Return the image of a Docker Space of the Hub."""
    slug = "".join(char if char.isascii() and char.isalnum() else "-" for char in space.lower())
    return f"{_IMAGES}/{slug}:latest"


def _port_of_card(readme: Path) -> dict[str, Any]:
    """Return the port that a Space's card declares."""
    try:
        front, found, _ = readme.read_text(encoding="utf-8", errors="replace").partition("\n---")
        card = yaml_reader.loads(front.removeprefix("---")) if found and front.startswith("---") else None
    except (OSError, yaml_reader.NotYaml):
        return {}
    port = card.get("app_port") if isinstance(card, Mapping) else None
    return {} if port is None else {"port": port}


def _load(path: Path) -> Mapping[str, Any]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ManifestInvalid(f"{path.name} cannot be read: {error.strerror}") from None
    if len(data) > _MOST_BYTES:
        raise ManifestInvalid(f"{path.name} has {len(data)} bytes, which is no manifest")
    try:
        content = yaml_reader.loads(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise ManifestInvalid(f"{path.name} is not UTF-8") from None
    except yaml_reader.NotYaml as error:
        raise ManifestInvalid(f"{path.name} is not YAML: {error}") from None
    if not isinstance(content, Mapping):
        raise ManifestInvalid(f"{path.name} holds {type(content).__name__}, not a map")
    return content


class _Reader:
    """Takes values of one form, and notes those of another."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._content = content
        self._warnings: list[str] = []

    def manifest(self, file: str) -> Manifest:
        content = self._content
        validation = self._map(content, "validation")
        resources = self._map(validation, "resources")
        capabilities = self._map(validation, "capabilities")
        oracle = self._map(capabilities, "oracle")
        execution = self._map(validation, "execution")
        reward = self._map(validation, "reward")
        tasks = content.get("tasks")
        memory, gpus = self._number(resources, "memory_mb"), self._number(resources, "gpus")
        port = self._number(content, "port")
        found = Manifest(
            name=self.text(content, "name") or "",
            file=file,
            app=self.text(content, "app") or Manifest.app,
            port=int(port) if port is not None and 0 < port < 65536 else None,
            tasks=tuple(tasks) if isinstance(tasks, list) else (),
            task_counts=self._counts(capabilities, "declared_task_count"),
            reward_range=self._range(reward, content),
            oracle_tolerance=self._number(reward, "oracle_tolerance"),
            floor_margin=self._number(reward, "floor_margin"),
            timeout_sec=self._positive(resources, "episode_timeout_s") or TIMEOUT_SEC,
            cpus=self._positive(resources, "cpu"),
            memory_mb=int(memory) if memory else None,
            gpus=int(gpus or 0),
            network=self.text(self._map(validation, "network"), "mode") or "public",
            requires_credentials=execution.get("requires_credentials") is True,
            oracle_form=self.text(oracle, "form"),
            oracle_location=self.text(oracle, "location"),
            set_state=capabilities.get("set_state") is True,
            canaries=self.text(capabilities, "canaries"),
            probe=self.text(execution, "probe_path") or Manifest.probe,
            dockerfile=self.text(execution, "dockerfile") or "",
            context=self.text(execution, "context") or "",
        )
        return replace(found, warnings=tuple(f"{file}: {line}" for line in self._warnings))

    def text(self, table: Mapping[str, Any], key: str) -> str | None:
        """Return a text that is not empty; some write a map where OpenEnv wants a text."""
        value = table.get(key)
        return value.strip() or None if isinstance(value, str) else None

    def _map(self, table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        value = table.get(key)
        if value is not None and not isinstance(value, Mapping):
            self._warnings.append(f"{key} is {type(value).__name__}, not a map: it is not used")
        return value if isinstance(value, Mapping) else {}

    def _number(self, table: Mapping[str, Any], key: str) -> float | None:
        value = table.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
        if value is not None:
            self._warnings.append(f"{key} is {value!r}, not a number: it is not used")
        return None

    def _counts(self, table: Mapping[str, Any], key: str) -> dict[str, int]:
        found = {}
        for split, count in self._map(table, key).items():
            if isinstance(count, int) and not isinstance(count, bool) and count >= 0:
                found[str(split)] = count
            else:
                self._warnings.append(f"{key}: {split} is {count!r}, no number of tasks: it is not used")
        return found

    def _positive(self, table: Mapping[str, Any], key: str) -> float | None:
        value = self._number(table, key)
        if value is not None and value <= 0:
            self._warnings.append(f"{key} is {value:g}, which nothing could run in: it is not used")
            return None
        return value

    def _range(self, validation: Mapping[str, Any], content: Mapping[str, Any]) -> tuple[float, float] | None:
        """Return the declared range, also where it is declared as people do without the block for it."""
        outside = content.get("reward")
        loose = outside.get("range") if isinstance(outside, Mapping) else None
        for value in (validation.get("range"), content.get("reward_range"), loose):
            if isinstance(value, Mapping):
                value = [value.get("min"), value.get("max")]
            if isinstance(value, (list, tuple)) and len(value) == 2:
                numbers = [self._number({"range": each}, "range") for each in value]
                low, high = numbers
                if low is not None and high is not None and low < high:
                    return low, high
            if value is not None:
                self._warnings.append(f"the range of rewards {value!r} is none: it is not used")
        return None
