"""A secret that is planted wherever a task, an agent or a test can put it is in nothing that a run leaves."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from support.project import Project

from pytest_rlenv import secrets as module

VALUE = "plant/3d-S3cret value+0123456789"
HOST = "hf_HostsOwnToken0123456789"
FORMS = [
    VALUE,
    HOST,
    quote(VALUE, safe=""),
    base64.b64encode(VALUE.encode()).decode()[:24],
    base64.b64encode(f"user:{VALUE}".encode()).decode()[8:24],
]
CONFIG = """\
schema_version = "1.4"

[verifier.env]
JUDGE = "${DEMO_JUDGE}"
"""
AGENT = f"""
import json
from pathlib import Path
from pytest_rlenv.agents.protocol import Agent, AgentOutcome, AgentStopped


class Leaky(Agent):
    version = {HOST!r}

    def run(self, context):
        (context.logs / "session.log").write_text("used " + {VALUE!r})
        (context.logs / "trajectory.json").write_text(json.dumps({{"key": {VALUE!r}}}))
        (context.logs / "state.bin").write_bytes(b"\\0" + {VALUE.encode()!r})
        if "stops" in context.task:
            raise AgentStopped("refused: " + {VALUE!r})
        if "breaks" in context.task:
            raise RuntimeError({VALUE!r})
        return AgentOutcome(usage={{"note": {VALUE!r}, {VALUE!r}: 1}})
"""
HANGING = f"""
import os
import threading
from pathlib import Path
from pytest_rlenv.agents.protocol import Agent


class Hanging(Agent):
    def run(self, context):
        (context.logs / "session.log").write_text("used " + {VALUE!r} + " of " + {HOST!r})
        (context.logs / "state.bin").write_bytes(b"\\0" + {VALUE.encode()!r})
        Path("pid.part").write_text(str(os.getpid()))
        Path("pid.part").rename("pid")
        threading.Event().wait()
"""
LIMIT = 60.0
"""Seconds after which something that is waited for is taken never to come."""
OWN_TEST = f"""
import pytest

@pytest.mark.rlenv("envs/demo", task="scores", agent="leaky:Leaky")
def test_own(rollout):
    print("saw", {VALUE!r})
    assert rollout.reward == {VALUE!r}
"""


@pytest.fixture
def leaky(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setattr(module.SECRETS, "_marks", {})
    monkeypatch.setattr(module.SECRETS, "_byte_marks", {})
    monkeypatch.setenv("DEMO_JUDGE", VALUE)
    monkeypatch.setenv("HF_TOKEN", HOST)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project.path / "out/summary.md"))
    (project.path / "out").mkdir()
    encoded = base64.b64encode(f"user:{VALUE}".encode()).decode()
    shown = f"# scripted: print={VALUE} {HOST} {quote(VALUE, safe='')}\n# scripted: print=Basic {encoded}\n"
    ctrf = f'{{"results": {{"tests": [{{"name": "{VALUE}", "status": "failed"}}]}}}}'
    checks = f"# scripted: write=/logs/verifier/ctrf.json {ctrf}\n"
    artifact = f"# scripted: write=/logs/artifacts/made.txt {VALUE}\n"
    tasks = {
        "scores": shown + "# scripted: reward=1",
        "fails": shown + checks + "# scripted: reward=0.5",
        "no-reward": shown + artifact,
        "bad-reward": f"# scripted: reward={VALUE}",
        "stops": "# scripted: reward=0",
        "breaks": "# scripted: reward=1",
    }
    for name, test in tasks.items():
        project.task(name, test=test, config=CONFIG)
    (project.path / "leaky.py").write_text(AGENT)
    project.pytester.makepyfile(test_own=OWN_TEST)
    return project


@pytest.mark.parametrize("more", [[], ["-n1"], ["--rlenv-jobs=2"]], ids=["one", "workers", "jobs"])
def test_no_report_and_no_log_has_it(leaky: Project, more: list[str]) -> None:
    result = leaky.run(
        "--rlenv=envs/demo",
        "test_own.py",
        "--agent=leaky:Leaky",
        "--junitxml=out/pytest.xml",
        "-ojunit_logging=all",
        "--rlenv-ctrf=out/ctrf.json",
        "--rlenv-html=out/report.html",
        "--rlenv-markdown=out/comment.md",
        "--rlenv-github=on",
        "--rlenv-output=out/run",
        "-v",
        *more,
        process=True,
    )
    written = {path: path.read_bytes() for path in (leaky.path / "out").rglob("*") if path.is_file()}
    names = {path.relative_to(leaky.path / "out").as_posix() for path in written}
    assert {
        "pytest.xml",
        "ctrf.json",
        "report.html",
        "comment.md",
        "summary.md",
        "run/results.jsonl",
        "run/junit.xml",
    } <= names
    assert any(name.endswith("agent/state.bin") for name in names)
    assert any(name.endswith("verifier/ctrf.json") for name in names)
    everything = {
        **written,
        Path("stdout"): result.stdout.str().encode(),
        Path("stderr"): result.stderr.str().encode(),
    }
    leaks = {
        (str(path), form) for path, data in everything.items() for form in FORMS if form.encode() in data
    }
    assert leaks == set()
    assert b"[redacted DEMO_JUDGE]" in everything[Path("stdout")]
    for name in (
        "pytest.xml",
        "ctrf.json",
        "report.html",
        "comment.md",
        "run/results.jsonl",
        "run/junit.xml",
    ):
        text = written[leaky.path / "out" / name]
        assert b"redacted DEMO_JUDGE" in text or b"redacted DEMO&#95;JUDGE" in text, name
    assert len((leaky.path / "out/run/results.jsonl").read_text().splitlines()) == 7


def test_a_verifier_still_sees_the_value(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEMO_JUDGE", VALUE)
    project.task(
        "a",
        solve=f"# scripted: write=/logs/agent/said {VALUE}",
        test=f"# scripted: reward-if=/logs/agent/said\n# scripted: print={VALUE}",
        config=CONFIG,
    )
    project.demo()
    (record,) = project.records()
    assert record["reward"] == 1.0
    assert (project.run_dir / record["logs"] / "agent/said").read_text() == "[redacted DEMO_JUDGE]"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["kill", "interrupt"])
def test_a_run_that_is_killed_leaves_none_behind(
    project: Project, how: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that would have redacted the logs is gone, so another one does."""
    monkeypatch.setenv("DEMO_JUDGE", VALUE)
    monkeypatch.setenv("HF_TOKEN", HOST)
    project.task("a", test="# scripted: reward=1", config=CONFIG)
    (project.path / "hanging.py").write_text(HANGING)
    command = [sys.executable, "-m", "pytest", "--rlenv=envs/demo", "--agent=hanging:Hanging"]
    process = subprocess.Popen(
        [*command, "--rlenv-sandbox=support.scripted:ScriptedSandbox"],
        cwd=project.path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _wait_for((project.path / "pid").exists)
        logs = project.run_dir / "rollouts"
        assert _leaks(logs)  # the agent's own, as it wrote them
        os.kill(int((project.path / "pid").read_text()), how)
        _wait_for(lambda: not _leaks(logs))
        (log,) = logs.rglob("session.log")
        assert log.read_text() == "used [redacted DEMO_JUDGE] of [redacted HF_TOKEN]"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _leaks(folder: Path) -> list[Path]:
    """Return the files that have a secret, or are just being replaced."""
    found = []
    for path in folder.rglob("*"):
        try:
            data = path.read_bytes() if path.is_file() else b""
        except FileNotFoundError:
            data = VALUE.encode()
        if any(form.encode() in data for form in FORMS):
            found.append(path)
    return found


def _wait_for(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < give_up, "it did not come to that"
        time.sleep(0.02)
