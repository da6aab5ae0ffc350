"""A run compared with its baseline: what became of each task, and what that says of each agent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from statistics import fmean
from typing import Any

from pytest_rlenv.errors import SpecError
from pytest_rlenv.reports.comparison.gate import FAIL_ON, MARGIN, NOTHING_COMPARED
from pytest_rlenv.reports.comparison.pairing import AskedFor, Pair, Status, everything, lower_is_better, pair
from pytest_rlenv.reports.statistics.paired import Change, Effect, compare, mcnemar
from pytest_rlenv.reports.stored import StoredRun

SCHEMA_VERSION = 1
"""Version of the stored comparison. It grows when a field changes its meaning, not when one is added."""

_SETTINGS = (
    *("model", "timeout_multiplier", "limits", "verifier", "build"),
    *("extra_instruction", "prompt_template"),
)
"""Settings that a result depends on; where they differ, it is not only the agent that does."""


@dataclass(frozen=True)
class AgentChange:
    """What the compared tasks say of one agent.

    Attributes:
        agent, model: whose; the model only where a run has several for the agent.
        attempts: the fewest and the most scored attempts that a task has in either run.
        mean_before, mean_after: mean reward over tasks.
        passing_before, passing_after: tasks of which most attempts pass.
        fixed, broken: tasks that passed in one of the runs only.
        p_verdicts: McNemar's exact p of these two.
        lower_is_better: True for a negative control, such as nop; the effect is below 0 where it rose.
        effect: of the mean reward.
    """

    agent: str
    model: str | None
    attempts: tuple[int, int]
    mean_before: float
    mean_after: float
    passing_before: int
    passing_after: int
    fixed: int
    broken: int
    p_verdicts: float
    lower_is_better: bool
    effect: Effect

    @property
    def name(self) -> str:
        """The agent's name, with its model where that tells it from others."""
        return f"{self.agent} ({self.model})" if self.model else self.agent


@dataclass(frozen=True)
class Comparison:
    """A run and its baseline.

    Attributes:
        baseline, run: where they are stored, for people.
        pairs: every task and agent of either.
        agents: what they say, of each agent that has any pair to compare.
        differences: what else differs between the runs, in a line each.
        problems: what of them could not be read.
    """

    baseline: str
    run: str
    pairs: tuple[Pair, ...]
    agents: tuple[AgentChange, ...]
    differences: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def verdict(self) -> Change:
        """The worst of the agents' verdicts; inconclusive where nothing could be compared."""
        found = {each.effect.verdict for each in self.agents}
        order = (Change.REGRESSION, Change.INCONCLUSIVE, Change.NO_REGRESSION)
        return next((each for each in order if each in found), Change.INCONCLUSIVE)

    def of(self, status: Status) -> list[Pair]:
        """Return the pairs of which this became."""
        return [each for each in self.pairs if each.status is status]

    @property
    def excluded(self) -> Counter[str]:
        """How many pairs could not be compared, by reason."""
        return Counter(each.reason for each in self.of(Status.EXCLUDED))

    @property
    def lost_attempts(self) -> int:
        """Attempts without a reward at tasks that were compared by their others."""
        sides = (side for each in self.pairs if each.compared for side in (each.before, each.after) if side)
        return sum(len(side.records) - len(side.scored) for side in sides)

    def failures(self, fail_on: Collection[str]) -> list[str]:
        """Return which of the words in :data:`FAIL_ON` apply, of those that are asked for.

        Where any is, and nothing could be compared, that is a failure too.
        """
        applies = {
            "regression": self.verdict is Change.REGRESSION,
            "inconclusive": self.verdict is Change.INCONCLUSIVE,
            "broken": bool(self.of(Status.BROKEN)),
            "error": any(each.became_error for each in self.pairs),
            "gone": bool(self.of(Status.GONE)),
        }
        found = [word for word in FAIL_ON if word in fail_on and applies[word]]
        return [*found, NOTHING_COMPARED] if fail_on and not self.agents else found

    def as_json(self) -> dict[str, Any]:
        """Return it in the form that ``comparison.json`` holds."""
        return {
            "schema_version": SCHEMA_VERSION,
            "baseline": self.baseline,
            "run": self.run,
            "verdict": self.verdict.value,
            "counts": {status.value: len(self.of(status)) for status in Status},
            "excluded": dict(self.excluded.most_common()),
            "lost_attempts": self.lost_attempts,
            "agents": [_agent_json(each) for each in self.agents],
            "tasks": [_pair_json(each) for each in self.pairs],
            "differences": list(self.differences),
            "problems": list(self.problems),
        }


def compare_runs(
    baseline: StoredRun,
    run: StoredRun,
    *,
    names: tuple[str, str],
    margin: float = MARGIN,
    asked_for: AskedFor = everything,
) -> Comparison:
    """Compare a run with its baseline.

    Args:
        baseline: what it must not fall behind.
        run: the run.
        names: where both are stored, for people.
        margin: the fall that "no regression" rules out, as a share of the range of rewards.
        asked_for: tells of what only the baseline has whether the run was to have it, too.
    """
    pairs = pair(baseline.records, run.records, asked_for)
    compared = [each for each in pairs if each.compared]
    compared.sort(key=lambda each: (each.key.agent, each.key.model or ""))
    agents = [
        _agent_change(agent, model, list(group), margin)
        for (agent, model), group in groupby(compared, key=lambda each: (each.key.agent, each.key.model))
    ]
    return Comparison(
        *names,
        tuple(pairs),
        tuple(agents),
        tuple(_differences(baseline, run)),
        (*baseline.problems, *run.problems),
    )


def with_agents(run: StoredRun, names: Mapping[str, str]) -> StoredRun:
    """Return a run with other names for its agents, so that they can be paired with those of another run.

    Raises:
        SpecError: it has no agent of a name.
    """
    known = sorted({each["agent"] for each in run.records})
    for name in names:
        if name not in known:
            raise SpecError(
                f"the baseline has no agent {name!r}", hint=f"it has {', '.join(known) or 'none'}"
            )
    records = [{**each, "agent": names.get(each["agent"], each["agent"])} for each in run.records]
    return replace(run, records=records)


def _agent_change(agent: str, model: str | None, pairs: Sequence[Pair], margin: float) -> AgentChange:
    before = [each.before for each in pairs if each.before]
    after = [each.after for each in pairs if each.after]
    scale = _scale(record["reward"] for side in (*before, *after) for record in side.scored)
    effect = compare([each.difference for each in pairs], margin=margin * scale, scale=scale)
    if effect is None:
        raise ValueError("no pair to compare")
    attempts = [len(side.scored) for side in (*before, *after)]
    statuses = Counter(each.status for each in pairs)
    return AgentChange(
        agent=agent,
        model=model,
        attempts=(min(attempts), max(attempts)),
        mean_before=fmean(side.reward for side in before if side.reward is not None),
        mean_after=fmean(side.reward for side in after if side.reward is not None),
        passing_before=sum(side.passes for side in before),
        passing_after=sum(side.passes for side in after),
        fixed=statuses[Status.FIXED],
        broken=statuses[Status.BROKEN],
        p_verdicts=mcnemar(statuses[Status.FIXED], statuses[Status.BROKEN]),
        lower_is_better=lower_is_better(record for side in after for record in side.scored),
        effect=effect,
    )


def _scale(rewards: Iterable[float]) -> float:
    """Return how far a reward can move: 1 for those from 0 to 1, else the range that was seen, 0 included."""
    seen = [0.0, *rewards]
    return max(1.0, max(seen) - min(seen))


def _differences(baseline: StoredRun, run: StoredRun) -> Iterable[str]:
    """Yield what else is not the same: settings, agents' versions, models, sandboxes."""
    before, after = baseline.facts.get("settings") or {}, run.facts.get("settings") or {}
    for name in _SETTINGS:
        if name in before and name in after and before[name] != after[name]:
            yield f"{name}: {before[name]} in the baseline, {after[name]} in the run"
    for field in ("agent_version", "model", "sandbox"):
        if field == "model" and before and after:
            continue
        known = _values(baseline.records, field)
        for agent, values in _values(run.records, field).items():
            if agent in known and known[agent] != values:
                was, is_now = ", ".join(sorted(known[agent])), ", ".join(sorted(values))
                yield f"{field} of {agent}: {was} in the baseline, {is_now} in the run"


def _values(records: Sequence[Mapping[str, Any]], field: str) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for each in records:
        if each.get(field):
            found.setdefault(each["agent"], set()).add(str(each[field]))
    return {agent: frozenset(values) for agent, values in found.items()}


def _agent_json(change: AgentChange) -> dict[str, Any]:
    found = asdict(change)
    found["effect"]["verdict"] = change.effect.verdict.value
    found["attempts"] = list(change.attempts)
    return found


def _pair_json(pair: Pair) -> dict[str, Any]:
    return {
        **pair.key._asdict(),
        "status": pair.status.value,
        "reason": pair.reason or None,
        "difference": pair.difference if pair.compared else None,
        **{
            name: None
            if side is None
            else {
                "attempts": len(side.records),
                "scored": len(side.scored),
                "passed": side.passed,
                "reward": side.reward,
            }
            for name, side in (("baseline", pair.before), ("run", pair.after))
        },
    }
