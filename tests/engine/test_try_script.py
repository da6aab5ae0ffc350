"""The README's first command: what it sets up, where the quickstart then runs, and that it says so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.no_engine import hide_engine

from pytest_rlenv.errors import EngineUnavailable
from pytest_rlenv.sandboxes.local import LocalSandbox
from pytest_rlenv.sandboxes.model import SandboxContext

ROOT = Path(__file__).parents[2]


def script(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/usr/bin/env bash\n{body}\n")
    path.chmod(0o755)


class Checkout:
    """A checkout whose ``.venv`` has the interpreter of these tests. Set-up is noted, not done."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "scripts").mkdir(parents=True)
        shutil.copy(ROOT / "scripts" / "try.sh", folder / "scripts")
        shutil.copytree(ROOT / "example_envs" / "quickstart", folder / "example_envs" / "quickstart")
        for name in ("setup_venv", "setup_engine", "setup_images"):
            script(folder / "scripts" / f"{name}.sh", f'echo {name} "$@" >>done')
        script(folder / ".venv" / "bin" / "python", f'exec "{sys.executable}" "$@"')
        (folder / "pytest.ini").write_text("[pytest]\n")

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", "scripts/try.sh", *args]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)

    @property
    def done(self) -> list[str]:
        return (self.folder / "done").read_text().splitlines()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    for name in ("PYTEST_ADDOPTS", "RLENV_SANDBOX", "DOCKER_HOST", "DOCKER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    return Checkout(tmp_path / "checkout")


def test_without_an_engine(checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide_engine(monkeypatch, tmp_path / "docker")
    try:
        LocalSandbox(SandboxContext("s", "main", tmp_path / "cache", tmp_path / "run")).check()
    except EngineUnavailable as error:
        pytest.skip(f"no local boxes on this machine: {error}")
    done = checkout.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert checkout.done == ["setup_venv [local]"]
    assert "sandbox=local (host userland, FROM image not used; " in done.stdout
    assert "8 passed" in done.stdout
    assert "Sandbox: local (host userland). " in done.stdout
    assert "bash scripts/try.sh --rlenv-sandbox docker" in done.stdout
    assert "JUnit report:" in done.stdout.splitlines()[-1]


@pytest.mark.docker
def test_with_an_engine(checkout: Checkout) -> None:
    done = checkout.run("-k", "csv")
    assert done.returncode == 0, done.stdout + done.stderr
    assert checkout.done == ["setup_venv [local]", "setup_images"]
    assert "Sandbox: docker." in done.stdout


VENV, ENGINE, IMAGES = "setup_venv [local]", "setup_engine", "setup_images"


@pytest.mark.parametrize(
    ("args", "variable", "engine", "steps"),
    [
        (["-v"], "", True, [VENV, IMAGES]),
        (["-v"], "", False, [VENV]),
        (["-v"], "docker", False, [VENV, ENGINE, IMAGES]),
        (["--rlenv-sandbox", "docker"], "", False, [VENV, ENGINE, IMAGES]),
        (["--rlenv-sandbox=docker"], "local", False, [VENV, ENGINE, IMAGES]),
        (["--rlenv-sandbox=local"], "", True, [VENV, IMAGES]),
        (["--rlenv-sandbox=local"], "", False, [VENV]),
        (["--rlenv-sandbox=local-host"], "docker", True, [VENV]),
    ],
)
def test_what_is_set_up(
    args: list[str],
    variable: str,
    engine: bool,
    steps: list[str],
    checkout: Checkout,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RLENV_SANDBOX", variable)
    python = f'[[ $1 != - ]] || exit {int(not engine)}; echo "${{*:3}}" >>done; exit 4'
    script(checkout.folder / ".venv" / "bin" / "python", python)
    done = checkout.run(*args)
    options = "--rlenv example_envs/quickstart --agent oracle,nop --junitxml=.rlenv/quickstart.xml"
    assert checkout.done == [*steps, " ".join([options, *args])]
    assert done.returncode == 4
    assert "Sandbox:" not in done.stdout


def test_images_that_cannot_be_had_end_it_with_a_way_out(checkout: Checkout) -> None:
    script(checkout.folder / ".venv" / "bin" / "python", "")
    script(checkout.folder / "scripts" / "setup_images.sh", "exit 1")
    done = checkout.run()
    assert done.returncode == 1
    assert "bash scripts/try.sh --rlenv-sandbox local-host" in done.stderr


def test_the_virtual_environment_gets_what_is_named_and_keeps_what_it_had(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "pyvenv.cfg").touch()
    for name in ("setup_venv.sh", "find_python.sh"):
        shutil.copy(ROOT / "scripts" / name, tmp_path / "scripts")
    script(tmp_path / ".venv/bin/python", '[[ $1 == -c ]] || echo "${*:6}" >>installed')
    script(tmp_path / ".venv/bin/pip", "")

    def install(*names: str) -> list[str]:
        (tmp_path / "installed").unlink(missing_ok=True)
        command = ["bash", "scripts/setup_venv.sh", *names]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, env=os.environ)
        file = tmp_path / "installed"
        return file.read_text().splitlines() if file.exists() else []

    assert install("[local]") == ["--editable .[local]"]
    assert install("[local]") == []
    assert install("test") == ["--upgrade pip>=25.1", "--editable .[local] --group test"]
    assert install("test", "[local]") == []
    (tmp_path / "pyproject.toml").write_text("# changed")
    assert install() == ["--upgrade pip>=25.1", "--editable .[local] --group test"]


@pytest.mark.parametrize(
    "path", [path for path in ("conftest.py", "tests/conftest.py") if (ROOT / path).exists()]
)
def test_what_pytest_loads_first_needs_no_package_of_the_tests(path: str) -> None:
    """In a new environment there is none of them, and a run from the root loads these files all the same."""
    packages = ("hypothesis", "jsonschema", "xmlschema", "junitparser", "scipy", "playwright", "websockets")
    code = f"import runpy, sys; sys.modules.update(dict.fromkeys({packages})); runpy.run_path({path!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
