"""The commands that a task has run after the agent and before its artifacts are collected.

Harbor 0.26 runs them with its best effort: one that fails is noted. One that runs out of time must not take
along what the agent left running, as that may be what the verifier tests. Harbor lets it go on; here a shell
in the box ends it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from pytest_rlenv.errors import BoxUnfit
from pytest_rlenv.frameworks.harbor.artifacts import MAIN_SERVICE, CollectHook
from pytest_rlenv.rollout import StepRecord
from pytest_rlenv.sandboxes.protocol import Box, BoxWithServices
from pytest_rlenv.text import decode, tail
from pytest_rlenv.verdict import number

_OUTPUT = 500
GRACE = 10.0
"""Seconds that the shell in the box has to end a hook, before everything in the box is killed."""
_LATE = 124
_WITHIN = """
"$0" -c "$2" & hook=$!
( trap '[ $! = $hook ] || kill -9 $!; exit 1' TERM
  sleep "$1" & wait $! && kill -9 $hook ) >/dev/null 2>&1 & timer=$!
exec 2>/dev/null
wait $hook; code=$?
kill $timer
wait $timer && exit 124
exit $code
"""


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
        guard = None if hook.limit is None else hook.limit + GRACE
        try:
            done = services[hook.service].run(
                within(shell, hook.command, hook.limit), user=hook.user, timeout=guard
            )
        except BoxUnfit as error:
            record.note("collect-hook", f"collect hook `{hook.command}` could not be run: {error.message}")
            continue
        if done.timed_out or (done.exit_code == _LATE and done.seconds >= (hook.limit or math.inf)):
            killed = "; all that ran in the box was killed" if done.timed_out else ""
            text = f"collect hook `{hook.command}` did not end within {number(hook.limit or 0)} s{killed}"
            record.note("collect-hook", text)
        elif done.exit_code:
            said = tail(decode(done.output), lines=5, chars=_OUTPUT).strip()
            how = f"collect hook `{hook.command}` exited {done.exit_code}"
            record.note("collect-hook", f"{how}: {said}" if said else how)


def within(shell: str, command: str, limit: float | None) -> Sequence[str]:
    """Return the command line that runs a command and kills its shell, and nothing else, when time is up.

    Args:
        shell: the program that reads the command.
        command: what it reads.
        limit: seconds, after which the exit code is 124; ``None`` is no limit.
    """
    if limit is None:
        return (shell, "-c", command)
    return (shell, "-c", _WITHIN, shell, f"{limit:g}", command)


def boxes_of(box: Box) -> dict[str, Box]:
    """Return a box as ``main``, with the boxes of the services beside it by their names."""
    if isinstance(box, BoxWithServices):
        return {name: box.service(name) for name in box.services}
    return {MAIN_SERVICE: box}


def no_service(name: str, services: Mapping[str, Box]) -> str:
    """Return what is wrong with a service's name, in words."""
    return f"there is no service {name!r}, only {', '.join(services)}"
