"""THE reader of rewards: what a verifier wrote, as finite numbers or one clear error.

The rules are Harbor 0.26's, and stricter where Harbor would let nonsense through:

- ``reward.json`` wins over ``reward.txt``, whatever either holds; two files that disagree give a note.
- JSON is one flat object of finite numbers; ``true`` is 1 and ``false`` is 0. Refused beyond Harbor: an
  object without keys, a key given twice, and a number further from 0 than 1e100.
- Text is what Python's ``float()`` reads, and finite, with white space around it; so ``1_000`` is 1000 as in
  Harbor. Its key is ``reward``.
- Both are UTF-8 without a byte order mark, which Harbor refuses too.
- Values are never clamped: -2.5 and 7 are rewards.

A missing or invalid reward is never a number.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any, NoReturn

from pytest_rlenv.errors import RewardInvalid, RewardMissing
from pytest_rlenv.frameworks.rewards import LARGEST_REWARD, TOO_LARGE, finite_reward, shown
from pytest_rlenv.rollout import MAIN_REWARD_KEY
from pytest_rlenv.sandboxes.model import Stat

REWARD_JSON = "/logs/verifier/reward.json"
REWARD_TXT = "/logs/verifier/reward.txt"

MAX_REWARD_BYTES = 64 * 1024
"""A reward file above this size is not read: it is a log."""

FILES_DISAGREE = "reward-files-disagree"

_BOM = b"\xef\xbb\xbf"
_WRITE_HINT = 'Write one number to reward.txt, or an object such as {"reward": 1.0} to reward.json.'
_CANNOT_START = {
    126: "the system refused to run it",
    127: "its interpreter, or a command it needs, was not found",
}


def check_reward_file(stat: Stat | None, path: str) -> bool:
    """Return whether there is a reward file to read at ``path``.

    Args:
        stat: what is at ``path`` in the box, not followed if it is a link; ``None`` if nothing is.
        path: the path in the box.

    Raises:
        RewardInvalid: something else than a regular file, or one that is too large to be a reward.
    """
    if stat is None:
        return False
    if stat.kind != "file":
        target = f" to {stat.target!a}" if stat.kind == "symlink" else ""
        raise RewardInvalid(f"{path} is a {stat.kind}{target}, not a regular file", hint=_WRITE_HINT)
    if stat.size > MAX_REWARD_BYTES:
        raise RewardInvalid(
            f"{path} has {stat.size} bytes, more than the {MAX_REWARD_BYTES} that a reward may have",
            hint=_WRITE_HINT,
        )
    return True


def read_rewards(
    json_file: bytes | None, text_file: bytes | None
) -> tuple[dict[str, float], list[tuple[str, str]]]:
    """Return the rewards by key, all finite, and notes as pairs of code and text.

    Args:
        json_file: the bytes of ``reward.json``, ``None`` if there is none.
        text_file: the bytes of ``reward.txt``, ``None`` if there is none.

    Raises:
        RewardMissing: there is neither file, or the one that counts is empty.
        RewardInvalid: the one that counts holds something else than a reward.
    """
    if json_file is not None:
        rewards = _read_json(json_file)
        return rewards, _disagreement(rewards, text_file)
    if text_file is not None:
        return {MAIN_REWARD_KEY: _read_text(text_file)}, []
    raise reward_missing(exit_code=None)


def reward_missing(
    *, exit_code: int | None, output_tail: str = "", plural_seen: bool = False, names: Iterable[str] = ()
) -> RewardMissing:
    """Return the error for a verifier that ended without a reward file.

    Args:
        exit_code: the verifier's, where it is known.
        output_tail: the end of its output.
        plural_seen: True if there is a ``rewards.json`` in ``/logs/verifier``.
        names: whatever else is known to be in ``/logs/verifier``.
    """
    ended = "" if exit_code is None else f" (test.sh exited {exit_code})"
    return RewardMissing(
        f"no reward: the verifier left neither {REWARD_JSON} nor {REWARD_TXT}{ended}",
        hint=_missing_hint(exit_code, {*names, *(["rewards.json"] if plural_seen else [])}),
        detail=output_tail,
    )


def with_verifier(error: RewardMissing | RewardInvalid, *, exit_code: int | None, output_tail: str) -> None:
    """Add how the verifier ended to an error that :func:`read_rewards` raised."""
    if exit_code:
        error.message += f" (test.sh exited {exit_code})"
        error.args = (error.message,)
    error.detail = error.detail or output_tail


def _missing_hint(exit_code: int | None, names: set[str]) -> str:
    for name, right in (("rewards.json", "reward.json"), ("rewards.txt", "reward.txt")):
        if name in names:
            return f"found {name}: the file must be called {right}"
    if exit_code in _CANNOT_START:
        return f"test.sh stopped before writing a reward (exit {exit_code}): {_CANNOT_START[exit_code]}"
    if exit_code:
        return f"test.sh stopped before writing a reward (exit {exit_code})"
    return "write a reward on every path through test.sh, also where the checks fail"


def _read_text(data: bytes) -> float:
    text = _decoded(data, "reward.txt")
    try:
        value = float(text)
    except ValueError:
        raise RewardInvalid(f"reward.txt holds {shown(text)}, not a number", hint=_WRITE_HINT) from None
    if not math.isfinite(value):
        raise RewardInvalid(f"reward.txt holds {shown(text)}, which is not finite ({value})")
    if abs(value) > LARGEST_REWARD:
        raise RewardInvalid(f"reward.txt holds {shown(text)}: {TOO_LARGE}", hint=_WRITE_HINT)
    return value


def _read_json(data: bytes) -> dict[str, float]:
    text = _decoded(data, "reward.json")
    try:
        content = json.loads(text, object_pairs_hook=_Pairs, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise RewardInvalid(f"reward.json is not JSON: {error.msg} ({where}): {shown(text)}") from None
    except (ValueError, RecursionError):  # more digits than Python converts; nested without end
        raise RewardInvalid(f"reward.json is not a flat object of numbers: {shown(text)}") from None
    if not isinstance(content, _Pairs):
        raise RewardInvalid(f"reward.json holds {shown(text)}, not an object", hint=_WRITE_HINT)
    if not content:
        raise RewardInvalid("reward.json holds an empty object, so there is no reward", hint=_WRITE_HINT)
    return _rewards(content)


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as its pairs, so that a key given twice is seen."""


def _rewards(pairs: _Pairs) -> dict[str, float]:
    rewards: dict[str, float] = {}
    for key, value in pairs:
        if key in rewards:
            raise RewardInvalid(f"reward.json has the key {shown(key)} twice")
        if any("\ud800" <= char <= "\udfff" for char in key):
            raise RewardInvalid(f"reward.json has the key {shown(key)}, which is not valid text")
        rewards[key] = _number(key, value)
    return rewards


def _number(key: str, value: Any) -> float:
    content = dict(value) if isinstance(value, _Pairs) else value
    return finite_reward(content, f"reward.json: {shown(key)}", booleans=True)


def _refuse_constant(name: str) -> NoReturn:
    raise RewardInvalid(f"reward.json holds {name}, which is not finite and not JSON")


def _decoded(data: bytes, name: str) -> str:
    if not data.strip():
        raise RewardMissing(f"{name} is empty" + (" (white space only)" if data else ""), hint=_WRITE_HINT)
    if data.startswith(_BOM):
        raise RewardInvalid(f"{name} starts with a byte order mark", hint="Write it as UTF-8 without one.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise RewardInvalid(f"{name} is not UTF-8: {shown(data.decode('latin-1'))}") from None


def _disagreement(rewards: dict[str, float], text_file: bytes | None) -> list[tuple[str, str]]:
    if text_file is None:
        return []
    try:
        other = _read_text(text_file)
    except (RewardInvalid, RewardMissing) as error:
        return [(FILES_DISAGREE, f"reward.json counts; {error.message}")]
    judged = rewards.get(MAIN_REWARD_KEY, next(iter(rewards.values())) if len(rewards) == 1 else None)
    if judged is None or judged == other:
        return []
    return [(FILES_DISAGREE, f"reward.json counts ({judged:g}), but reward.txt says {other:g}")]
