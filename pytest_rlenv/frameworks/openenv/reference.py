"""How an environment shows that its highest reward can be earned, and that what should not earn it does not.

A reference is a recorded episode, or what ``openenv.yaml`` declares: a state to begin from, or a script to
run beside the server. OpenEnv 0.10 declares the last two without saying how their reward is read; here it is
that of the reset's answer, else of the action that has the episode graded.
"""

from __future__ import annotations

import glob
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from pytest_rlenv.errors import ReferenceInvalid, RlenvError, Stage, StageTimeout, TaskInvalid, Unsupported
from pytest_rlenv.frameworks.openenv.frames import ErrorFrame
from pytest_rlenv.frameworks.openenv.host import Host
from pytest_rlenv.frameworks.openenv.listed import inside
from pytest_rlenv.frameworks.openenv.manifest import INJECTED_STATE, SCRIPT
from pytest_rlenv.frameworks.openenv.plans import Plan, read_plan
from pytest_rlenv.frameworks.openenv.playground import Playground
from pytest_rlenv.frameworks.openenv.scoring import Score
from pytest_rlenv.frameworks.openenv.task import OpenEnvTask

CANARIES = "canaries"
"""The folder of recorded episodes that must not score, where none is declared."""

_MOST_BYTES = 4 * 1024 * 1024


class Reference(Protocol):
    """A way to earn the highest reward."""

    def play(self, host: Host) -> Score:
        """Earn it; raises what stands in the way."""
        ...


class PlanReference:
    """A recorded episode."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def play(self, host: Host) -> Score:
        """Take its actions."""
        with host.episode(host.task.reset, name=self._plan.episode_id) as ground:
            with host.context.clock.stage(Stage.AGENT):
                take(ground, self._plan.actions)
            return ground.score


class StateReference:
    """A state in which the task is solved."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def play(self, host: Host) -> Score:
        """Begin from it, and have it graded."""
        with host.episode({**host.task.reset, "injected_state": self._state}) as ground:
            if ground.begin.reward is None:
                with host.context.clock.stage(Stage.VERIFY):
                    take(ground, [grading_action(host.task)])
            return ground.score


class ScriptReference:
    """A script that solves the task from beside the server."""

    def __init__(self, script: bytes) -> None:
        self._script = script

    def play(self, host: Host) -> Score:
        """Run it, and have what it did graded."""
        action = grading_action(host.task)
        with host.episode(host.task.reset) as ground:
            with host.context.clock.stage(Stage.AGENT):
                left = max(1.0, host.until - time.monotonic())
                done = host.server.run_script(["sh"], self._script, timeout=left)
                (host.context.folder / "oracle.txt").write_bytes(done.output)
            if done.timed_out:
                host.server.spoil()
                raise StageTimeout("the oracle's script did not end in time", stage=Stage.AGENT)
            if done.exit_code:
                host.note("agent-exit", f"the oracle's script exited {done.exit_code}")
            with host.context.clock.stage(Stage.VERIFY):
                take(ground, [action])
            return ground.score


def reference_of(task: OpenEnvTask) -> Reference:
    """Return the task's reference.

    Raises:
        Unsupported: none is declared.
        TaskInvalid: one is, and cannot be used.
    """
    manifest = task.manifest
    if task.plan is not None:
        if not task.plan.actions:
            raise ReferenceInvalid("its recorded episode has no actions")
        return PlanReference(task.plan)
    if manifest.oracle_form == INJECTED_STATE:
        if not manifest.set_state:
            raise TaskInvalid(f"{manifest.file}: an injected state needs capabilities.set_state: true")
        try:
            return StateReference(json.loads(_artifact(task, manifest.oracle_location)))
        except (ValueError, RecursionError) as error:
            raise ReferenceInvalid(f"{manifest.oracle_location} is not JSON: {error}") from None
    if manifest.oracle_form == SCRIPT:
        return ScriptReference(_artifact(task, manifest.oracle_location))
    if manifest.oracle_form is not None:
        raise Unsupported(f"{manifest.file}: an oracle of the form {manifest.oracle_form!r} is not known")
    raise Unsupported(
        "no oracle: there is no recorded episode for this task, and openenv.yaml declares none "
        "(validation.capabilities.oracle)"
    )


def canaries_of(task: OpenEnvTask) -> list[tuple[str, Plan]]:
    """Return the recorded episodes that must not score: those of this task, else those of the environment.

    Raises:
        Unsupported: there are none. TaskInvalid: one cannot be read.
    """
    named = task.manifest.canaries
    if named is not None and not inside(named):
        raise TaskInvalid(f"{task.manifest.file}: canaries are outside of the environment: {named!r}")
    place = task.folder / (named or CANARIES)
    if place.is_file():
        return [(place.stem, read_plan(place))]
    own = task.name.rpartition("/")[2]
    files = sorted((place / own).glob("*.json")) or sorted(place.glob(f"{glob.escape(own)}.json"))
    files = files or sorted(place.glob("*.json"))
    if not files:
        raise Unsupported(f"no canaries: there are no recorded episodes in {named or CANARIES}/")
    return [(path.stem, read_plan(path)) for path in files]


def grading_action(task: OpenEnvTask) -> Mapping[str, Any]:
    """Return the action that has an episode graded: the one named for us, else the first of the probe.

    Raises:
        TaskInvalid: there is none.
    """
    if task.evaluate is not None:
        return task.evaluate
    probe = task.folder / task.manifest.probe
    if inside(task.manifest.probe) and probe.is_file() and (plan := read_plan(probe)).actions:
        return plan.actions[0]
    raise TaskInvalid(
        "no evaluate action is declared, so nothing says how what the oracle did is graded",
        hint=f"name it as openenv.evaluate in rlenv.yaml, or as the first action of {task.manifest.probe}",
    )


def take(ground: Playground, actions: Sequence[Mapping[str, Any]]) -> None:
    """Take recorded actions, until the environment ends the episode.

    Raises:
        ReferenceInvalid: it does not take one.
        EnvironmentFailed, SandboxFailed, StageTimeout: it broke.
    """
    for number, action in enumerate(actions, 1):
        if ground.score.done:
            return
        try:
            ground.step(action)
        except ErrorFrame as error:
            raise _of_step(ground, error, number) from None


def _of_step(ground: Playground, error: ErrorFrame, number: int) -> RlenvError:
    if error.of_the_request:
        return ReferenceInvalid(
            f"the environment does not take recorded action {number}: {error.problems or error.message}",
            hint="was it recorded with another version of the environment?",
            detail=ground.server.tail(),
        )
    return ground.failed(error, f"recorded action {number}")


def _artifact(task: OpenEnvTask, location: str | None) -> bytes:
    """Return the file of a declared oracle; below a folder it is the one that is called like the task.

    Raises:
        TaskInvalid: there is none.
    """
    if location is None or not inside(location):
        raise TaskInvalid(f"{task.manifest.file}: the oracle's location is {location!r}, no path in it")
    path = task.folder / location
    if path.is_dir():
        own = task.name.rpartition("/")[2]
        path = next((each for each in sorted(path.iterdir()) if each.stem == own), path / own)
    return _bytes(path)


def _bytes(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TaskInvalid(f"the oracle's {path.name} cannot be read: {error.strerror}") from None
    if len(data) > _MOST_BYTES:
        raise TaskInvalid(f"the oracle's {path.name} is larger than {_MOST_BYTES} bytes")
    return data
