"""A task's ``docker-compose.yaml``: which variables it is filled in with, as Harbor 0.26 fills it in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pytest_rlenv.frameworks.harbor.definitions import BoxDefinition
from pytest_rlenv.sandboxes.model import LEFT_OUT, ComposeSpec, ImageSpec

_LOGS = {"verifier": "VERIFIER_LOGS", "agent": "AGENT_LOGS", "artifacts": "ARTIFACTS"}


def with_services(
    image: ImageSpec,
    definition: BoxDefinition,
    root: Path,
    *,
    environ: Mapping[str, str],
    variables: Mapping[str, str],
) -> ImageSpec:
    """Return the image of a box together with the services beside it, if there are any.

    Args:
        image: the image of the box alone.
        definition: what the box is made from.
        root: the task's folder.
        environ: the caller's environment.
        variables: those that ``task.toml`` sets in the box.
    """
    file = definition.compose_file
    if file is None:
        return image
    filled = _variables(definition, environ, variables)
    return replace(image, compose=ComposeSpec(file, root, filled, definition.main_service))


def _variables(
    definition: BoxDefinition, environ: Mapping[str, str], variables: Mapping[str, str]
) -> dict[str, str]:
    """Return what ``${NAME}`` stands for; what Harbor itself sets wins over the task's variables."""
    config = definition.config
    own = {"MAIN_IMAGE_NAME": "rlenv-main", "CONTEXT_DIR": str(definition.folder)}
    if definition.docker_image:
        own["PREBUILT_IMAGE_NAME"] = definition.docker_image
    if config.cpus is not None:
        own["CPUS"] = str(config.cpus)
    if config.memory_mb:
        own["MEMORY"] = f"{config.memory_mb}M"
    for name, word in _LOGS.items():
        # Older tasks mount their logs from these; they are fetched from the box all the same.
        own[f"HOST_{word}_PATH"] = str(LEFT_OUT / name)
        own[f"ENV_{word}_PATH"] = f"/logs/{name}"
    # All of the caller's variables are there to be filled in; only those that the file names are taken.
    everything = dict(environ.items())
    taken = {name: environ[name] for name in _words_of(definition) & everything.keys()}
    return {**everything, **taken, **variables, **own, **definition.compose_variables}


def _words_of(definition: BoxDefinition) -> set[str]:
    """Return every word of the Compose file that could name a variable."""
    file = definition.compose_file
    text = file.read_bytes().decode("utf-8", errors="replace") if file is not None else ""
    return set(re.findall(r"[A-Za-z_]\w*", text))
