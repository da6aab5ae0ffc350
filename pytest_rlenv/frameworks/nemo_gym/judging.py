"""What a server's answer says of a response: the reward, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_rlenv.errors import (
    AgentFailed,
    JudgementFailed,
    RewardInvalid,
    RewardMissing,
    RlenvError,
    Stage,
    TaskInvalid,
)
from pytest_rlenv.frameworks.nemo_gym.wire import Answer
from pytest_rlenv.frameworks.rewards import finite_reward
from pytest_rlenv.rollout import MAIN_REWARD_KEY
from pytest_rlenv.text import clean

COMPONENTS = "reward_components"
_SHOWN = 300
_SHOWN_PROBLEMS = 3
_SHOWN_FACTS = 8
_FACT_CHARS = 60


@dataclass(frozen=True)
class Judgement:
    """A server's judgement.

    Attributes:
        rewards: by name; ``reward`` is the one to judge.
        facts: what the server says besides, in a line; empty for nothing.
        answer: all that it says.
    """

    rewards: dict[str, float]
    facts: str
    answer: Mapping[str, Any]


def judgement(answer: Answer, sent: Mapping[str, Any]) -> Judgement:
    """Read the answer to ``/verify``.

    Args:
        answer: the server's.
        sent: the body that it answers, with the row and the response.

    Raises:
        TaskInvalid: the server refuses the row. AgentFailed: it refuses the response. RewardMissing: it
            broke, or gives no reward. JudgementFailed: it says that the reward is none. RewardInvalid: it is
            no finite number.
    """
    content = accepted(answer, "/verify", Stage.VERIFY)
    check_marks(content)
    rewards = {MAIN_REWARD_KEY: reward_in(content, "/verify"), **_components(content)}
    return Judgement(rewards, _facts(content, sent), content)


def accepted(answer: Answer, path: str, stage: Stage) -> Mapping[str, Any]:
    """Return the object that a call was answered with.

    Raises:
        RlenvError: it was answered with another status than 200, or with no object.
    """
    if answer.status == 422:
        raise _refused(answer, path, stage)
    if answer.status != 200:
        raise _broken(answer, path, stage)
    try:
        content = answer.json()
    except ValueError:
        raise _kind(stage)(
            f"{path} was answered with what is not JSON: {_shown(answer.body)}", stage=stage
        ) from None
    if not isinstance(content, dict):
        raise _kind(stage)(f"{path} was answered with no object: {_shown(answer.body)}", stage=stage)
    return content


def reward_in(content: Mapping[str, Any], path: str) -> float:
    """Return the reward in an answer.

    Raises:
        RewardMissing: there is none. RewardInvalid: it is no finite number.
    """
    if MAIN_REWARD_KEY not in content:
        has = ", ".join(map(str, list(content)[:_SHOWN_FACTS])) or "nothing"
        raise RewardMissing(f"{path} was answered without a reward (it has {has})")
    return finite_reward(content[MAIN_REWARD_KEY], f"the reward of {path}")


def check_marks(content: Mapping[str, Any]) -> None:
    """Refuse a reward that its server itself marks as none: a placeholder of 0 after a judge failed, mostly.

    Raises:
        JudgementFailed: it is marked.
    """
    config = content.get("instance_config")
    marks = {
        "mask_sample": content.get("mask_sample") is True,
        "instance_config.mask_sample": isinstance(config, dict) and config.get("mask_sample") is True,
        "_ng_failure_class": bool(content.get("_ng_failure_class")),
        "_ng_no_persist": bool(content.get("_ng_no_persist")),
    }
    if not any(marks.values()):
        return
    said = [
        str(content[key])
        for key in ("_ng_failure_class", "failure_kind", "failure_reason")
        if content.get(key)
    ]
    marked = ", ".join(name for name, is_set in marks.items() if is_set)
    raise JudgementFailed(
        f"the server says that its reward is no measurement ({marked})"
        + (f": {_shown(', '.join(dict.fromkeys(said)))}" if said else ""),
        hint="a judge that it asks failed, as a rule; the number that it gives is a placeholder",
    )


def _kind(stage: Stage) -> type[RlenvError]:
    """Return the error for an answer that is none: a judgement's or a step's reward is missing then."""
    return TaskInvalid if stage is Stage.AGENT_SETUP else RewardMissing


def _broken(answer: Answer, path: str, stage: Stage) -> RlenvError:
    try:
        content = answer.json()
    except ValueError:
        content = answer.body
    if isinstance(content, dict) and "detail" in content:
        content = content["detail"]
    said = _shown(content if isinstance(content, str) else answer.body)
    hint = ""
    if answer.status == 404:
        hint = "the server has no such route: is it a resources server?"
    elif 300 <= answer.status < 400:
        hint = "redirects are not followed, since cookies would be lost: name the address that answers"
    return _kind(stage)(
        f"{path} was answered with status {answer.status}: {said}",
        hint=hint or "the server's code raised that; its log is in the rollout's folder",
        stage=stage,
    )


def _refused(answer: Answer, path: str, stage: Stage) -> RlenvError:
    """Return the error for a body that does not fit; the prompt that the answer repeats is left out."""
    try:
        detail = answer.json()["detail"]
        problems = [(".".join(map(str, each["loc"])), str(each["msg"])) for each in detail]
    except (ValueError, KeyError, TypeError):
        return _kind(stage)(f"{path} was answered with status 422: {_shown(answer.body)}", stage=stage)
    told = "; ".join(f"{where}: {what}" for where, what in problems[:_SHOWN_PROBLEMS])
    more = len(problems) - _SHOWN_PROBLEMS
    told += f" and {more} more" if more > 0 else ""
    if problems and all(where.startswith("body.response.") for where, _ in problems):
        return AgentFailed(f"the server refuses the response: {told}", stage=stage)
    return TaskInvalid(
        f"the server refuses the row: {told}",
        hint="is it the right server for these rows? see --rlenv-nemo-server",
        stage=stage,
    )


def _components(content: Mapping[str, Any]) -> dict[str, float]:
    """Return the parts of the reward, where the server tells them; one that is no number is left out."""
    parts = content.get(COMPONENTS)
    found: dict[str, float] = {}
    for name, value in parts.items() if isinstance(parts, dict) else ():
        try:
            found[clean(str(name))] = finite_reward(value, name)
        except RewardInvalid:
            continue
    found.pop(MAIN_REWARD_KEY, None)
    return found


def _facts(content: Mapping[str, Any], sent: Mapping[str, Any]) -> str:
    """Return what the server says beside what it was sent, such as ``extracted_answer = A``."""
    told = [
        f"{key} = {_shown(str(value), _FACT_CHARS)}"
        for key, value in content.items()
        if key not in sent and key != MAIN_REWARD_KEY and isinstance(value, (str, int, float)) and value != ""
    ]
    return ", ".join(told[:_SHOWN_FACTS])


def _shown(text: str, chars: int = _SHOWN) -> str:
    line = " ".join(clean(text).split())
    return line if len(line) <= chars else line[:chars] + "..."
