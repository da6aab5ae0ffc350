"""Agents by name, by name and variant, by import path, and by entry point of another package."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from pytest_rlenv.agents import loading
from pytest_rlenv.agents.bash.agent import BashAgent
from pytest_rlenv.agents.loading import GROUP, agent_names, load_agent, split_agent, version_with_variant
from pytest_rlenv.agents.oracle import OracleAgent
from pytest_rlenv.agents.protocol import Agent
from pytest_rlenv.agents.replay.agent import ReplayAgent
from pytest_rlenv.errors import SpecError

MODULE = """
from pytest_rlenv.agents.protocol import Agent

class Solver(Agent):
    variants = "how deep to think"
    def run(self, context):
        pass

class Plain(Agent):
    def run(self, context):
        pass

NO_AGENT = 3
"""


@pytest.fixture(autouse=True)
def other_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have a package installed that brings agents; made as pip makes it."""
    (tmp_path / "other_agents.py").write_text(MODULE)
    info = tmp_path / "other_agents-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-agents\nVersion: 1.0\n")
    points = {
        "solver": "other_agents:Solver",
        "plain": "other_agents:Plain",
        "broken": "other_agents:Missing",
        "absent": "not_there:X",
        "odd": "other_agents:NO_AGENT",
        "oracle": "other_agents:Plain",
    }
    lines = [f"{name} = {value}" for name, value in points.items()]
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n" + "\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    loading._installed.cache_clear()
    yield
    loading._installed.cache_clear()
    sys.modules.pop("other_agents", None)


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ("oracle", OracleAgent),
        ("bash", BashAgent),
        ("replay:some/where.json", ReplayAgent),
        ("pytest_rlenv.agents.oracle:OracleAgent", OracleAgent),
    ],
)
def test_an_agent_is_found(agent: str, expected: type[Agent]) -> None:
    assert load_agent(agent) is expected


@pytest.mark.parametrize(
    ("agent", "name"),
    [("solver", "Solver"), ("solver:deep", "Solver"), ("plain", "Plain"), ("other_agents:Plain", "Plain")],
)
def test_agents_of_another_package_are_found(agent: str, name: str) -> None:
    assert load_agent(agent).name == name


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("magic", "no such agent"),
        ("plain:fast", "agent plain has no variants"),
        ("oracle:fast", "agent oracle has no variants"),
        ("broken", "cannot load 'other_agents:Missing': AttributeError"),
        ("absent", "cannot load 'not_there:X': ModuleNotFoundError"),
        ("odd", "3 is not an agent"),
        ("other_agents:Missing", "has no 'Missing'"),
        ("other_agents:NO_AGENT", "3 is not an agent"),
        ("nowhere:Solver", "cannot import 'nowhere'"),
        ('"', "a quote .* that is not closed"),
    ],
)
def test_what_is_no_agent_is_told(agent: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        load_agent(agent)


def test_the_names_that_there_are_are_told() -> None:
    with pytest.raises(SpecError) as caught:
        load_agent("magic")
    for name in ("oracle", "nop", "bash", "replay", "solver", "module:Class"):
        assert name in caught.value.hint


@pytest.mark.parametrize(
    ("agent", "name", "variant"),
    [
        ("oracle", "oracle", ""),
        ("replay:runs/last", "replay", "runs/last"),
        ("replay:C:/x", "replay", "C:/x"),
        ("solver:deep", "solver", "deep"),
        ("package.module:Solver", "package.module:Solver", ""),
        ("module:Outer.Inner", "module:Outer.Inner", ""),
    ],
)
def test_a_known_name_has_a_variant_after_its_colon(agent: str, name: str, variant: str) -> None:
    assert split_agent(agent) == (name, variant)


@pytest.mark.parametrize(
    ("agents", "words"),
    [
        (["oracle", "nop"], ["oracle", "nop"]),
        (["package.module:Solver"], ["Solver"]),
        (["a:Solver", "b:Solver"], ["a:Solver", "b:Solver"]),
        (["solver:deep", "solver:fast", "solver"], ["solver:deep", "solver:fast", "solver"]),
        (["replay:runs/last"], ["replay"]),
        (["replay:runs/a", "replay:runs/b"], ["replay:runs/a", "replay:runs/b"]),
    ],
)
def test_the_word_for_an_agent_is_short_and_its_own(agents: list[str], words: list[str]) -> None:
    assert list(agent_names(agents).values()) == words


def test_a_variant_that_the_name_does_not_tell_is_part_of_the_version() -> None:
    assert version_with_variant("1.0", "") == "1.0"
    assert version_with_variant("1.0", "deep") == "1.0"
    one, other = (version_with_variant("1.0", path) for path in ("runs/a", "runs/b"))
    assert one != other
    assert str(one).startswith("1.0+")
    assert str(version_with_variant(None, "runs/a")).startswith("0+")


def test_no_package_takes_a_name_of_ours() -> None:
    assert load_agent("oracle") is OracleAgent


def test_names_alone_look_for_no_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(**_: str) -> list[EntryPoint]:
        raise AssertionError("packages were looked through")

    monkeypatch.setattr(loading, "entry_points", never)
    agent_names(["oracle", "nop"])
    load_agent("oracle")
