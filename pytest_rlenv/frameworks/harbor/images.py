"""Which images a task's boxes start from: told by ``task.toml`` and by which files there are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_rlenv.errors import Unsupported
from pytest_rlenv.frameworks.harbor.config import StepConfig, TaskConfig
from pytest_rlenv.frameworks.harbor.definitions import BoxDefinition, agent_definition, verifier_definition
from pytest_rlenv.frameworks.harbor.inside import relative_name
from pytest_rlenv.sandboxes.model import ImageSpec


def all_definitions(root: Path, config: TaskConfig) -> list[BoxDefinition]:
    """Return what the boxes of a task are made from, the agent's first.

    Args:
        root: the task's folder.
        config: its ``task.toml``.
    """
    steps: Sequence[StepConfig | None] = config.steps or (None,)
    found = [agent_definition(root, config)]
    found += [own for step in steps if (own := verifier_definition(root, config, step))]
    return found


def all_images(root: Path, config: TaskConfig, slug: str, *, build: bool = False) -> tuple[ImageSpec, ...]:
    """Return the images of all boxes of the task: the agent's, and those of separate verifiers.

    Args:
        root: the task's folder.
        config: its ``task.toml``.
        slug: a readable word for the tag of an image that is built.
        build: build what can be, also where a prebuilt image is named.

    Raises:
        Unsupported: it has services beside its boxes, which only an engine can run; names the file.
    """
    found = all_definitions(root, config)
    for definition in found:
        if (file := definition.compose_file) is not None:
            raise Unsupported(f"{relative_name(root, file)}: only a container engine can run its services")
    chosen = [definition.built() if build else definition for definition in found]
    return tuple(dict.fromkeys(definition.image(slug) for definition in chosen))
