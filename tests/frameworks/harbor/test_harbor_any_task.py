"""Any task.toml, in a folder that fits it, and any steps and rewards: a verdict or one clear message.

Tables are drawn from the whole schema; then a few of their values are replaced by what nobody expects there.
"""

from __future__ import annotations

import copy
import math
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.rollouts import Done, Runner, write_steps
from support.toml_text import as_toml

from pytest_rlenv.agents.nop import NopAgent
from pytest_rlenv.errors import RewardInvalid, RewardMissing, RlenvError, TaskInvalid
from pytest_rlenv.frameworks.harbor.config import StepRewards
from pytest_rlenv.frameworks.harbor.step_rewards import missed_minimum, total
from pytest_rlenv.frameworks.harbor.task import load_task
from pytest_rlenv.rollout import Rollout
from pytest_rlenv.verdict import Expectation, judge

FEW = settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
SHORT = st.text("ab.-", min_size=1, max_size=3)
NAMES = st.sampled_from(["one", "two", "a b", "CON", "..", "x" * 300, "é", ""])
SECONDS = st.sampled_from([0.1, 1, 60, 1e9, 0, -1])
HOSTS = st.lists(
    st.sampled_from(["example.com", "*.example.com", "10.0.0.0/8", "::1", "http://x", "*"]), max_size=2
)
MODES = st.sampled_from(["public", "no-network", "allowlist"])
NETWORK: dict[str, st.SearchStrategy[Any]] = {"network_mode": MODES, "allowed_hosts": HOSTS}
VARIABLES = st.dictionaries(st.sampled_from(["A", "B"]), st.sampled_from(["x", "${A}", "${NONE}", "${N:-d}"]))
PATHS = st.sampled_from(
    ["/app/x", "/logs/artifacts", "rel", "/app/../x", "/tests", "/logs/verifier/reward.txt", "/"]
)


def table(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


ARTIFACTS = st.lists(
    PATHS
    | table(
        source=PATHS,
        destination=st.sampled_from(["x", "x/y", "../x", "manifest.json", "/x"]),
        exclude=st.lists(st.sampled_from(["*.tmp", "[", "", "a/"]), max_size=2),
        service=st.sampled_from(["main", "db", "a b"]),
    ),
    max_size=3,
)
CHECKS = table(
    command=st.just("# scripted: exit=0"), interval_sec=st.just(0), timeout_sec=SECONDS, retries=st.just(1)
)
SERVERS = st.lists(
    table(
        name=st.just("tools"),
        transport=st.sampled_from(["sse", "streamable-http", "stdio", "http", "?"]),
        url=st.sampled_from(["http://tools:1/x", "", "${A}"]),
        command=st.just("serve"),
        args=st.lists(SHORT, max_size=2),
        headers=st.dictionaries(
            st.sampled_from(["Authorization", "X"]),
            st.sampled_from(["x", "Bearer ${A}", "${A:-x}"]),
            max_size=1,
        ),
    ),
    max_size=2,
)
ENVIRONMENTS = table(
    build_timeout_sec=SECONDS,
    docker_image=st.sampled_from(["", "debian:bookworm-slim"]),
    os=st.sampled_from(["linux", "Windows"]),
    cpus=st.sampled_from([0, 1, 0.5, "2", -1, 99]),
    memory_mb=st.sampled_from([0, 64, -1, 10**9]),
    memory=st.sampled_from(["1G", "4GB", 5]),
    storage_mb=st.integers(-1, 9),
    gpus=st.integers(-1, 1),
    tpu=table(type=SHORT, topology=st.sampled_from(["2x4", "x"])),
    mcp_servers=SERVERS,
    env=VARIABLES,
    skills_dir=PATHS,
    healthcheck=CHECKS,
    workdir=PATHS,
    allow_internet=st.booleans(),
    **NETWORK,
)
AGENTS = table(timeout_sec=SECONDS, user=st.sampled_from(["dev", 1000, ""]), **NETWORK)
VERIFIERS = table(
    timeout_sec=SECONDS,
    user=st.sampled_from(["dev", 0]),
    env=VARIABLES,
    environment_mode=st.sampled_from(["shared", "separate"]),
    environment=ENVIRONMENTS,
    collect=st.lists(
        table(
            command=st.just("# scripted: exit=1"),
            service=st.sampled_from(["main", "db"]),
            timeout_sec=SECONDS,
        ),
        max_size=1,
    ),
    **NETWORK,
)
MINIMA = st.sampled_from([0, 0.5, -1, math.inf, math.nan, {"a": 1.0}, {}])
STEPS = st.lists(
    table(
        name=NAMES,
        agent=AGENTS,
        verifier=VERIFIERS,
        min_reward=MINIMA,
        healthcheck=CHECKS,
        artifacts=ARTIFACTS,
    ),
    max_size=3,
)
TASKS = table(
    schema_version=st.sampled_from(["1.0", "1.4", "2", 1]),
    task=table(
        name=st.sampled_from(["org/name", "bad"]), version=SHORT, keywords=st.lists(SHORT, max_size=1)
    ),
    metadata=st.dictionaries(SHORT.filter(str.isalpha), st.integers(), max_size=1),
    verifier=VERIFIERS,
    agent=AGENTS,
    environment=ENVIRONMENTS,
    solution=table(env=VARIABLES),
    multi_step_reward_strategy=st.sampled_from(["mean", "final"]),
    steps=STEPS,
    artifacts=ARTIFACTS,
)
ODD = st.sampled_from(
    [None, [], {}, "", "x" * 300, "\x00", -1, 2**70, math.nan, math.inf, True, [1], [{}], {"a": [1]}]
)


@st.composite
def nearly(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a table of which some values, or a few that are left out, are not what they should be."""
    found = copy.deepcopy(draw(TASKS))
    for _ in range(draw(st.integers(0, 2))):
        place: Any = found
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(place[key], (dict, list)) and place[key] and draw(st.booleans()):
                place = place[key]
                continue
            value = copy.deepcopy(draw(ODD))
            if value is None:
                del place[key]
            else:
                place[key] = value
            break
    return found


def written(root: Path, config: dict[str, Any]) -> Path:
    """Write a task with all the files that its configuration could ask for, as far as they have names."""
    steps = config.get("steps")
    names = [step.get("name") for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []
    scripts = {"tests/test.sh": "# scripted: reward=1", "workdir/setup.sh": "# scripted: exit=0"}
    fit = {
        name: scripts for name in names if isinstance(name, str) and name in ("one", "two", "a b", "é", "CON")
    }
    text = "\n".join(f"{key} = {as_toml(value)}" for key, value in config.items())
    return write_steps(
        root,
        text,
        fit,
        **{
            "instruction.md": "do it",
            "tests__test.sh": "# scripted: reward=1",
            "solution__solve.sh": "# scripted: exit=0",
        },
    )


def in_words(error: RlenvError) -> None:
    assert error.message
    assert error.message.isprintable(), error.message


def checked(done: Done) -> None:
    """See that a rollout came to a verdict, a skip or an error in words, and its record can be stored."""
    assert done.skipped or done.error or done.rollout.rewards
    if done.error:
        in_words(done.error)
    rewards = done.rollout.rewards or {}
    assert all(type(value) is float and math.isfinite(value) for value in rewards.values())
    Rollout.model_validate_json(done.rollout.model_dump_json())
    if rewards and not done.error:
        done.rollout.agent = "a"
        judge(done.rollout, Expectation.parse(">= 0.5", source="test"))


@FEW
@given(nearly())
def test_any_task_is_run_or_refused_in_words(config: dict[str, Any]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="rlenv-any-"))
    try:
        root = written(folder / "task", config)
        try:
            load_task(root, "t")
        except TaskInvalid as error:
            in_words(error)
            return
        checked(Runner(folder, environ={"A": "a"})(root, NopAgent()))
    finally:
        shutil.rmtree(folder)


# ---- steps and their rewards

KEYS = st.sampled_from(["reward", "a", "b"])
NUMBERS = st.sampled_from([0.0, 1.0, 0.5, -2.5, 1e308, -1e308, 5e-324, 0.1]) | st.floats(
    allow_nan=False, allow_infinity=False
)
REWARDS = st.dictionaries(KEYS, NUMBERS, min_size=1)


@given(st.lists(REWARDS, min_size=1, max_size=5), st.sampled_from([None, *StepRewards]))
def test_a_total_of_finite_rewards_is_finite(
    rewards: list[Mapping[str, float]], strategy: StepRewards | None
) -> None:
    found = total(rewards, strategy)
    assert all(math.isfinite(value) for value in found.values())
    if strategy is StepRewards.FINAL:
        assert found == rewards[-1]
        return
    assert found.keys() == {key for each in rewards for key in each}
    for key, value in found.items():
        given_to = [each.get(key, 0.0) for each in rewards]
        slack = 1e-9 * max(map(abs, given_to))
        assert min(given_to) - slack <= value <= max(given_to) + slack


@st.composite
def stepped(draw: st.DrawFn) -> tuple[list[Any], list[Any], str]:
    """Draw what each step writes (rewards, a text, or nothing), its minimum, and how they are joined."""
    count = draw(st.integers(1, 3))
    wrote = st.none() | REWARDS | st.sampled_from(["", "nan", "1e999", "x", "0.5", "[1]", '{"a": 1, "a": 2}'])
    minima = (
        st.none()
        | st.sampled_from([0, 0.5, 1])
        | st.dictionaries(KEYS, st.sampled_from([0, 0.5]), max_size=2)
    )
    return (
        draw(st.lists(wrote, min_size=count, max_size=count)),
        draw(st.lists(minima, min_size=count, max_size=count)),
        draw(st.sampled_from(["", 'multi_step_reward_strategy = "final"\n'])),
    )


@FEW
@given(stepped())
def test_any_steps_come_to_a_reward_or_name_the_one_that_has_none(
    given_: tuple[list[Any], list[Any], str],
) -> None:
    wrote, minima, strategy = given_
    config, steps = strategy, {}
    for number, (what, least) in enumerate(zip(wrote, minima, strict=True)):
        config += f'[[steps]]\nname = "s{number}"\n'
        config += "" if least is None else f"min_reward = {as_toml(least)}\n"
        body = "" if what is None else f"# scripted: reward={what}"
        if isinstance(what, dict):
            body = f"# scripted: json={as_json(what)}"
        steps[f"s{number}"] = {"tests/test.sh": body}
    folder = Path(tempfile.mkdtemp(prefix="rlenv-any-"))
    try:
        done = Runner(folder)(write_steps(folder / "task", config, steps), NopAgent())
    finally:
        shutil.rmtree(folder)
    checked(done)
    ran = done.rollout.steps or []
    for number, record in enumerate(ran):
        last = number == len(ran) - 1
        if record.rewards is None:
            assert last
            assert isinstance(done.error, (RewardMissing, RewardInvalid))
            assert done.error.message.startswith(f"step s{number}: ")
            assert done.rollout.rewards is None
            return
        least = minima[number]
        bounds = least if isinstance(least, dict) else {} if least is None else {"reward": least}
        assert (missed_minimum(record.rewards, bounds) is not None) == (bool(record.gate) or False)
        assert not record.gate or last
    assert done.error is None
    assert len(ran) == len(wrote) or ran[-1].gate
    assert done.rollout.rewards == total(
        [record.rewards for record in ran if record.rewards], StepRewards.FINAL if strategy else None
    )


def as_json(rewards: Mapping[str, float]) -> str:
    return "{" + ", ".join(f'"{key}": {value!r}' for key, value in rewards.items()) + "}"
