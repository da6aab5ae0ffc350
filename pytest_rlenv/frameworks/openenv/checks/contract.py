"""That an environment keeps OpenEnv's contract."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from pytest_rlenv.errors import RewardInvalid, Stage
from pytest_rlenv.frameworks.openenv.checks.findings import Findings
from pytest_rlenv.frameworks.openenv.frames import ErrorFrame, Frame
from pytest_rlenv.frameworks.openenv.host import Host
from pytest_rlenv.frameworks.openenv.plans import Plan
from pytest_rlenv.frameworks.openenv.playground import Playground
from pytest_rlenv.frameworks.openenv.reference import take
from pytest_rlenv.frameworks.openenv.routes import Routes
from pytest_rlenv.frameworks.openenv.scoring import DEFAULT_RANGE
from pytest_rlenv.verdict import number


def contract(host: Host, plan: Plan, found: Findings) -> None:
    """See that schemas, state, observations and rewards are as OpenEnv says."""
    with closing(Routes(host.server)) as routes:
        schema = routes.schema()
    for part in ("action", "observation", "state"):
        found.see(f"schema of {part}", isinstance(schema.get(part), Mapping), "GET /schema has none")
    low, high = host.task.manifest.reward_range or DEFAULT_RANGE
    with host.episode(host.task.reset, name=plan.episode_id) as ground, host.context.clock.stage(Stage.AGENT):
        see_state(found, ground, plan.episode_id or host.task.name, 0)
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
            see_state(found, ground, plan.episode_id or host.task.name, count)
            if frame.reward is not None:
                found.see(f"reward of step {count}", not frame.boolean, "it is true or false, not a number")
                told = f"{number(frame.reward)} is outside of {number(low)} to {number(high)}"
                found.see(f"range of step {count}", low <= frame.reward <= high, told)
        if plan.actions:
            found.see("the episode is graded", ground.score.value() is not None, "all rewards are null")


def see_state(found: Findings, ground: Playground, name: str, steps: int, when: str = "") -> None:
    """See that the environment knows the episode's name and how many steps it had."""
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
    required = schema.get("required")
    wanted = {str(key) for key in required} if isinstance(required, list) else set()
    missing = wanted - around - set(frame.observation)
    found.see(f"observation of {where}", not missing, f"it lacks {', '.join(sorted(missing))}")
    if schema.get("additionalProperties") is False:
        strange = set(frame.observation) - set(schema["properties"]) - around
        told = f"not in its schema: {', '.join(sorted(strange))}"
        found.see(f"fields of {where}", not strange, told)
