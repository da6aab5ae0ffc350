"""The network of each phase: what is asked of the sandbox and when, and what is skipped or noted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.rollouts import Runner, Scripted, write_steps
from support.scripted import ScriptedSandbox
from support.tasks import write_task

from pytest_rlenv.agents.protocol import AgentContext, AgentOutcome
from pytest_rlenv.errors import AgentFailed, SandboxFailed
from pytest_rlenv.frameworks.harbor.network import NetworkMode
from pytest_rlenv.frameworks.harbor.phases import NetworkPolicy, phase_policy, policies_of_agents_box
from pytest_rlenv.frameworks.harbor.steps import steps_of
from pytest_rlenv.frameworks.harbor.support import unsupported
from pytest_rlenv.frameworks.harbor.task import load_task
from pytest_rlenv.sandboxes.model import ALLOWLIST, NO_NETWORK, PUBLIC, Capabilities

ALL = frozenset({PUBLIC, NO_NETWORK, ALLOWLIST})
ENV_PUBLIC = ""
ENV_NONE = '[environment]\nnetwork_mode = "no-network"\n'
ENV_LIST = '[environment]\nnetwork_mode = "allowlist"\nallowed_hosts = ["a.test"]\n'
AGENT_LIST = '[agent]\nnetwork_mode = "allowlist"\nallowed_hosts = ["b.test", "*.c.test"]\n'
AGENT_PUBLIC = '[agent]\nnetwork_mode = "public"\n'
VERIFIER_NONE = '[verifier]\nnetwork_mode = "no-network"\n'
REWARD = "# scripted: reward=1"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    able = replace(ScriptedSandbox.capabilities, network_modes=ALL, switches_network=ALL)
    monkeypatch.setattr(ScriptedSandbox, "capabilities", able)
    return Runner(tmp_path)


@pytest.mark.parametrize(
    ("config", "started", "changes"),
    [
        (ENV_PUBLIC, (PUBLIC, (), set()), []),
        (ENV_NONE + '[agent]\nnetwork_mode = "no-network"\n', (NO_NETWORK, (), set()), []),
        (ENV_LIST, (ALLOWLIST, ("a.test",), set()), []),
        (
            ENV_LIST + '[agent]\nnetwork_mode = "allowlist"\nallowed_hosts = ["a.test"]\n' + VERIFIER_NONE,
            (ALLOWLIST, ("a.test",), {NO_NETWORK}),
            [(NO_NETWORK, ())],
        ),
        (
            ENV_NONE + AGENT_LIST,
            (NO_NETWORK, (), {ALLOWLIST}),
            [(ALLOWLIST, ("b.test", "*.c.test")), (NO_NETWORK, ())],
        ),
        (
            ENV_LIST + AGENT_LIST,
            (ALLOWLIST, ("a.test",), {ALLOWLIST}),
            [(ALLOWLIST, ("b.test", "*.c.test")), (ALLOWLIST, ("a.test",))],
        ),
        (
            ENV_LIST + AGENT_PUBLIC + VERIFIER_NONE,
            (ALLOWLIST, ("a.test",), {PUBLIC, NO_NETWORK}),
            [(PUBLIC, ()), (ALLOWLIST, ("a.test",)), (NO_NETWORK, ())],
        ),
    ],
)
def test_phases_of_a_task(
    run: Runner,
    tmp_path: Path,
    config: str,
    started: tuple[str, tuple[str, ...], set[str]],
    changes: list[tuple[str, tuple[str, ...]]],
) -> None:
    agent = Scripted()
    done = run(write_task(tmp_path / "task", config=config, test=REWARD), agent)
    assert done.error is None
    assert done.rollout.rewards == {"reward": 1.0}
    ((_, spec),) = done.sandbox.started
    assert (spec.network, spec.allowed_hosts, set(spec.later_networks)) == started
    (box,) = done.boxes
    assert [each[:2] for each in box.networks] == changes
    if changes and spec.later_networks == {NO_NETWORK}:
        at = box.networks[0][2]
        assert box.ran[at].argv[-1] == "/tests/test.sh"
        assert len(box.ran) == at + 1


def test_phases_of_steps(run: Runner, tmp_path: Path) -> None:
    config = f"""
{ENV_NONE}
[verifier]
network_mode = "public"
[[steps]]
name = "one"
agent = {{network_mode = "allowlist", allowed_hosts = ["b.test"]}}
[[steps]]
name = "two"
verifier = {{network_mode = "no-network"}}
"""
    files = {"tests/test.sh": REWARD}
    done = run(write_steps(tmp_path / "task", config, {"one": files, "two": files}), Scripted())
    assert done.error is None
    ((_, spec),) = done.sandbox.started
    assert spec.later_networks == {ALLOWLIST, PUBLIC}
    assert [each[:2] for each in done.boxes[0].networks] == [
        (ALLOWLIST, ("b.test",)),
        (NO_NETWORK, ()),
        (PUBLIC, ()),
        (NO_NETWORK, ()),
    ]


def test_a_separate_verifiers_box_starts_with_the_network_of_its_phase(run: Runner, tmp_path: Path) -> None:
    config = AGENT_LIST + VERIFIER_NONE + "[verifier.environment]\nnetwork_mode = 'allowlist'\n"
    done = run(write_task(tmp_path / "task", config=config, test=REWARD), Scripted())
    agents, verifiers = (spec for _, spec in done.sandbox.started)
    assert (agents.network, agents.later_networks) == (PUBLIC, {ALLOWLIST})
    assert (verifiers.network, verifiers.later_networks) == (NO_NETWORK, set())
    assert done.boxes[1].networks == []


def test_refused_hosts_are_noted_by_who_asked_for_them(run: Runner, tmp_path: Path) -> None:
    task = write_task(
        tmp_path / "task",
        config=ENV_LIST,
        solve="# scripted: denied=x.test:443\n" * 2 + "# scripted: denied=w.test:80",
        test=f"# scripted: denied=y.test:443\n{REWARD}",
    )
    done = run(task)
    assert [(note.code, note.text) for note in done.rollout.notes if note.code == "network-denied"] == [
        ("network-denied", "agent: x.test:443 \u00d72, w.test:80 \u00d71"),
        ("network-denied", "verifier: y.test:443 \u00d71"),
    ]


def test_what_a_separate_verifier_was_refused_is_noted(run: Runner, tmp_path: Path) -> None:
    config = "[verifier.environment]\nnetwork_mode = 'allowlist'\n"
    test = f"# scripted: denied=y.test:443\n{REWARD}"
    done = run(write_task(tmp_path / "task", config=config, test=test), Scripted())
    assert [note.text for note in done.rollout.notes if note.code == "network-denied"] == [
        "verifier: y.test:443 \u00d71"
    ]


def test_many_refused_hosts_are_noted_in_part(run: Runner, tmp_path: Path) -> None:
    solve = "".join(f"# scripted: denied=h{number:02}.test:443\n" for number in range(23))
    done = run(write_task(tmp_path / "task", config=ENV_LIST, solve=solve, test=REWARD))
    (text,) = (note.text for note in done.rollout.notes if note.code == "network-denied")
    assert "h19.test" in text
    assert text.endswith("and 3 more")


class Breaks(Scripted):
    def run(self, context: AgentContext) -> AgentOutcome:
        context.box.run(["# scripted: denied=x.test:443"])
        raise ValueError("broken")


def test_an_agent_that_breaks_leaves_the_note(run: Runner, tmp_path: Path) -> None:
    done = run(write_task(tmp_path / "task", config=ENV_NONE + AGENT_LIST, test=REWARD), Breaks())
    assert isinstance(done.error, AgentFailed)
    assert "network-denied" in done.codes()
    assert len(done.boxes[0].networks) == 1


def test_a_network_that_cannot_be_changed_is_an_error(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise SandboxFailed("the engine does not do it")

    monkeypatch.setattr("support.scripted.ScriptedBox.set_network", refuse)
    agent = Scripted()
    done = run(write_task(tmp_path / "task", config=ENV_NONE + AGENT_LIST, test=REWARD), agent)
    assert isinstance(done.error, SandboxFailed)
    assert done.rollout.rewards is None
    assert agent.given == []


# ---- what a sandbox lacks

FIXED = Capabilities(network_modes=ALL, builds_images=True, services=True)
SWITCHES = replace(FIXED, switches_network=ALL)
INNER = replace(FIXED, switches_network=frozenset({NO_NETWORK, ALLOWLIST}))
WITHOUT = replace(
    SWITCHES,
    network_modes=frozenset({PUBLIC, NO_NETWORK}),
    missing_networks={ALLOWLIST: "the engine is remote"},
)
CANNOT = 'differs from [environment], "no-network": this sandbox cannot make that change in a running box'
SEPARATE = '[verifier]\nnetwork_mode = "allowlist"\n[verifier.environment]\nmemory_mb = 1\n'


@pytest.mark.parametrize(
    ("config", "capabilities", "reasons"),
    [
        (ENV_LIST, FIXED, []),
        (ENV_LIST, WITHOUT, ['[environment] network_mode = "allowlist": the engine is remote']),
        (ENV_LIST + AGENT_LIST, FIXED, []),
        (ENV_NONE + AGENT_LIST, SWITCHES, []),
        (ENV_NONE + AGENT_LIST, INNER, []),
        (ENV_NONE + AGENT_LIST, WITHOUT, ['[agent] network_mode = "allowlist": the engine is remote']),
        (
            ENV_NONE + AGENT_LIST,
            FIXED,
            [f'[agent] network_mode = "allowlist" {CANNOT}'],
        ),
        (
            ENV_NONE + AGENT_PUBLIC,
            INNER,
            [f'[agent] network_mode = "public" {CANNOT}'],
        ),
        (ENV_NONE + AGENT_PUBLIC, WITHOUT, []),
        (SEPARATE, FIXED, []),
        (SEPARATE, WITHOUT, ['[verifier] network_mode = "allowlist": the engine is remote']),
        (
            '[verifier.environment]\nnetwork_mode = "allowlist"',
            WITHOUT,
            ['[verifier.environment] network_mode = "allowlist": the engine is remote'],
        ),
    ],
)
def test_what_is_skipped(tmp_path: Path, config: str, capabilities: Capabilities, reasons: list[str]) -> None:
    task = load_task(write_task(tmp_path / "task", config=config), "t")
    assert unsupported(task, capabilities, enforce_limits=False) == reasons


# ---- hosts that an agent needs


@pytest.mark.parametrize(
    ("config", "agents"),
    [
        (ENV_PUBLIC, NetworkPolicy(NetworkMode.PUBLIC)),
        (ENV_NONE, NetworkPolicy(NetworkMode.ALLOWLIST, ("model.test", "b.test"))),
        (ENV_LIST, NetworkPolicy(NetworkMode.ALLOWLIST, ("a.test", "model.test", "b.test"))),
        (ENV_NONE + AGENT_PUBLIC, NetworkPolicy(NetworkMode.PUBLIC)),
        (AGENT_LIST, NetworkPolicy(NetworkMode.ALLOWLIST, ("b.test", "*.c.test", "model.test"))),
    ],
)
def test_hosts_that_the_agent_needs_join_the_list_of_its_phase(
    tmp_path: Path, config: str, agents: NetworkPolicy
) -> None:
    task = load_task(write_task(tmp_path / "task", config=config), "t")
    (step,) = steps_of(task)
    environment = task.config.environment
    own = NetworkPolicy(environment.network_mode, tuple(environment.allowed_hosts or ()))
    also = ("model.test", "b.test")
    assert phase_policy(step.agent_phase, own, also=also) == agents
    assert policies_of_agents_box([step], own, also=also) == list(dict.fromkeys([own, agents]))
