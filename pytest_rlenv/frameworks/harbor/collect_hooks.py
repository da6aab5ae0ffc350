"""The commands that a task has run after the agent and before its artifacts are collected.

Harbor 0.26 runs them with its best effort: one that fails is noted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pytest_rlenv.errors import BoxUnfit
from pytest_rlenv.frameworks.harbor.artifacts import MAIN_SERVICE, CollectHook
from pytest_rlenv.rollout import StepRecord
from pytest_rlenv.sandboxes.protocol import Box, BoxWithServices
from pytest_rlenv.text import decode, tail
from pytest_rlenv.verdict import number

_OUTPUT = 500


def run_hooks(hooks: Iterable[CollectHook], services: Mapping[str, Box], record: StepRecord) -> None:
    """Run the collect hooks in their order; one that fails is a note.

    Args:
        hooks: the hooks.
        services: the boxes by the names of their services; the agent's is ``main``.
        record: where failures are noted.

    Raises:
        SandboxFailed: a box died.
    """
    for hook in hooks:
        if hook.service not in services:
            record.note(
                "collect-hook", f"collect hook `{hook.command}`: {no_service(hook.service, services)}"
            )
            continue
        shell = "bash" if hook.service == MAIN_SERVICE else "sh"  # few images of services have a bash
        try:
            done = services[hook.service].run([shell, "-c", hook.command], user=hook.user, timeout=hook.limit)
        except BoxUnfit as error:
            record.note("collect-hook", f"collect hook `{hook.command}` could not be run: {error.message}")
            continue
        if done.timed_out:
            limit = number(hook.limit or 0)
            record.note("collect-hook", f"collect hook `{hook.command}` did not end within {limit} s")
        elif done.exit_code:
            said = tail(decode(done.output), lines=5, chars=_OUTPUT).strip()
            how = f"collect hook `{hook.command}` exited {done.exit_code}"
            record.note("collect-hook", f"{how}: {said}" if said else how)


def boxes_of(box: Box) -> dict[str, Box]:
    """Return a box as ``main``, with the boxes of the services beside it by their names."""
    if isinstance(box, BoxWithServices):
        return {name: box.service(name) for name in box.services}
    return {MAIN_SERVICE: box}


def no_service(name: str, services: Mapping[str, Box]) -> str:
    """Return what is wrong with a service's name, in words."""
    return f"there is no service {name!r}, only {', '.join(services)}"
