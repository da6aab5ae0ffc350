"""An interpreter with a package of servers, made once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.nemo_gym import FAKE_APP, FakeGym, FakePackage, write_server
from support.nemo_rollouts import Runner

from pytest_rlenv.frameworks.kept import Kept

LOOKS_FOR_JUDGE = """
def verify(session, body):
    raise KeyError("Missing key judge_model")

ROUTES["/verify"] = verify

class FakeServer"""


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> FakePackage:
    """Servers of a package called nemo-gym 0.4.0."""
    made = FakePackage(tmp_path_factory.mktemp("nemo") / "venv")
    repo = {"huggingface_identifier": {"repo_id": "nvidia/letters", "artifact_fpath": "train.jsonl"}}
    file = {"jsonl_fpath": "resources_servers/letters/data/example.jsonl"}
    judge = {"type": "responses_api_models", "name": "judge_model"}
    write_server(made.site, "letters", datasets=[repo, file], max_steps=6)
    write_server(made.site, "verifif", judge_base_url="${policy_base_url}")
    write_server(made.site, "essays", judge_model_server=judge)
    write_server(made.site, "terminus_judge", judge_model_server=judge)
    app = FAKE_APP.replace("class FakeServer", LOOKS_FOR_JUDGE)
    write_server(made.site, "ugphysics_judge", app, judge_model_server=judge)
    write_server(made.site, "rules", should_use_judge=False, judge_model_server=judge)
    write_server(made.site, "tower", kind="aviary_agent")
    write_server(made.site, "heir", "from resources_servers.letters import app")
    write_server(made.site, "code_gen")
    (made.site / "resources_servers" / "code_gen" / "inner").mkdir()
    (made.site / "resources_servers" / "code_gen" / "inner" / "running.py").write_text("import ray\n")
    (made.site / "resources_servers" / "letters" / "configs" / "broken.yaml").write_text("a: [")
    return made


@pytest.fixture
def gym() -> Iterator[FakeGym]:
    with FakeGym() as fake:
        yield fake


@pytest.fixture
def kept() -> Iterator[Kept]:
    kept = Kept()
    yield kept
    kept.close()


@pytest.fixture
def runner(tmp_path: Path, kept: Kept, monkeypatch: pytest.MonkeyPatch) -> Runner:
    monkeypatch.setenv("RLENV_CACHE", str(tmp_path / "cache"))
    return Runner(tmp_path, kept)
