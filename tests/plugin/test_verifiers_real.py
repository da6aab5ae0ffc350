"""Tasksets with Verifiers itself, in the Python that scripts/setup_verifiers.sh makes for it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.project import Project
from support.scripted_model import Reply, ScriptedModel, use
from support.verifiers import (
    EXAMPLE,
    MODEL,
    NOP,
    ORACLE,
    TASKSETS,
    TRUST,
    answers_by_kind,
    by_task,
    kinds,
    run,
    told,
)

import pytest_rlenv.frameworks.verifiers.framework
import pytest_rlenv.frameworks.verifiers.model_run  # noqa: F401 - loaded for good, as in conftest.py

CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
OFFLINE = "ENOTFOUND|name resolution|resolve host|ECONNREFUSED|ConnectTimeout|NewConnectionError|dns error"
PYTHON = Path(__file__).parents[2] / ".matrix" / "verifiers-0.4.0" / "bin" / "python"

pytestmark = [
    pytest.mark.verifiers,
    pytest.mark.skipif(
        not PYTHON.exists(), reason="Verifiers is not installed: bash scripts/setup_verifiers.sh"
    ),
]


@pytest.fixture
def real(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("PYTHONPATH", f"{TASKSETS}:{os.environ['PYTHONPATH']}")
    monkeypatch.setenv("PATH", f"{PYTHON.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("RLENV_VERIFIERS_PYTHON", str(PYTHON))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key-123456")
    return project


def test_the_example_passes_fails_errs_and_skips(real: Project) -> None:
    shutil.copytree(EXAMPLE, real.path / "words")
    options = ("--rlenv=words", "--rlenv-taskset=word-count", "--agent=oracle,nop", TRUST)

    run(real, *options).assert_outcomes(passed=6)
    shutil.rmtree(real.path / ".rlenv")
    run(real, *options, "--rlenv-taskset-option=rows=verdicts").assert_outcomes(
        passed=3, failed=1, skipped=1, errors=1
    )


def test_checks_without_a_model_end_as_with_the_package_that_stands_in(real: Project) -> None:
    names = list(dict.fromkeys([*ORACLE, *NOP]))

    run(real, TRUST, "--agent=oracle,nop", *kinds(*names))

    assert {name: told(real, "oracle")[name] for name in ORACLE} == ORACLE
    assert {name: told(real, "nop")[name] for name in NOP} == NOP


def test_a_given_answer_is_scored(real: Project) -> None:
    run(real, TRUST, "--rlenv-verifiers-gold={answer}, please", *kinds("good", hide=True)).assert_outcomes(
        passed=1
    )


def test_a_model_plays_in_a_harness(real: Project) -> None:
    with ScriptedModel(answers_by_kind) as model:
        options = ("--agent=model", "--model=openai/toy", f"--rlenv-model-url={model.url}")
        run(real, TRUST, *options, "--rlenv-verifiers-harness=null", *kinds(*MODEL))

    assert told(real) == MODEL
    found = by_task(real)["good"]
    assert found["rewards"] == {"reward": 0.75, "correct": 1.0, "polite": 0.0}
    logs = real.run_dir / found["logs"]
    trajectory = json.loads((logs / "agent" / "trajectory.json").read_text())
    assert [step["source"] for step in trajectory["steps"]][-2:] == ["user", "agent"]
    assert found["usage"]["input_tokens"] > 0


def test_of_several_seats_one_is_judged_also_where_a_budget_ends_the_other(real: Project) -> None:
    with ScriptedModel(lambda seen: Reply("42")) as model:
        options = ("--agent=model", "--model=openai/toy", f"--rlenv-model-url={model.url}")
        seats = ("--rlenv-verifiers-harness=null", "--rlenv-taskset=toy-seats")
        run(real, TRUST, *options, *seats, "--rlenv-max-tokens=1")

    found = by_task(real)["one"]
    assert found["rewards"] == {"reward": 1.0, "correct": 1.0}
    assert "token-budget" in {note["code"] for note in found["notes"]}
    assert model.calls == 1


def test_containers_of_verifiers_run_tasks_and_are_gone(real: Project) -> None:
    from pytest_rlenv.frameworks.verifiers.leftovers import _listed

    if shutil.which("docker") is None:
        pytest.skip("no docker")
    before = set(_listed())

    run(real, "--agent=oracle,nop", *kinds("works"))

    assert {record["verdict"] for record in real.records()} == {"passed"}
    assert {record["runner"].split()[0] for record in real.records()} == {"docker"}
    assert set(_listed()) <= before


def test_a_model_acts_in_a_container_with_a_harness_that_installs_itself_there(real: Project) -> None:
    replies = [use("bash", command="test -e /.dockerenv && echo in-$((40 + 2))"), "It is 42, please."]
    with _image(real.path) as image, ScriptedModel(replies) as model:
        options = ("--agent=model", "--model=openai/toy", f"--rlenv-model-url={model.url}")
        run(real, *options, "--rlenv-verifiers-harness=bash", *kinds("good", image=image))

    found = by_task(real)["good"]
    offline = found["error"] and re.search(OFFLINE, found["error"]["detail"] + found["error"]["message"])
    if offline and not os.environ.get("CI"):
        pytest.skip("containers reach no index of packages here")
    assert (found["verdict"], found["error"]) == ("passed", None)
    assert found["runner"].startswith("docker runtime")
    assert "in-42" in str(model.requests[1].body["messages"])


@contextmanager
def _image(folder: Path) -> Iterator[str]:
    """Give an image that trusts this machine's certificates: an index may be reached through a mirror."""
    base = "python:3.11-slim"
    looked = ["docker", "image", "inspect", base]
    if shutil.which("docker") is None or subprocess.run(looked, capture_output=True, check=False).returncode:
        pytest.skip(f"no engine, or no {base}")
    name = f"rlenv-test-{uuid.uuid4().hex[:12]}"
    lines = [f"FROM {base}"]
    if CERTIFICATES.exists():
        shutil.copy(CERTIFICATES, folder / "certificates.crt")
        lines += ["COPY certificates.crt /", "ENV PIP_CERT=/certificates.crt SSL_CERT_FILE=/certificates.crt"]
    (folder / "Dockerfile").write_text("\n".join(lines) + "\n")
    subprocess.run(["docker", "build", "-q", "-t", name, str(folder)], capture_output=True, check=True)
    try:
        yield name
    finally:
        subprocess.run(["docker", "rmi", "--force", name], capture_output=True, check=False)


def test_containers_of_verifiers_are_gone_after_a_kill(real: Project) -> None:
    if shutil.which("docker") is None:
        pytest.skip("no docker")
    from pytest_rlenv.frameworks.verifiers.leftovers import _listed

    marker = real.path / "began"
    (real.path / "toy_lasts.py").write_text(
        "import asyncio, pathlib\n"
        "import verifiers.v1 as vf\n"
        "__all__ = ['Lasts']\n"
        "class LastTask(vf.Task[vf.TaskData]):\n"
        "    async def validate(self, runtime):\n"
        f"        pathlib.Path({str(marker)!r}).write_text('x')\n"
        "        await asyncio.sleep(300)\n"
        "class Lasts(vf.Taskset[LastTask]):\n"
        "    def load(self):\n"
        "        yield LastTask(vf.TaskData(id='one', prompt='wait'))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "--rlenv-taskset=toy-lasts"],
        cwd=real.path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as pytest_run:
        try:
            _wait_for(marker.exists)
            mine = [line for line in _listed() if f"-{pytest_run.pid}-" in line]
            assert mine
        finally:
            pytest_run.kill()
    _wait_for(lambda: not set(mine) & set(_listed()))


def _wait_for(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
