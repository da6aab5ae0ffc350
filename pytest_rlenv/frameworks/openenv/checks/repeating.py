"""That an environment repeats itself, and lets nothing leak from one episode into the next."""

from __future__ import annotations

from pytest_rlenv.errors import Stage
from pytest_rlenv.frameworks.openenv.checks.contract import see_state
from pytest_rlenv.frameworks.openenv.checks.findings import Findings
from pytest_rlenv.frameworks.openenv.frames import ErrorFrame, Frame
from pytest_rlenv.frameworks.openenv.host import Host
from pytest_rlenv.frameworks.openenv.plans import Plan
from pytest_rlenv.frameworks.openenv.reference import take
from pytest_rlenv.frameworks.rewards import shown


def determinism(host: Host, plan: Plan, found: Findings) -> None:
    """See that the same seed and the same actions give the same observations and rewards."""
    first, second = _frames(host, plan), _frames(host, plan)
    found.see("length", len(first) == len(second), f"{len(first)} answers, then {len(second)}")
    for count, (one, other) in enumerate(zip(first, second, strict=False)):
        where = f"step {count}" if count else "reset"
        found.see(where, *_compared(one, other))


def isolation(host: Host, plan: Plan, found: Findings) -> None:
    """See that an episode begins as if there had been none before, on its own connection and another."""
    with host.episode(host.task.reset, name=plan.episode_id) as ground:
        with host.context.clock.stage(Stage.AGENT):
            take(ground, plan.actions)
        name = plan.episode_id or host.task.name
        try:
            again = ground.session.reset({"seed": 0, "episode_id": name[:128], **host.task.reset})
        except ErrorFrame as error:
            raise ground.failed(error, "a second reset") from None
        found.see("reset on the same connection", *_compared(ground.begin, again))
        see_state(found, ground, name, 0, "after that reset")
        begin = ground.begin
    with host.episode(host.task.reset, name=plan.episode_id) as other:
        found.see("reset on another connection", *_compared(begin, other.begin))


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
