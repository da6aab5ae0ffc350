"""What is earned by doing nothing: the floor, above which a reward says something."""

from __future__ import annotations

from pytest_rlenv.errors import Stage, Unsupported
from pytest_rlenv.frameworks.openenv.host import Host
from pytest_rlenv.frameworks.openenv.reference import take
from pytest_rlenv.frameworks.openenv.scoring import Score


def measure_floor(host: Host) -> Score:
    """Begin an episode and have it graded at once: by its reset, else by the action that grades.

    Raises:
        Unsupported: neither gives a reward.
    """
    evaluate = host.task.evaluate
    with host.episode(host.task.reset) as ground:
        if ground.begin.reward is None and evaluate is not None:
            with host.context.clock.stage(Stage.VERIFY):
                take(ground, [evaluate])
        if ground.score.value() is None and evaluate is None:
            raise Unsupported(
                "the floor is not known: the reset has no reward, and no evaluate action is named "
                "(openenv.evaluate in rlenv.yaml)"
            )
        return ground.score
