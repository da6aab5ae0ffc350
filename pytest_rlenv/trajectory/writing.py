"""Write a trajectory as it grows: whatever ends the run, the file is a whole document of what was."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pytest_rlenv.trajectory.model import (
    WRITTEN,
    AgentInfo,
    FinalMetrics,
    Metrics,
    Observation,
    Step,
    Trajectory,
)

_SUMS = ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd")


def now() -> str:
    """Return the time as a step's ``timestamp``."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def totals(steps: Iterable[Step]) -> FinalMetrics:
    """Return the sums over steps; what no step tells is absent, and copied context was paid for elsewhere."""
    steps = list(steps)
    own = [step.metrics for step in steps if step.metrics is not None and not step.is_copied_context]
    sums = {f"total_{name}": _sum(own, name) for name in _SUMS}
    return FinalMetrics.model_validate({**sums, "total_steps": len(steps)})


def write_trajectory(path: Path, trajectory: Trajectory) -> None:
    """Write a whole document at once."""
    text = json.dumps(_plain(trajectory), ensure_ascii=False, indent=1) + "\n"
    path.write_bytes(text.encode("utf-8", errors="replace"))


class GrowingTrajectory:
    """A document on disk to which steps are added.

    Each step costs writing itself and what follows the steps, however long the file is. There is no file
    before the first step, since a document has at least one.

    Args:
        path: the file; what is there is replaced.
        agent: who acts.
        session_id: one word for what belongs together, such as the documents of several steps of a task.
        extra: what else is to be said of the whole.
    """

    def __init__(
        self, path: Path, agent: AgentInfo, *, session_id: str, extra: dict[str, Any] | None = None
    ) -> None:
        self.steps: list[Step] = []
        self._path = path
        head = {"schema_version": WRITTEN, "session_id": session_id, "agent": _plain(agent)}
        if extra:
            head["extra"] = extra
        self._head = json.dumps(head, ensure_ascii=False)[:-1].encode() + b', "steps": [\n'
        self._ends = [len(self._head)]
        """Where in the file each step ends; before the first one, where they begin."""
        path.unlink(missing_ok=True)

    def add(self, **fields: Any) -> Step:
        """Add a step and return it; it gets the next number, and the time unless it has one.

        Args:
            fields: of :class:`~pytest_rlenv.trajectory.model.Step`.

        Raises:
            ValidationError: the format has no such step.
        """
        step = Step(**{"step_id": len(self.steps) + 1, "timestamp": now(), **fields})
        self.steps.append(step)
        self._write_last()
        return step

    def observe(self, observation: Observation) -> None:
        """Give the last step what came back from it.

        Raises:
            ValidationError: a result is of no call of the step.
        """
        last = {**dict(self.steps[-1]), "observation": observation}
        self.steps[-1] = Step(**last)
        del self._ends[-1]
        self._write_last()

    def _write_last(self) -> None:
        number = len(self.steps)
        begin = self._ends[-1]
        step = (b",\n" if number > 1 else b"") + _json(self.steps[-1])
        tail = b'\n], "final_metrics": ' + _json(totals(self.steps)) + b"}\n"
        with self._path.open("wb" if number == 1 and not self._path.exists() else "r+b") as file:
            if number == 1:
                file.write(self._head)
            file.seek(begin)
            file.write(step + tail)
            file.truncate()
        self._ends.append(begin + len(step))


def _sum(metrics: list[Metrics], name: str) -> int | float | None:
    known = [value for each in metrics if (value := getattr(each, name)) is not None]
    return sum(known) if known else None


def _json(part: Step | FinalMetrics) -> bytes:
    return json.dumps(_plain(part), ensure_ascii=False).encode("utf-8", errors="replace")


def _plain(part: Step | FinalMetrics | Trajectory | AgentInfo) -> dict[str, Any]:
    return part.model_dump(mode="json", exclude_none=True)
