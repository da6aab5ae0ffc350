"""Which server judges a row, by an index that is made in the interpreter with the package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.nemo_gym import FakePackage, config, write_server

from pytest_rlenv.errors import SpecError, TaskInvalid
from pytest_rlenv.frameworks.nemo_gym import index as index_module
from pytest_rlenv.frameworks.nemo_gym.index import CHILD, Index, find_python, index_of
from pytest_rlenv.frameworks.nemo_gym.resolving import ServerSpec, resolve_server


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RLENV_CACHE", str(tmp_path_factory.mktemp("cache")))
        index_module._asked.cache_clear()
        yield


@pytest.fixture(scope="module")
def index(package: FakePackage) -> Index:
    return index_of(package.python, None)


def resolve(index: Index, root: Path, option: str | None = None, **data: Any) -> ServerSpec:
    return resolve_server(index, data, environment=root, option=option)


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ({"agent": "letters_simple_agent"}, "letters"),
        ({"agent": "turing_vif_simple_agent"}, "verifif"),
        ({"repo": "nvidia/letters"}, "letters"),
        ({"agent": "letters_simple_agent", "repo": "org/unknown"}, "letters"),
        ({"agent": "gone_agent", "repo": "nvidia/letters"}, "letters"),
        ({"file": "resources_servers/letters/data/example.jsonl"}, "letters"),
        ({"file": "resources_servers/code_gen/data/anything.jsonl"}, "code_gen"),
    ],
)
def test_a_server_is_known_by_what_the_row_or_its_place_says(
    index: Index, tmp_path: Path, data: dict[str, Any], name: str
) -> None:
    assert resolve(index, tmp_path, **data).name == name


@pytest.mark.parametrize("named", ["letters", "letters_simple_agent"])
def test_the_users_word_comes_first(index: Index, tmp_path: Path, named: str) -> None:
    spec = resolve(index, tmp_path, named, agent="verifif_simple_agent")
    assert (spec.name, spec.trusted, spec.max_steps, spec.agent_kind) == ("letters", True, 6, "simple_agent")
    assert spec.config is not None
    assert spec.config.name == "letters.yaml"


@pytest.mark.parametrize(
    ("name", "judges", "needs_judge"),
    [
        ("letters", (), False),
        ("verifif", ("judge_base_url",), True),
        ("essays", ("judge_model",), True),
        ("rules", (), False),
        ("terminus_judge", ("judge_model",), False),
    ],
)
def test_it_is_known_who_asks_a_judge(
    index: Index, tmp_path: Path, name: str, judges: tuple[str, ...], needs_judge: bool
) -> None:
    spec = resolve(index, tmp_path, name)
    assert (spec.judges, spec.needs_judge) == (judges, needs_judge)


def test_it_is_known_what_a_server_starts(index: Index, tmp_path: Path) -> None:
    code, letters = resolve(index, tmp_path, "code_gen"), resolve(index, tmp_path, "letters")
    assert (code.uses_ray, code.runs_code) == (True, True)
    assert (letters.uses_ray, letters.runs_code, letters.on_nemo_gym) == (False, False, True)


@pytest.mark.parametrize(
    ("code", "on_nemo_gym"),
    [
        ("from nemo_gym.base_resources_server import SimpleResourcesServer", True),
        ("from letters import Server\nclass Own(Server): ...\nOwn.run_webserver()", True),
        ("import http.server", False),
    ],
)
def test_it_is_known_how_a_server_of_the_environment_is_started(
    package: FakePackage, tmp_path: Path, code: str, on_nemo_gym: bool
) -> None:
    write_server(tmp_path, "own", code)
    assert resolve(index_of(package.python, tmp_path), tmp_path).on_nemo_gym is on_nemo_gym


def test_a_server_of_the_package_is_one_whatever_it_inherits(index: Index, tmp_path: Path) -> None:
    assert resolve(index, tmp_path, "heir").on_nemo_gym


def test_of_two_configs_of_a_server_the_agents_own_counts(package: FakePackage, tmp_path: Path) -> None:
    root = tmp_path / "site"
    write_server(root, "one")
    second = write_server(root, "one").joinpath("configs", "one.yaml").read_text()
    (root / "resources_servers" / "one" / "configs" / "strict.yaml").write_text(
        second.replace("one_simple_agent", "strict_agent")
    )
    spec = resolve(index_of(package.python, root), root, agent="strict_agent")
    assert spec.config is not None
    assert spec.config.name == "strict.yaml"


def test_an_environments_own_server_is_a_strangers(package: FakePackage, tmp_path: Path) -> None:
    write_server(tmp_path, "own")
    index = index_of(package.python, tmp_path)
    assert resolve(index, tmp_path, agent="own_simple_agent").trusted is False
    assert resolve(index, tmp_path).name == "own"  # an environment with one server means it
    assert resolve(index, tmp_path, agent="letters_simple_agent").trusted is True


def test_a_strangers_config_does_not_reach_the_packages_servers(package: FakePackage, tmp_path: Path) -> None:
    inside = os.path.relpath(package.site / "resources_servers" / "letters", tmp_path / "resources_servers")
    folder = tmp_path / "resources_servers" / "own" / "configs"
    folder.mkdir(parents=True)
    (folder / "own.yaml").write_text(json.dumps(config(inside, instance="own", agent="own_agent")))
    with pytest.raises(TaskInvalid):
        resolve(index_of(package.python, tmp_path), tmp_path, agent="own_agent")


def test_a_server_can_be_a_file_of_the_environment(index: Index, tmp_path: Path) -> None:
    (tmp_path / "judge.py").write_text("serve()")
    spec = resolve(index, tmp_path, "judge.py", agent="letters_simple_agent")
    assert (spec.name, spec.entry, spec.trusted, spec.on_nemo_gym) == ("judge", "judge.py", False, False)


def test_a_name_that_is_none_is_a_usage_error(index: Index, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="--rlenv-nemo-server nobody") as raised:
        resolve(index, tmp_path, "nobody")
    assert "NeMo Gym 0.4.0 has code_gen, " in raised.value.hint
    with pytest.raises(SpecError) as raised:
        resolve(index, tmp_path, "leters")
    assert raised.value.hint == "did you mean letters?"


def test_of_two_servers_for_a_repository_none_is_guessed(package: FakePackage, tmp_path: Path) -> None:
    rows = {"huggingface_identifier": {"repo_id": "org/rows"}}
    for name in ("one", "two"):
        write_server(tmp_path, name, datasets=[rows])
    index = index_of(package.python, tmp_path)
    with pytest.raises(TaskInvalid, match="several servers for org/rows: one, two"):
        resolve(index, tmp_path, repo="org/rows")
    assert resolve(index, tmp_path, "two", repo="org/rows").name == "two"
    assert resolve(index, tmp_path, agent="one_simple_agent").name == "one"


def test_a_strangers_config_may_say_anything(package: FakePackage, tmp_path: Path) -> None:
    write_server(tmp_path, "own")
    agents = {
        "x": {"responses_api_agents": {"simple_agent": {"resources_server": {"name": ["a"]}, "datasets": 7}}}
    }
    folder = tmp_path / "resources_servers" / "own" / "configs"
    (folder / "agents.yaml").write_text(json.dumps(agents))
    (folder / "loop.yaml").write_text("y:\n  resources_servers:\n    own: &own\n      again: *own\n")
    assert resolve(index_of(package.python, tmp_path), tmp_path, agent="own_simple_agent").name == "own"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"agent": "gone_agent"}, "agent_ref 'gone_agent'; NeMo Gym 0.4.0 has none of that name"),
        ({"agent": "leters_simple_agent"}, "agent_ref 'leters_simple_agent'; NeMo Gym 0.4.0 has none"),
        ({}, "no agent_ref; so no server is named"),
        ({"repo": "org/rows"}, "and org/rows is in none of its configs"),
    ],
)
def test_a_row_without_a_server_says_why(
    index: Index, tmp_path: Path, data: dict[str, Any], said: str
) -> None:
    with pytest.raises(TaskInvalid, match="no resources server is known") as raised:
        resolve(index, tmp_path, **data)
    assert said in raised.value.message
    assert "--rlenv-nemo-server" in raised.value.hint
    assert ("did you mean letters_simple_agent" in raised.value.hint) is ("leters" in said)


def test_without_the_package_the_way_to_have_it_is_named(tmp_path: Path) -> None:
    index = index_of(sys.executable, None)
    assert index.version is None
    with pytest.raises(TaskInvalid, match=r"has no NeMo Gym: pip install nemo-gym==0\.4\.0"):
        resolve(index, tmp_path, agent="letters_simple_agent")


def test_the_index_is_kept_until_the_package_changes(package: FakePackage, tmp_path: Path) -> None:
    def ask() -> dict[str, Any]:
        command = [package.python, "-I", str(CHILD), str(tmp_path / "kept")]
        return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["installed"]

    first = ask()
    (kept,) = (tmp_path / "kept").iterdir()
    kept.write_text(json.dumps({**first, "files": {"changed": "x"}}))
    assert ask()["files"] == {"changed": "x"}
    (package.site / "nemo_gym" / "__init__.py").write_text("# a newer one\n")
    assert ask() == first


@pytest.mark.parametrize(
    ("python", "said"),
    [("/no/such/python", "there is no such program"), ("sh", "could not be listed|cannot be run")],
)
def test_an_interpreter_that_is_none_is_a_usage_error(python: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        index_of(str(find_python(python)), None)
