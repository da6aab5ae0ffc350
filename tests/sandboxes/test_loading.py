from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_rlenv.errors import SpecError
from pytest_rlenv.sandboxes.docker.sandbox import DockerSandbox
from pytest_rlenv.sandboxes.loading import create
from pytest_rlenv.sandboxes.model import SandboxContext

MODULE = """
from pytest_rlenv.sandboxes.docker.sandbox import DockerSandbox
class Mine(DockerSandbox):
    name = "mine"
class Empty:
    def __init__(self, context): pass
class NoArguments: pass
number = 3
"""


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SandboxContext:
    (tmp_path / "own_boxes.py").write_text(MODULE)
    (tmp_path / "own_broken.py").write_text("import no_such_module_anywhere")
    monkeypatch.syspath_prepend(tmp_path)
    return SandboxContext("s", "gw0", tmp_path, tmp_path)


def test_docker_without_an_engine(context: SandboxContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    assert isinstance(create("docker", context), DockerSandbox)


def test_own_class(context: SandboxContext) -> None:
    assert create("own_boxes:Mine", context).name == "mine"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dokcer", "unknown sandbox 'dokcer'"),
        ("", "unknown sandbox"),
        (":X", "unknown sandbox"),
        ("no_such_module_at_all:X", "cannot import 'no_such_module_at_all'"),
        ("own_broken:X", "no_such_module_anywhere"),
        ("own_boxes:Nothing", "has no 'Nothing'"),
        ("own_boxes:number", "is not a class"),
        ("own_boxes:NoArguments", "could not be made: TypeError"),
        ("own_boxes:Empty", "lacks capabilities, check, close, describe, name, prepare, start"),
    ],
)
def test_what_cannot_be_used_is_named(name: str, message: str, context: SandboxContext) -> None:
    with pytest.raises(SpecError, match="(?s).*" + message.replace("(", r"\(")):
        create(name, context)


def test_importing_is_light() -> None:
    code = (
        "import sys, pytest_rlenv.sandboxes.docker, pytest_rlenv.sandboxes.loading;"
        "print([m for m in ('docker', 'requests', 'urllib3', 'filelock', 'pydantic') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
