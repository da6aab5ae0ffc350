"""Any reward files, as a verifier may leave them in its box: finite numbers or one clear error."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import cast

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pytest_rlenv.errors import RewardInvalid, RewardMissing
from pytest_rlenv.frameworks.harbor.reward import MAX_REWARD_BYTES, REWARD_JSON, REWARD_TXT
from pytest_rlenv.frameworks.harbor.steps import Step
from pytest_rlenv.frameworks.harbor.verifier import read_reward
from pytest_rlenv.rollout import StepRecord
from pytest_rlenv.sandboxes.model import Completed, Stat
from pytest_rlenv.sandboxes.protocol import Box


@dataclass(frozen=True)
class Left:
    """What is at a path: a file with these bytes, or something else that must never be opened."""

    content: bytes = b""
    kind: str = "file"
    target: str = ""
    size: int | None = None


class LeftBox:
    """As much of a box as the reader may use; it fails the test if anything but a small file is opened."""

    def __init__(self, **left: Left | None) -> None:
        self._left = {REWARD_JSON: left["as_json"], REWARD_TXT: left["as_text"]}

    def stat(self, path: str) -> Stat | None:
        found = self._left.get(path)
        if found is None:
            return None
        size = len(found.content) if found.size is None else found.size
        return Stat(found.kind, size, 0o644, found.target)

    def get(self, path: str, *, cap: int) -> bytes:
        found = self._left[path]
        assert found is not None
        assert found.kind == "file"
        assert (len(found.content) if found.size is None else found.size) <= cap <= MAX_REWARD_BYTES
        return found.content


ODD_NUMBERS = st.sampled_from(
    ["NaN", "Infinity", "-Infinity", "1e309", "-1e999", "9" * 400, "9" * 5000, "1e-999", "-0", "true", "null"]
)
PLAIN = st.sampled_from(
    ["1", "0", "0.5", "-2.5", "7", "1_000", " 1\n", "\uff11", "0x1", "1,5", "yes", "", "\n"]
)
KEYS = st.sampled_from(["reward", "a", "", "\ud800", "é", "x" * 200])


def json_key(key: str) -> str:
    return json.dumps(key)


@st.composite
def objects(draw: st.DrawFn, depth: int = 2) -> str:
    """Draw an object as text, in which a key may come twice and values may be anything."""
    pairs = []
    for _ in range(draw(st.integers(0, 3))):
        inner = objects(depth - 1) if depth else PLAIN
        value = draw(st.one_of(PLAIN, ODD_NUMBERS, st.text(max_size=3).map(json_key), st.just("[1]"), inner))
        pairs.append(f"{json_key(draw(KEYS))}: {value}")
    return "{" + ", ".join(pairs) + "}"


TEXTS = st.one_of(
    PLAIN, ODD_NUMBERS, objects(), st.just("[" * 30_000), st.just('{"a":' * 20_000), st.text(max_size=9)
)
CODED = st.tuples(TEXTS, st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1"])).map(
    lambda pair: pair[0].encode(pair[1], "replace")
)
CONTENTS = CODED | st.binary(max_size=12) | st.tuples(CODED, st.binary(max_size=3)).map(b"".join)
FILES = (
    CONTENTS.map(Left)
    | st.integers(0, 2**60).map(lambda size: Left(b"1", size=max(size, MAX_REWARD_BYTES + 1)))
    | st.sampled_from(["directory", "symlink", "fifo", "socket", "device"]).map(
        lambda kind: Left(b"1", kind=kind, target="/etc/passwd\x1b" if kind == "symlink" else "")
    )
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(as_json=st.none() | FILES, as_text=st.none() | FILES, code=st.sampled_from([0, 1, 127, 137, None]))
@example(as_json=Left(b'{"reward": 1, "reward": 1}'), as_text=None, code=0)
@example(as_json=Left(b'\xef\xbb\xbf{"reward": 1}'), as_text=Left(b"1"), code=0)
@example(as_json=Left(b"1", kind="fifo"), as_text=Left(b"1"), code=0)
def test_any_reward_files_are_numbers_or_an_error_in_words(
    as_json: Left | None, as_text: Left | None, code: int | None
) -> None:
    record = StepRecord(name="")
    step = cast("Step", SimpleNamespace(rewards_in_output=lambda completed, record: None))
    box = cast("Box", LeftBox(as_json=as_json, as_text=as_text))
    try:
        rewards = read_reward(box, step, record, Completed(code, output=b"\xff said\n"), None)
    except (RewardMissing, RewardInvalid) as error:
        in_words(error)
        return
    counts = as_json or as_text
    assert counts is not None
    assert counts.kind == "file"
    assert rewards
    assert all(type(value) is float and math.isfinite(value) for value in rewards.values())
    record.rewards = rewards
    assert StepRecord.model_validate_json(record.model_dump_json()).rewards == rewards


def in_words(error: RewardMissing | RewardInvalid) -> None:
    assert error.message
    assert error.message.isprintable(), error.message
    assert len(error.message) < 400
