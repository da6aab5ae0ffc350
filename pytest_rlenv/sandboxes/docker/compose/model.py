"""A Compose file as Compose understands it: merged with what every box needs, variables filled in.

Order of merging, as in Harbor 0.26: first what makes ``main`` a box, then the file, so that the file wins.
What must hold whatever the file says is applied to the model afterwards.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_rlenv.errors import SandboxFailed, Stage, TaskInvalid
from pytest_rlenv.sandboxes.docker.builds import build_timeout
from pytest_rlenv.sandboxes.docker.compose.command import run_compose
from pytest_rlenv.sandboxes.docker.compose.findings import relative_name
from pytest_rlenv.sandboxes.model import ComposeSpec, ImageSpec

MAIN = "main"
"""The service that is the box."""

KEEPER = ("rlenv-keeper",)
"""Stands for the keeper's command where the file gives ``main`` none of its own."""

_PROJECT = "rlenv"
_DOLLAR, _ESCAPED = "$", "$$"

Model = dict[str, Any]


def read_model(
    program: Path, compose: ComposeSpec, image: ImageSpec, scratch: Path, *, timeout: float | None
) -> Model:
    """Return the model of a Compose file, as plain values.

    Args:
        program: ``docker compose``.
        compose: the file.
        image: what ``main`` is made from where the file does not say so.
        scratch: a folder for files in between.
        timeout: seconds.

    Raises:
        TaskInvalid: Compose refuses the file. SandboxFailed: it prints something else than a model.
        StageTimeout: it takes too long.
    """
    base = scratch / "base.json"
    base.write_text(json.dumps(escaped({"services": {compose.main: _main(image)}})), encoding="utf-8")
    folder = compose.file.parent
    files = ("--file", base, "--file", compose.file)
    answer = run_compose(
        program,
        ("--project-name", _PROJECT, "--project-directory", folder, *files, "config", "--format", "json"),
        environ=_environ(compose.env),
        folder=folder,
        timeout=timeout,
    )
    if answer.exit_code is None:
        raise build_timeout()
    name = relative_name(compose.root, compose.file)
    if answer.exit_code:
        raise TaskInvalid(
            f"{name}: docker compose refuses it: {answer.complaint}", detail=answer.stderr, stage=Stage.BUILD
        )
    try:
        model: Model = unescaped(json.loads(answer.stdout))
    except ValueError as error:
        raise SandboxFailed(
            f"{name}: docker compose printed no JSON ({error}): {answer.stdout[:200]!r}", stage=Stage.BUILD
        ) from None
    return model


def has_keeper(main: Model) -> bool:
    """True if the service ``main`` of a model is kept up by our keeper, and not by a command of its own."""
    return tuple(main.get("command") or ()) == KEEPER


def escaped(value: Any) -> Any:
    """Return a value with every text in it as a Compose file has to give it, so that no variable is in it."""
    return _replaced(value, _DOLLAR, _ESCAPED)


def unescaped(value: Any) -> Any:
    """Return a value from a model, with every text in it as it is meant."""
    return _replaced(value, _ESCAPED, _DOLLAR)


def _replaced(value: Any, old: str, new: str) -> Any:
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, list):
        return [_replaced(each, old, new) for each in value]
    if isinstance(value, dict):
        return {key: _replaced(each, old, new) for key, each in value.items()}
    return value


def _main(image: ImageSpec) -> Model:
    made = {"image": image.name} if image.name is not None else {"build": {"context": str(image.context)}}
    return {**made, "command": list(KEEPER)}


def _environ(variables: Mapping[str, str]) -> dict[str, str]:
    """Return what Compose sees: the file's variables, and what any program needs to run."""
    needed = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return needed | dict(variables)
