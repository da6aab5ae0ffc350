"""Agents as people name them on a line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rlenv.agents.loading import agent_names, split_agent
from pytest_rlenv.agents.words import split_agents, unquoted
from pytest_rlenv.settings import Settings


@pytest.mark.parametrize(
    ("line", "agents"),
    [
        ("oracle", ["oracle"]),
        ("oracle,nop", ["oracle", "nop"]),
        (" oracle , nop  bash", ["oracle", "nop", "bash"]),
        ("opencode:1.18.33,package.module:Class", ["opencode:1.18.33", "package.module:Class"]),
        ('cmd:"my-agent --fast, really",nop', ['cmd:"my-agent --fast, really"', "nop"]),
        ("nop,cmd:'a b' oracle", ["nop", "cmd:'a b'", "oracle"]),
        ("cmd:my-agent --fast, really", ["cmd:my-agent --fast, really"]),
        ("nop, cmd:my-agent --fast", ["nop", "cmd:my-agent --fast"]),
        ('cmd:echo "a, b" >x', ['cmd:echo "a, b" >x']),
        ("mycmd:Class,nop", ["mycmd:Class", "nop"]),
        ("", []),
    ],
)
def test_a_line(line: str, agents: list[str]) -> None:
    assert split_agents(line) == agents
    assert Settings(agent=agents or ("oracle",)).agent == tuple(agents or ["oracle"])


@given(st.text())
def test_any_line_gives_words_that_are_there(line: str) -> None:
    for word in split_agents(line):
        assert word
        assert word in line


@pytest.mark.parametrize(
    ("agent", "variant"),
    [('cmd:"a b"', "a b"), ("cmd:'a'", "a"), ("cmd:a b", "a b"), ('cmd:"', '"'), ("cmd:\"a'", "\"a'")],
)
def test_the_variant_of_a_command(agent: str, variant: str) -> None:
    assert split_agent(agent) == ("cmd", variant)


def test_quotes_inside_stay() -> None:
    assert unquoted('echo "a"') == 'echo "a"'


def test_words_in_ids() -> None:
    agents = ['cmd:"my-agent --fast"', "opencode:1.18.33", "harbor:terminus-2"]
    assert list(agent_names(agents).values()) == ["cmd", "opencode:1.18.33", "harbor:terminus-2"]
