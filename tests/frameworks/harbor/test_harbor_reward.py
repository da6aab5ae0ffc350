"""THE reward reader: each rule is a row, and whatever bytes come, a reward is finite or there is none."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pytest_rlenv.errors import RewardInvalid, RewardMissing, RlenvError, Stage
from pytest_rlenv.frameworks.harbor.reward import (
    FILES_DISAGREE,
    LARGEST_REWARD,
    MAX_REWARD_BYTES,
    REWARD_JSON,
    REWARD_TXT,
    check_reward_file,
    read_rewards,
    reward_missing,
    with_verifier,
)
from pytest_rlenv.sandboxes.model import Stat

TEXTS = {
    "integer": (b"1", 1.0),
    "line": (b"1\n", 1.0),
    "CR LF": (b"0.5\r\n", 0.5),
    "white space around": (b" \t\n 0.25 \n\n", 0.25),
    "negative": (b"-2.5", -2.5),
    "large": (b"7", 7.0),
    "exponent": (b"1e-3", 0.001),
    "plus": (b"+1.", 1.0),
    "zero below zero": (b"-0.0", 0.0),
    "underscore, as Python reads it": (b"1_000", 1000.0),
    "other digits, as Python reads them": ("\u0661".encode(), 1.0),
}


@pytest.mark.parametrize(("data", "expected"), TEXTS.values(), ids=TEXTS)
def test_text(data: bytes, expected: float) -> None:
    assert read_rewards(None, data) == ({"reward": expected}, [])


JSONS = {
    "float": (b'{"reward": 1.0}', {"reward": 1.0}),
    "integer": (b'{"reward": 1}', {"reward": 1.0}),
    "true": (b'{"reward": true}', {"reward": 1.0}),
    "false": (b'{"reward": false}', {"reward": 0.0}),
    "another key": (b'{"accuracy": 0.5}', {"accuracy": 0.5}),
    "several keys": (b'{"reward": 1, "speed": 0.2, "ok": true}', {"reward": 1.0, "speed": 0.2, "ok": 1.0}),
    "order is kept": (b'{"b": 1, "a": 2}', {"b": 1.0, "a": 2.0}),
    "white space": (b' \n{"reward":\t-2.5}\n', {"reward": -2.5}),
    "large": (b'{"reward": 7}', {"reward": 7.0}),
    "tiny": (b'{"reward": 1e-400}', {"reward": 0.0}),
    "integer beyond 53 bits": (b'{"reward": 9007199254740993}', {"reward": 9007199254740992.0}),
    "key in other letters": ('{"güte": 1}'.encode(), {"güte": 1.0}),
}


@pytest.mark.parametrize(("data", "expected"), JSONS.values(), ids=JSONS)
def test_json(data: bytes, expected: dict[str, float]) -> None:
    rewards, notes = read_rewards(data, None)
    assert list(rewards.items()) == list(expected.items())
    assert all(type(value) is float for value in rewards.values())
    assert notes == []


NO_TEXT = {
    "empty": (b"", RewardMissing, "reward.txt is empty"),
    "white space only": (b" \n\t", RewardMissing, "reward.txt is empty (white space only)"),
    "words": (b"pass\n", RewardInvalid, "reward.txt holds 'pass', not a number"),
    "nan": (b"nan", RewardInvalid, "reward.txt holds 'nan', which is not finite (nan)"),
    "inf": (b"inf", RewardInvalid, "not finite (inf)"),
    "minus infinity": (b"-Infinity", RewardInvalid, "not finite (-inf)"),
    "overflow": (b"1e309", RewardInvalid, "reward.txt holds '1e309', which is not finite (inf)"),
    "two numbers": (b"1 0", RewardInvalid, "'1 0'"),
    "two lines": (b"1\n0\n", RewardInvalid, r"'1\n0'"),
    "a fraction": (b"3/4", RewardInvalid, "'3/4'"),
    "a comma": (b"0,5", RewardInvalid, "'0,5'"),
    "percent": (b"50%", RewardInvalid, "'50%'"),
    "hexadecimal": (b"0x1", RewardInvalid, "'0x1'"),
    "bool": (b"true", RewardInvalid, "'true'"),
    "json": (b'{"reward": 1}', RewardInvalid, """'{"reward": 1}'"""),
    "nul": (b"1\0", RewardInvalid, r"'1\x00'"),
    "byte order mark": (b"\xef\xbb\xbf1", RewardInvalid, "reward.txt starts with a byte order mark"),
    "utf-16": ("1".encode("utf-16"), RewardInvalid, "reward.txt is not UTF-8"),
    "not utf-8": (b"\xff\xfe", RewardInvalid, "reward.txt is not UTF-8"),
    "escape sequences": (b"\x1b[2J1", RewardInvalid, r"'\x1b[2J1'"),
    "a traceback": (b"Traceback: " + b"x" * 5000, RewardInvalid, "xxx...'"),
}


@pytest.mark.parametrize(("data", "error", "message"), NO_TEXT.values(), ids=NO_TEXT)
def test_text_that_is_no_reward(data: bytes, error: type[RlenvError], message: str) -> None:
    with pytest.raises(error) as caught:
        read_rewards(None, data)
    assert message in caught.value.message
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 250
    assert caught.value.stage is Stage.VERIFY


NO_JSON = {
    "empty": (b"", RewardMissing, "reward.json is empty"),
    "white space only": (b"\n", RewardMissing, "reward.json is empty (white space only)"),
    "broken": (b'{"reward": 1,}', RewardInvalid, "reward.json is not JSON: "),
    "single quotes": (b"{'reward': 1}", RewardInvalid, "(line 1, column 2)"),
    "cut short": (b'{"reward": ', RewardInvalid, "reward.json is not JSON"),
    "two documents": (b'{"reward": 1}{"reward": 0}', RewardInvalid, "reward.json is not JSON: Extra data"),
    "scalar": (b"1", RewardInvalid, "reward.json holds '1', not an object"),
    "null": (b"null", RewardInvalid, "reward.json holds 'null', not an object"),
    "string": (b'"1"', RewardInvalid, "not an object"),
    "array": (b"[1]", RewardInvalid, "reward.json holds '[1]', not an object"),
    "array of pairs": (b'[["reward", 1]]', RewardInvalid, "not an object"),
    "no keys": (b"{}", RewardInvalid, "empty object"),
    "value null": (b'{"reward": null}', RewardInvalid, "reward.json: 'reward' is null, not a number"),
    "value string": (b'{"reward": "1"}', RewardInvalid, "'reward' is the string '1', not a number"),
    "value nested": (b'{"a": 1, "reward": {"x": 1}}', RewardInvalid, "'reward' is an object, not a number"),
    "value array": (b'{"reward": [1]}', RewardInvalid, "'reward' is an array, not a number"),
    "value NaN": (b'{"reward": NaN}', RewardInvalid, "reward.json holds NaN, which is not finite"),
    "value Infinity": (b'{"reward": Infinity}', RewardInvalid, "Infinity"),
    "value -Infinity": (b'{"reward": -Infinity}', RewardInvalid, "-Infinity"),
    "value 1e309": (b'{"reward": 1e309}', RewardInvalid, "'reward' is too large for a number (inf)"),
    "integer beyond a float": (b'{"reward": 1' + b"0" * 400 + b"}", RewardInvalid, "'reward' is too large"),
    "integer beyond Python": (
        b'{"reward": ' + b"1" * 5000 + b"}",
        RewardInvalid,
        "not a flat object of numbers",
    ),
    "the same key twice": (b'{"reward": 0, "reward": 1}', RewardInvalid, "the key 'reward' twice"),
    "the same key, escaped": (b'{"reward": 0, "rew\\u0061rd": 1}', RewardInvalid, "the key 'reward' twice"),
    "half a character": (b'{"\\ud800": 1}', RewardInvalid, "not valid text"),
    "deep": (b"[" * MAX_REWARD_BYTES, RewardInvalid, "reward.json"),
    "deep objects": (b'{"a":' * 10_000, RewardInvalid, "reward.json"),
    "byte order mark": (b'\xef\xbb\xbf{"reward": 1}', RewardInvalid, "byte order mark"),
    "not utf-8": (b'{"reward\xff": 1}', RewardInvalid, "reward.json is not UTF-8"),
    "a long value": (b'{"reward": "' + b"y" * 5000 + b'"}', RewardInvalid, "yyy...'"),
    "a wild key": (b'{"\\u001b[2J": "x"}', RewardInvalid, r"'\x1b[2J' is the string"),
}


@pytest.mark.parametrize(("data", "error", "message"), NO_JSON.values(), ids=NO_JSON)
def test_json_that_is_no_reward(data: bytes, error: type[RlenvError], message: str) -> None:
    with pytest.raises(error) as caught:
        read_rewards(data, None)
    assert message in caught.value.message
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 350


BOTH = {
    "agree": (b'{"reward": 1}', b"1.0\n", {"reward": 1.0}, None),
    "single key agrees": (b'{"acc": 0.5}', b"0.5", {"acc": 0.5}, None),
    "json wins": (b'{"reward": 0}', b"1", {"reward": 0.0}, "reward.json counts (0), but reward.txt says 1"),
    "text is nonsense": (
        b'{"reward": 1}',
        b"pass",
        {"reward": 1.0},
        "reward.json counts; reward.txt holds 'pass'",
    ),
    "text is empty": (b'{"reward": 1}', b"", {"reward": 1.0}, "reward.json counts; reward.txt is empty"),
    "nothing to compare": (b'{"a": 1, "b": 0}', b"1", {"a": 1.0, "b": 0.0}, None),
}


@pytest.mark.parametrize(("as_json", "as_text", "expected", "note"), BOTH.values(), ids=BOTH)
def test_both_files(as_json: bytes, as_text: bytes, expected: dict[str, float], note: str | None) -> None:
    rewards, notes = read_rewards(as_json, as_text)
    assert rewards == expected
    assert [code for code, _ in notes] == ([FILES_DISAGREE] if note else [])
    assert all(text.startswith(note or "") for _, text in notes)


@pytest.mark.parametrize("as_json", [b"", b"{}", b"broken", b'{"reward": null}'])
def test_a_good_text_does_not_rescue_a_bad_json(as_json: bytes) -> None:
    with pytest.raises((RewardMissing, RewardInvalid), match=r"reward\.json"):
        read_rewards(as_json, b"1")


def test_no_file_at_all() -> None:
    with pytest.raises(RewardMissing) as caught:
        read_rewards(None, None)
    assert REWARD_JSON in caught.value.message
    assert REWARD_TXT in caught.value.message


MISSING = {
    "exit 0": ({"exit_code": 0}, "(test.sh exited 0)", "on every path through test.sh"),
    "exit 1": ({"exit_code": 1}, "(test.sh exited 1)", "test.sh stopped before writing a reward (exit 1)"),
    "not run": ({"exit_code": 126}, "exited 126", "(exit 126): the system refused to run it"),
    "not found": ({"exit_code": 127}, "exited 127", "its interpreter, or a command it needs, was not found"),
    "unknown": ({"exit_code": None}, REWARD_TXT, "on every path"),
    "plural": (
        {"exit_code": 0, "plural_seen": True},
        "exited 0",
        "found rewards.json: the file must be called reward.json",
    ),
    "plural text": ({"exit_code": 1, "names": ["rewards.txt"]}, "exited 1", "must be called reward.txt"),
}


@pytest.mark.parametrize(("arguments", "message", "hint"), MISSING.values(), ids=MISSING)
def test_what_a_missing_reward_says(arguments: dict[str, object], message: str, hint: str) -> None:
    error = reward_missing(**arguments, output_tail="boom")  # type: ignore[arg-type] # rows differ in their keys
    assert message in error.message
    assert REWARD_JSON in error.message
    assert REWARD_TXT in error.message
    assert hint in error.hint
    assert error.detail == "boom"


def test_how_the_verifier_ended_is_added_to_an_error() -> None:
    with pytest.raises(RewardMissing) as caught:
        read_rewards(None, b"")
    with_verifier(caught.value, exit_code=2, output_tail="boom")
    assert str(caught.value) == caught.value.message == "reward.txt is empty (test.sh exited 2)"
    assert caught.value.detail == "boom"


def test_a_clean_exit_is_not_worth_a_word() -> None:
    error = RewardInvalid("x")
    with_verifier(error, exit_code=0, output_tail="")
    assert str(error) == error.message == "x"


def test_absent_file() -> None:
    assert check_reward_file(None, REWARD_TXT) is False


@pytest.mark.parametrize("size", [0, 1, MAX_REWARD_BYTES])
def test_regular_file(size: int) -> None:
    assert check_reward_file(Stat("file", size, 0o644), REWARD_TXT) is True


@pytest.mark.parametrize("kind", ["directory", "symlink", "fifo", "socket", "device"])
def test_anything_else_than_a_regular_file(kind: str) -> None:
    with pytest.raises(RewardInvalid, match=f"^{REWARD_TXT} is a {kind}"):
        check_reward_file(
            Stat(kind, 1, 0o644, target="/etc/\x1bpasswd" if kind == "symlink" else ""), REWARD_TXT
        )


def test_where_a_link_points_is_shown_and_printable() -> None:
    with pytest.raises(RewardInvalid) as caught:
        check_reward_file(Stat("symlink", 1, 0o777, target="/etc/\x1bpasswd"), REWARD_JSON)
    assert r"'/etc/\x1bpasswd'" in caught.value.message


def test_too_large() -> None:
    with pytest.raises(RewardInvalid, match=f"has 50000000 bytes, more than the {MAX_REWARD_BYTES}"):
        check_reward_file(Stat("file", 50_000_000, 0o644), REWARD_TXT)


# Properties.

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
BYTES = st.none() | st.binary(max_size=60) | JSON_VALUES.map(lambda value: json.dumps(value).encode())


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(BYTES, BYTES)
@example(b'{"reward": 1e309}', None)
@example(b"[" * 60_000, b"9" * 60_000)
def test_rewards_are_finite_or_there_are_none(as_json: bytes | None, as_text: bytes | None) -> None:
    try:
        rewards, _ = read_rewards(as_json, as_text)
    except (RewardMissing, RewardInvalid):
        return
    assert rewards
    assert all(type(value) is float and abs(value) <= LARGEST_REWARD for value in rewards.values())
    "".join(rewards).encode("utf-8")


REWARDS = st.floats(-LARGEST_REWARD, LARGEST_REWARD)


@pytest.mark.parametrize("number", ["1.0000001e100", "-2e100", "1e308"])
def test_what_no_mean_can_be_made_of_is_no_reward(number: str) -> None:
    for files in ((None, number.encode()), (f'{{"reward": {number}}}'.encode(), None)):
        with pytest.raises(RewardInvalid, match="further from 0 than 1e\\+100 is no reward"):
            read_rewards(*files)


@given(REWARDS)
def test_every_finite_number_comes_back(number: float) -> None:
    assert read_rewards(None, repr(number).encode()) == ({"reward": number}, [])
    assert read_rewards(json.dumps({"reward": number}).encode(), repr(number).encode()) == (
        {"reward": number},
        [],
    )


@given(st.dictionaries(st.text(), REWARDS | st.booleans(), min_size=1))
def test_every_flat_object_of_numbers_comes_back(table: dict[str, float]) -> None:
    assert read_rewards(json.dumps(table).encode(), None)[0] == {
        key: float(value) for key, value in table.items()
    }
