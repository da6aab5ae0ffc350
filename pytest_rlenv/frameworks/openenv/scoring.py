"""An episode's reward, of those of its steps.

OpenEnv's own rule is the last reward that is not null: environments grade at an ``evaluate`` step, or pay at
each. A sum is for those whose steps pay shares; no environment says which it is, so the user does.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pytest_rlenv.errors import RewardContractBroken, RewardMissing
from pytest_rlenv.frameworks.openenv.frames import Frame
from pytest_rlenv.verdict import number

LAST, SUM, MAX, FINAL = "last", "sum", "max", "final"
DEFAULT_RANGE = (0.0, 1.0)
"""Where an environment declares no range."""


@dataclass
class Score:
    """The rewards of one episode as they come.

    Attributes:
        rule: which of them counts: :data:`LAST`, :data:`SUM`, :data:`MAX` or :data:`FINAL`.
        begin: the answer to the reset.
        steps: the answers to the steps.
    """

    rule: str = LAST
    begin: Frame | None = None
    steps: list[Frame] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """True if the environment has ended the episode."""
        last = self.steps[-1] if self.steps else self.begin
        return last is not None and last.done

    @property
    def rewards(self) -> list[float | None]:
        """The steps' rewards."""
        return [frame.reward for frame in self.steps]

    @property
    def booleans(self) -> bool:
        """True if any reward came as true or false."""
        return any(frame.boolean for frame in (*self.steps, *([self.begin] if self.begin else ())))

    def value(self) -> float | None:
        """Return the episode's reward; ``None`` if there is none.

        A reset's own reward is that of an agent that has made no step; it says nothing of one that has.
        """
        if not self.steps:
            return self.begin.reward if self.begin is not None else None
        if self.rule == FINAL:
            return self.steps[-1].reward if self.steps[-1].done else None
        graded = [reward for reward in self.rewards if reward is not None]
        if not graded:
            return None
        return {LAST: graded[-1], SUM: sum(graded), MAX: max(graded)}[self.rule]

    def reward(self, reward_range: tuple[float, float] | None) -> float:
        """Return the episode's reward.

        Args:
            reward_range: lowest and highest, as the environment declares them.

        Raises:
            RewardMissing: no step was graded. RewardContractBroken: it is out of range.
        """
        value = self.value()
        if value is None:
            raise RewardMissing(f"no reward: {self._why()}", hint="null is not 0: a step must be graded")
        low, high = reward_range or DEFAULT_RANGE
        if not low <= value <= high:
            declared = "declared" if reward_range else "usual"
            raise RewardContractBroken(
                f"the episode's reward {number(value)} is outside of the {declared} range "
                f"{number(low)} to {number(high)}",
                hint="declare validation.reward.range (or reward_range: [low, high]) in openenv.yaml"
                if reward_range is None
                else "correct the declared range, or the environment",
            )
        return value

    def _why(self) -> str:
        if not self.steps:
            return "no step was made, and the reset has none"
        count = f"{len(self.steps)} step" + "s" * (len(self.steps) != 1)
        if self.rule == FINAL:
            last = self.steps[-1]
            return f"the last of {count} " + ("has none" if last.done else "did not end the episode")
        return f"all of {count} have reward null"
