"""Checks of an environment itself: that it keeps OpenEnv's contract, repeats itself, and lets nothing leak.

OpenEnv 0.10 declares the last two (``runtime.episode_determinism``, ``runtime.episode_isolation``) and skips
them. A check plays the task's recorded episode, or only its reset where there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pytest_rlenv.errors import RewardInvalid, Stage, Unsupported
from pytest_rlenv.frameworks.openenv.frames import ErrorFrame, Frame
from pytest_rlenv.frameworks.openenv.host import Host
from pytest_rlenv.frameworks.openenv.listed import inside
from pytest_rlenv.frameworks.openenv.plans import Plan, read_plan
from pytest_rlenv.frameworks.openenv.playground import Playground
from pytest_rlenv.frameworks.openenv.reference import take
from pytest_rlenv.frameworks.openenv.routes import Routes
from pytest_rlenv.frameworks.openenv.scoring import DEFAULT_RANGE
from pytest_rlenv.frameworks.openenv.task import OpenEnvTask
from pytest_rlenv.frameworks.rewards import shown
from pytest_rlenv.rollout import Checks
from pytest_rlenv.verdict import number

SOURCE = "rlenv"

Check = Callable[[Host], Checks]


class Findings:
    """What was looked at, and what of it is wrong."""

    def __init__(self) -> None:
        self._passed = 0
        self._failing: list[str] = []

    def see(self, name: str, holds: bool, but: str = "") -> None:
        """Take note of one point."""
        if holds:
            self._passed += 1
        else:
            self._failing.append(f"{name}: {but}" if but else name)

    def as_checks(self) -> Checks:
        """Return them as they are stored."""
        failed = len(self._failing)
        return Checks(source=SOURCE, passed=self._passed, failed=failed, failing=self._failing[:20])


def checks_of(name: str, task: OpenEnvTask) -> Check:
    """Return a check by its name.

    Raises:
        Unsupported: there is none of that name. TaskInvalid: the recorded episode cannot be read.
    """
    plan = task.plan or _probe(task)
    kinds: Mapping[str, Callable[[Host, Plan], Checks]] = {
        "contract": contract,
        "determinism": determinism,
        "isolation": isolation,
    }
    if name not in kinds:
        raise Unsupported(f"check {name!r} is not known for OpenEnv: there are {', '.join(kinds)}")
    return lambda host: kinds[name](host, plan)


def contract(host: Host, plan: Plan) -> Checks:
    """See that schemas, state, observations and rewards are as OpenEnv says."""
    found = Findings()
    routes = Routes(host.server)
    try:
        schema = routes.schema()
    finally:
        routes.close()
    for part in ("action", "observation", "state"):
        found.see(f"schema of {part}", isinstance(schema.get(part), Mapping), "GET /schema has none")
    low, high = host.task.manifest.reward_range or DEFAULT_RANGE
    with host.episode(host.task.reset, name=plan.episode_id) as ground, host.context.clock.stage(Stage.AGENT):
        _see_state(found, ground, plan.episode_id or host.task.name, 0)
        _see_observation(found, "reset", ground.begin, schema.get("observation"))
        for count, action in enumerate(plan.actions, 1):
            if ground.score.done:
                break
            try:
                take(ground, [action])
            except RewardInvalid as error:
                found.see(f"reward of step {count}", False, error.message)
                break
            frame = ground.score.steps[-1]
            _see_observation(found, f"step {count}", frame, schema.get("observation"))
            _see_state(found, ground, plan.episode_id or host.task.name, count)
            if frame.reward is not None:
                found.see(f"reward of step {count}", not frame.boolean, "it is true or false, not a number")
                told = f"{number(frame.reward)} is outside of {number(low)} to {number(high)}"
                found.see(f"range of step {count}", low <= frame.reward <= high, told)
        if plan.actions:
            found.see("the episode is graded", ground.score.value() is not None, "all rewards are null")
    return found.as_checks()


def determinism(host: Host, plan: Plan) -> Checks:
    """See that the same seed and the same actions give the same observations and rewards."""
    first, second = _frames(host, plan), _frames(host, plan)
    found = Findings()
    found.see("length", len(first) == len(second), f"{len(first)} answers, then {len(second)}")
    for count, (one, other) in enumerate(zip(first, second, strict=False)):
        where = f"step {count}" if count else "reset"
        found.see(where, *_compared(one, other))
    return found.as_checks()


def isolation(host: Host, plan: Plan) -> Checks:
    """See that an episode begins as if there had been none before, on its own connection and another."""
    found = Findings()
    with host.episode(host.task.reset, name=plan.episode_id) as ground:
        with host.context.clock.stage(Stage.AGENT):
            take(ground, plan.actions)
        name = plan.episode_id or host.task.name
        try:
            again = ground.session.reset({"seed": 0, "episode_id": name[:128], **host.task.reset})
        except ErrorFrame as error:
            raise ground.failed(error, "a second reset") from None
        found.see("reset on the same connection", *_compared(ground.begin, again))
        _see_state(found, ground, name, 0, "after that reset")
        begin = ground.begin
    with host.episode(host.task.reset, name=plan.episode_id) as other:
        found.see("reset on another connection", *_compared(begin, other.begin))
    return found.as_checks()


def _probe(task: OpenEnvTask) -> Plan:
    """Return the recorded episode that is no reference; without one, no actions."""
    path = task.folder / task.manifest.probe
    return read_plan(path) if inside(task.manifest.probe) and path.is_file() else Plan(())


def _frames(host: Host, plan: Plan) -> list[Frame]:
    with host.episode(host.task.reset, name=plan.episode_id) as ground:
        with host.context.clock.stage(Stage.AGENT):
            take(ground, plan.actions)
        return [ground.begin, *ground.score.steps]


def _compared(one: Frame, other: Frame) -> tuple[bool, str]:
    if one.observation != other.observation:
        keys = {*one.observation, *other.observation}
        differ = sorted(key for key in keys if one.observation.get(key) != other.observation.get(key))
        return False, f"the observations differ in {shown(', '.join(differ))}"
    if one.reward != other.reward:
        return False, f"reward {one.reward}, then {other.reward}"
    return one.done == other.done, f"done is {one.done}, then {other.done}"


def _see_state(found: Findings, ground: Playground, name: str, steps: int, when: str = "") -> None:
    where = when or (f"after step {steps}" if steps else "after reset")
    try:
        state: Mapping[str, Any] = ground.session.state()
    except ErrorFrame as error:
        found.see(f"state {where}", False, f"{error.code}: {error.message}")
        return
    told = f"it is {state.get('episode_id')!r}, not {name!r}"
    found.see(f"episode_id {where}", state.get("episode_id") == name[:128], told)
    count = state.get("step_count")
    found.see(f"step_count {where}", count == steps, f"it is {count!r}, not {steps}")


def _see_observation(found: Findings, where: str, frame: Frame, schema: Any) -> None:
    """See that an observation has the fields of its schema; their types are not looked at."""
    if not isinstance(schema, Mapping) or not isinstance(schema.get("properties"), Mapping):
        return
    around = {"reward", "done", "metadata"}  # these stand beside the observation on the wire
    missing = {str(key) for key in schema.get("required") or ()} - around - set(frame.observation)
    found.see(f"observation of {where}", not missing, f"it lacks {', '.join(sorted(missing))}")
    if schema.get("additionalProperties") is False:
        strange = set(frame.observation) - set(schema["properties"]) - around
        told = f"not in its schema: {', '.join(sorted(strange))}"
        found.see(f"fields of {where}", not strange, told)
