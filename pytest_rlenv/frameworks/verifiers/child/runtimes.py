"""In which runtime a task runs: a container, or a process of this machine for trusted tasks of text."""

from __future__ import annotations

from typing import Any

import verifiers.v1 as vf

from .tasksets import container_reason


def runtime_of(task: Any, *, trusted: bool, harness: str | None = None) -> Any:
    """Return a task's runtime. It is always set: the package's own default is a paid service.

    Args:
        task: the task.
        trusted: True if code may run on this machine outside of a container.
        harness: the id of what will act in it, if anything.
    """
    needs = bool(container_reason(task)) or (harness is not None and _harness_needs_container(harness))
    return vf.SubprocessConfig() if trusted and not needs else vf.DockerConfig()


def _harness_needs_container(harness: str) -> bool:
    config = vf.harness_config_type(harness).model_validate({"id": harness})
    return bool(type(vf.load_harness(config)).NEEDS_CONTAINER)
