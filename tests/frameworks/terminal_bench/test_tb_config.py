from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pytest_rlenv.errors import TaskInvalid
from pytest_rlenv.frameworks.terminal_bench.config import ParserName, TaskYaml, parse_config
from pytest_rlenv.frameworks.terminal_bench.estimate import estimated_seconds
from pytest_rlenv.frameworks.terminal_bench.keystrokes import parse_commands

USUAL = """\
# a canary may stand here
instruction: |-
  Write 42
  to /app/answer.
author_name: nobody
author_email: nobody@example.com
difficulty: medium
category: file-operations
tags: [files, easy]
parser_name: pytest
max_agent_timeout_sec: 900.0
max_test_timeout_sec: 180
run_tests_in_same_shell: false
disable_asciinema: true
estimated_duration_sec:
expert_time_estimate_min: 3
junior_time_estimate_min: null
"""


def test_a_usual_file() -> None:
    config, warnings = parse_config(USUAL, "task.yaml")
    assert warnings == []
    assert config.instruction == "Write 42\nto /app/answer."
    assert (config.max_agent_timeout_sec, config.max_test_timeout_sec) == (900.0, 180.0)
    assert (config.parser_name, config.run_tests_in_same_shell) == (ParserName.PYTEST, False)


def test_defaults_are_those_of_terminal_bench() -> None:
    config, _ = parse_config("instruction: x", "task.yaml")
    assert (config.max_agent_timeout_sec, config.max_test_timeout_sec) == (360.0, 60.0)
    assert config.parser_name is ParserName.PYTEST


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "holds nothing, not a mapping"),
        ("- a", "holds a list, not a mapping"),
        ("just words", "holds a single value"),
        ("difficulty: easy", "instruction: required, but not set"),
        ("instruction: 3", "instruction = 3: expected a string"),
        ("instruction:", "instruction = null: expected a string"),
        ("instruction: x\nparser_name: junit", "parser_name = \"junit\": expected 'pytest', 'swebench'"),
        ("instruction: x\nmax_agent_timeout_sec: soon", 'max_agent_timeout_sec = "soon": expected a number'),
        (
            "instruction: x\nmax_test_timeout_sec: 0",
            "max_test_timeout_sec = 0: expected a number of seconds above 0",
        ),
        ("instruction: x\nmax_test_timeout_sec: .nan", "max_test_timeout_sec = nan"),
        ("instruction: x\nrun_tests_in_same_shell: maybe", "run_tests_in_same_shell"),
        ("instruction: x\n2: y", "the key 2 is not a text"),
        ("instruction: [a", "not valid YAML:"),
        ("a: b: c", "(line 1, column 5)"),
        ("a: 1\n--- \nb: 2", "not valid YAML"),
        ("a: !!python/object:os.system x", "not valid YAML: could not determine a constructor"),
        ("a: 2024-13-45", "not valid YAML: a value cannot be read"),
        ("a: !!timestamp x", "not valid YAML: a value cannot be read"),
        ("a: \x07", "not valid YAML"),
        (b"a: \xff", "not UTF-8: byte 0xff at offset 3"),
        pytest.param("[" * 5000, "not valid YAML:", id="deep"),
        pytest.param("a: " + "b" * 2_000_000, "2000003 bytes; at most", id="large"),
        ("descriptions: [{key: hard, description: x}]", 'descriptions: no entry with the key "base"'),
        ("descriptions: 3", 'no entry with the key "base"'),
        ("descriptions: [{key: base}]", 'no entry with the key "base" and a text'),
    ],
)
def test_what_is_wrong_is_told_in_one_line(text: str | bytes, words: str) -> None:
    with pytest.raises(TaskInvalid) as caught:
        parse_config(text, "task.yaml")
    message = caught.value.message
    assert message.startswith("task.yaml: ")
    assert words in message
    assert message.isprintable()


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        ("instruction: x\nq: y", ["task.yaml: q: unknown field, ignored"]),
        (
            "instruction: x\nparser_nam: pytest",
            ["task.yaml: parser_nam: unknown field, ignored; did you mean `parser_name`?"],
        ),
        (
            "descriptions: [{key: hard, description: z}, {key: base, description: x}]",
            [
                "task.yaml: descriptions is deprecated; use `instruction`",
                "task.yaml: descriptions: only \"base\" is run, not 'hard'",
            ],
        ),
        (
            "descriptions: [{description: x}]",
            ["task.yaml: descriptions is deprecated; use `instruction`"],
        ),
    ],
)
def test_odd_fields_are_warnings(text: str, warnings: list[str]) -> None:
    config, found = parse_config(text, "task.yaml")
    assert config.instruction == "x"
    assert found == warnings


def test_an_empty_instruction_is_a_warning() -> None:
    assert parse_config("instruction: ''", "t")[1] == ["t: instruction: empty, so the agent is told nothing"]


def test_aliases_do_not_blow_up() -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 60))
    with pytest.raises(TaskInvalid, match="instruction is an array"):
        parse_config(f"{bomb}instruction: *a59\n", "task.yaml")


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.dates(),
    st.binary(max_size=9),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SCALARS, inner, max_size=3),
    max_leaves=8,
)
TEXTS = st.one_of(
    st.text(),
    st.text(alphabet="abc:-[]{}&*!|>%@`\"'#,? \n\t\\=<0123456789._~"),
    st.dictionaries(st.sampled_from(sorted(TaskYaml.model_fields)) | SCALARS, VALUES, max_size=6).map(
        lambda value: str(yaml.safe_dump(value))
    ),
    VALUES.map(lambda value: str(yaml.safe_dump(value))),
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(TEXTS | TEXTS.map(lambda text: f"instruction: x\n{text}"))
@example("instruction: x\ntags: =\n")
@example("? [a]\n: b")
@example("<<: 3")
@example("a: !!bool x")
@example("a: !!int ''")
@example("a: 1" + "0" * 5000)
@example("a: 1:99:1e5")
def test_any_text_gives_a_config_or_one_clear_error(text: str) -> None:
    for message in (
        complaint(lambda: parse_config(text, "x.yaml")),
        complaint(lambda: parse_commands(text, "x.yaml")),
    ):
        assert message is None or (message.startswith("x.yaml: ") and message.isprintable())


@given(st.binary(max_size=40))
def test_any_bytes_give_a_config_or_one_clear_error(data: bytes) -> None:
    message = complaint(lambda: parse_config(data, "x.yaml"))
    assert message is None or (message.startswith("x.yaml: ") and message.isprintable())


def complaint(parse: Callable[[], object]) -> str | None:
    try:
        parse()
    except TaskInvalid as error:
        return error.message
    return None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (USUAL, 1080.0),
        ("instruction: x", 420.0),
        ("max_test_timeout_sec: 5 # short\r\n", 365.0),
        ("  max_test_timeout_sec: 5", 420.0),
        ("max_agent_timeout_sec: soon", 420.0),
    ],
)
def test_the_time_is_estimated_without_reading_yaml(text: str, seconds: float, tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_bytes(text.encode())
    assert estimated_seconds(tmp_path) == seconds
    assert estimated_seconds(tmp_path / "nowhere") is None
