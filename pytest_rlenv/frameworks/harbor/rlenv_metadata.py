"""``[metadata.rlenv]`` of a ``task.toml``: what a task tells this plugin about its rewards and its steps.

Harbor keeps ``metadata`` as it is, so the table costs a task nothing there.
"""

from __future__ import annotations

import math
from typing import Literal

from pydantic import BaseModel, Field, StrictStr, field_validator


class RlenvMetadata(BaseModel):
    """The table's fields; types are taken as written, nothing is coerced."""

    reward_key: StrictStr | None = Field(default=None, min_length=1)
    """Which of several named rewards is judged."""
    reward_range: tuple[float, float] | None = None
    """Lowest and highest reward that the verifier may give."""
    expect: dict[StrictStr, StrictStr] = Field(default_factory=dict)
    """What each agent should reach: its name, and a text such as ``>= 0.55`` or ``accuracy >= 0.9``."""

    agent_session: Literal["restart", "keep"] = "restart"
    """Whether an agent begins each step anew, as in Harbor, or goes on where it ended the step before."""

    @field_validator("reward_range", mode="before")
    @classmethod
    def _check_range(cls, value: object) -> object:
        message = "expected [lowest, highest]: two finite numbers in this order"
        if not isinstance(value, (list, tuple)) or len(value) != 2:
            raise ValueError(message)
        if any(isinstance(end, bool) or not isinstance(end, (int, float)) for end in value):
            raise ValueError(message)
        try:
            low, high = (float(end) for end in value)
        except OverflowError:
            raise ValueError(message) from None
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise ValueError(message)
        return low, high
