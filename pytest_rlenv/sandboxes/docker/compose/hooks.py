"""Commands that a Compose file has run in a service once it is started."""

from __future__ import annotations

import time
from collections.abc import Iterable

from pytest_rlenv.errors import BoxUnfit, Stage
from pytest_rlenv.sandboxes.docker.box import DockerBox
from pytest_rlenv.sandboxes.docker.compose.model import Model


def run_start_hooks(box: DockerBox, name: str, hooks: Iterable[Model], *, deadline: float) -> None:
    """Run a service's ``post_start`` commands, one after the other.

    Args:
        box: the service's.
        name: the service's.
        hooks: as in the model.
        deadline: a time of :func:`time.monotonic`.

    Raises:
        BoxUnfit: a command fails or does not end; with its output.
        SandboxFailed: it cannot be started.
    """
    for hook in hooks:
        done = box.run(
            [str(word) for word in hook.get("command") or ()],
            user=hook.get("user") or None,
            env={
                key: str(value) for key, value in (hook.get("environment") or {}).items() if value is not None
            },
            cwd=hook.get("working_dir") or None,
            timeout=max(0.1, deadline - time.monotonic()),
        )
        if done.exit_code:
            raise BoxUnfit(
                f"services.{name}.post_start: {hook['command']} ended with exit code {done.exit_code}",
                detail=done.output.decode("utf-8", "replace"),
                stage=Stage.START,
            )
        if done.timed_out:
            raise BoxUnfit(
                f"services.{name}.post_start: {hook['command']} did not end within the start's time limit",
                stage=Stage.START,
            )
