"""Options: who wins, and what is said of a wrong value."""

from __future__ import annotations

import pytest

from pytest_rlenv.errors import SpecError
from pytest_rlenv.options import OPTIONS, Value
from pytest_rlenv.settings import Settings, load_settings


def settings(**values: object) -> Settings:
    return load_settings({name: Value(value, f"--rlenv-{name}") for name, value in values.items()})


def test_every_option_has_a_setting_and_every_setting_an_option() -> None:
    assert {option.name for option in OPTIONS} == set(Settings.model_fields) - {"sources"}


@pytest.mark.parametrize(
    ("given", "agents"),
    [
        (["oracle"], ("oracle",)),
        (["oracle,nop"], ("oracle", "nop")),
        (["oracle", "nop"], ("oracle", "nop")),
        ("oracle, nop", ("oracle", "nop")),
        (["pkg.mod:Cls"], ("pkg.mod:Cls",)),
    ],
)
def test_agents_are_split(given: object, agents: tuple[str, ...]) -> None:
    assert settings(agent=given).agent == agents


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"threshold": "high"}, "--rlenv-threshold = 'high'"),
        ({"threshold": "nan"}, "--rlenv-threshold = 'nan'"),
        ({"limit": "0"}, "--rlenv-limit = '0'"),
        ({"limit": "many"}, "--rlenv-limit = 'many'"),
        ({"timeout_multiplier": "-1"}, "--rlenv-timeout_multiplier = '-1'"),
        ({"limits": "some"}, "--rlenv-limits = 'some'"),
        ({"verifier": "separate"}, "--rlenv-verifier = 'separate'"),
        ({"extra_instruction": ["@no/such"]}, "no/such cannot be read: No such file or directory"),
        ({"prompt_template": "no/such"}, "no/such cannot be read: No such file or directory"),
        ({"prompt_template": "/dev/null"}, "there is no {{ instruction }} in it"),
        ({"agent": [","]}, "--rlenv-agent = [',']"),
        ({"agent": ["nop,oracle,nop"]}, "named twice"),
    ],
)
def test_a_wrong_value_names_option_and_value(values: dict[str, object], words: str) -> None:
    with pytest.raises(SpecError) as caught:
        settings(**values)
    assert words in caught.value.message
    assert caught.value.hint
