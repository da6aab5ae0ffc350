"""What the interpreter answers, as a reward or as the error that there is none.

``trace.reward`` of Verifiers is never used alone: it is 0 where scoring crashed, ran out of time, or there is
no reward. A set-up that ran out of time is scored untouched there, and is an error here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_rlenv.errors import (
    AgentFailed,
    EnvironmentFailed,
    ModelAccessDenied,
    ModelNotFound,
    ModelRequestInvalid,
    ModelUnavailable,
    RewardMissing,
    RlenvError,
    SandboxFailed,
    Stage,
    StageTimeout,
    TaskInvalid,
    VerifierTimeout,
)
from pytest_rlenv.frameworks.rewards import finite_reward
from pytest_rlenv.frameworks.verifiers.process import ChildFailed
from pytest_rlenv.rollout import MAIN_REWARD_KEY, Rollout
from pytest_rlenv.text import clean, tail
from pytest_rlenv.verdict import number

Trace = Mapping[str, Any]

_INFRA = ("SandboxError", "InterceptionError", "TunnelError", "ToolsetError")
_NOT_SCORED = {
    "setup_timeout": (StageTimeout, Stage.AGENT_SETUP, "the task's set-up"),
    "finalize_timeout": (VerifierTimeout, Stage.VERIFY, "the task's finalize"),
    "scoring_timeout": (VerifierTimeout, Stage.VERIFY, "scoring"),
}
_STAGES = {
    "boot": Stage.START,
    "setup": Stage.AGENT_SETUP,
    "agent": Stage.AGENT,
    "finalize": Stage.VERIFY,
    "scoring": Stage.VERIFY,
    "validate": Stage.VERIFY,
}
_LIMITS = {
    "agent_timeout": ("agent-timeout", "the agent ran out of time"),
    "max_turns": ("turn-limit", "the agent had all its turns"),
    "max_input_tokens": ("token-budget", "the agent had all its input tokens"),
    "max_output_tokens": ("token-budget", "the agent had all its output tokens"),
    "max_total_tokens": ("token-budget", "the agent had all its tokens"),
}
_ENDS = ("agent_completed", "rlenv_budget", None)
"""Stops of which nothing is to be said here: a budget's note is written where it is held."""
_HARNESS_SETUP = "harness setup"
_UV = (
    "harnesses install themselves where they run: null and bash want uv there, or pip or curl to get it, and "
    "an index of packages that can be reached"
)
_SHOWN = 12
"""Metrics that a note names."""


def write_times(trace: Trace, rollout: Rollout) -> None:
    """Write how long the stages of a trace took into the record."""
    for name, stage in _STAGES.items():
        if seconds := trace["seconds"].get(name):
            rollout.stages[stage] = round(rollout.stages.get(stage, 0.0) + seconds, 4)


def choose_trace(answer: Mapping[str, Any], seat: str, rollout: Rollout) -> Trace:
    """Return the trace that is judged: the last of the seat's; several are not averaged.

    Raises:
        RlenvError: the episode or the trace has no reward; which one says whose fault that is.
    """
    traces: Sequence[Trace] = answer["traces"]
    if not traces:
        raise _of_errors(answer["errors"], answer.get("timed_out", False), "no agent was run")
    own = [trace for trace in traces if trace["seat"] == seat]
    broken = next((trace for trace in [*own, *traces] if not trace["ok"]), None)
    if answer["errors"] and not answer["ok"]:
        raise _of_errors(answer["errors"], answer.get("timed_out", False), "the episode failed")
    if broken is not None:
        raise trace_error(broken)
    if not answer["ok"]:
        raise RewardMissing("the episode is not valid, and does not say why")
    if not own:
        named = ", ".join(dict.fromkeys(trace["seat"] for trace in traces))
        raise TaskInvalid(
            f"no trace is of seat {seat!r}: there is {named}", hint="choose with --rlenv-verifiers-seat"
        )
    if len(traces) > 1:
        shown = "; ".join(f"{trace['seat']} {_total_shown(trace)}" for trace in traces)
        rollout.note("several-traces", f"the last one of {seat} is judged: {shown}")
    if own[-1]["stop"] in _NOT_SCORED:
        raise trace_error(own[-1])
    return own[-1]


def write_rewards(trace: Trace, rollout: Rollout) -> None:
    """Write the rewards of a trace, their weighted sum first, and what else it tells.

    Raises:
        RewardMissing, RewardInvalid: there is none.
    """
    rewards = trace["rewards"]
    if not rewards:
        raise RewardMissing(
            "the task gave no reward: it declares none",
            hint="rewards that only the taskset's environment gives need a model: --agent model",
        )
    missing = [name for name, reward in rewards.items() if reward is None]
    if missing:
        raise RewardMissing(f"reward {', '.join(missing)} was not given", detail=_details(trace["errors"]))
    values = {
        name: finite_reward(reward["score"], f"reward {name}", booleans=True)
        for name, reward in rewards.items()
    }
    total = sum(
        values[name] * finite_reward(rewards[name]["weight"], f"the weight of {name}") for name in values
    )
    values.pop(MAIN_REWARD_KEY, None)
    rollout.rewards = {MAIN_REWARD_KEY: finite_reward(total, "the sum of the rewards"), **values}
    _note(trace, rollout)


def trace_error(trace: Trace) -> RlenvError:
    """Return why a trace has no reward."""
    if trace["errors"]:
        return of_error(trace["errors"][-1], _where(trace))
    if trace["stop"] in _NOT_SCORED:
        kind, stage, what = _NOT_SCORED[trace["stop"]]
        return kind(f"{what} ran out of time, so there is no reward ({trace['stop']})", stage=stage)
    return RewardMissing(f"{trace['seat']} was not scored, and does not say why (stop: {trace['stop']})")


def of_error(error: Mapping[str, Any], stage: Stage) -> RlenvError:
    """Return an error of Verifiers' as ours, by its type's name."""
    kind, status = str(error["type"]), error["status"]
    message = f"{kind}: {clean(str(error['message']))}"
    keywords: dict[str, Any] = {"detail": tail(clean(str(error["detail"]))), "stage": stage}
    if kind in _INFRA:
        return SandboxFailed(message, **keywords)
    if kind == "ProviderError":
        keywords["stage"] = Stage.AGENT
        named = {401: ModelAccessDenied, 403: ModelAccessDenied, 404: ModelNotFound, 400: ModelRequestInvalid}
        found: type[RlenvError] = named.get(int(status or 0), ModelUnavailable)
        return found(message, **keywords)
    if kind == "HarnessError":
        if str(error["message"]).startswith(_HARNESS_SETUP):
            return AgentFailed(message, hint=_UV, **{**keywords, "stage": Stage.AGENT_SETUP})
        return AgentFailed(message, **{**keywords, "stage": Stage.AGENT})
    if stage is Stage.VERIFY:
        return RewardMissing(f"scoring raised {message}", **keywords)
    return EnvironmentFailed(f"the task raised {message}", **keywords)


def of_failure(failure: ChildFailed) -> RlenvError:
    """Return what was raised in the interpreter, outside of an episode, as an error of ours."""
    stage = _STAGES.get(failure.stage, Stage.LOAD)
    if failure.stage in _STAGES and failure.type in ("TimeoutError", "CancelledError"):
        kind = VerifierTimeout if stage is Stage.VERIFY else StageTimeout
        return kind(f"the task's {failure.stage} ran out of time", stage=stage)
    infra = failure.stage == "boot" or any(kind in failure.kinds for kind in _INFRA)
    if infra and "SystemExit" not in failure.kinds:
        hint = ""
        if failure.stage == "boot":
            hint = (
                "tasks run in containers of Docker; tasks of text alone may run on this machine with "
                "--rlenv-trust-code"
            )
        return SandboxFailed(
            f"no runtime for the task: {failure}", hint=hint, detail=failure.detail, stage=stage
        )
    if stage is Stage.VERIFY:
        what = "the gold check" if failure.stage == "validate" else "scoring"
        return RewardMissing(f"{what} raised {failure}", detail=failure.detail, stage=stage)
    if stage is Stage.LOAD:
        return TaskInvalid(f"the task cannot be made: {failure}", detail=failure.detail)
    return EnvironmentFailed(f"the task raised {failure}", detail=failure.detail, stage=stage)


def _of_errors(errors: Sequence[Mapping[str, Any]], timed_out: bool, otherwise: str) -> RlenvError:
    if timed_out:
        message = str(errors[-1]["message"]) if errors else "the episode ran out of time"
        return StageTimeout(clean(message), stage=Stage.AGENT)
    return of_error(errors[-1], Stage.START) if errors else RewardMissing(otherwise)


def _where(trace: Trace) -> Stage:
    """Return where a trace broke: rewards that were awaited and not given mean while scoring."""
    if any(reward is None for reward in trace["rewards"].values()):
        return Stage.VERIFY
    return Stage.AGENT if trace["turns"] else Stage.AGENT_SETUP


def _note(trace: Trace, rollout: Rollout) -> None:
    stop = trace["stop"]
    if stop in _LIMITS:
        rollout.note(*_LIMITS[stop])
    elif stop not in _ENDS:
        rollout.note("stop-condition", f"the agent's run ended at {stop}")
    told = [f"{name} {number(value)}" for name, value in trace["metrics"].items() if _is_number(value)]
    if told:
        more = f" and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
        rollout.note("metrics", ", ".join(told[:_SHOWN]) + more)
    if trace["errors"]:
        rollout.note(
            "earlier-errors", f"after {len(trace['errors'])} errors: {trace['errors'][-1]['message']}"
        )


def _total_shown(trace: Trace) -> str:
    known = [reward for reward in trace["rewards"].values() if reward is not None]
    return number(sum(each["score"] * each["weight"] for each in known)) if known else "-"


def _details(errors: Sequence[Mapping[str, Any]]) -> str:
    return tail(clean("\n".join(str(error["detail"]) for error in errors)))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and value == value and abs(value) != float("inf")
