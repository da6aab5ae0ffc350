"""Steps, verifiers in boxes of their own, and the levels of keeping them apart, on a real engine.

One run of pytest for each level. The reference solution plays the agent.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.engine import remove_image, write_context
from support.rollouts import write_steps

from pytest_rlenv.sandboxes.docker import DockerSandbox
from pytest_rlenv.sandboxes.docker.client import shared_engine
from pytest_rlenv.sandboxes.model import ImageSpec, SandboxContext

pytestmark = pytest.mark.docker

SEPARATE = '[verifier]\nenvironment_mode = "separate"\n'
LAST = "echo 1 >/logs/verifier/reward.txt"
TRAP = "trap 'echo failed: $BASH_COMMAND >&2; echo 0 >/logs/verifier/reward.txt; exit' ERR"
USERS = (
    "FROM debian:bookworm-slim\nRUN useradd -u 1234 worker && mkdir /app && chown worker /app\nWORKDIR /app\n"
)
LIMITS = "/sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max"
TREE = """set -e
mkdir -p data/sub data/empty data/cache
echo a >data/a; chmod 600 data/a; echo x >data/run; chmod 755 data/run
ln -s a data/inside; ln -s ../a data/sub/up; ln -s /etc/passwd data/outside; ln data/a data/hard
echo junk >data/cache/junk; echo junk >data/sub/junk.tmp; touch -d @1234567890 data/a
"""


NOTHING: Mapping[str, Any] = {}


def checked(*lines: str) -> str:
    """Return a test script that gives 1 if all lines succeed."""
    return "\n".join([TRAP, *lines, LAST])


class Task(NamedTuple):
    """A task, and what its record should say."""

    config: str = ""
    files: Mapping[str, str] = NOTHING
    steps: Mapping[str, dict[str, str]] = NOTHING
    reward: float | None = 1.0
    holds: Callable[[dict[str, Any]], object] = lambda record: True


def step(solve: str, *test: str, files: Mapping[str, str] = NOTHING) -> dict[str, str]:
    """Return the files of a step."""
    return {"solution/solve.sh": solve, "tests/test.sh": checked(*test), **files}


SHARED: dict[str, Task] = {
    "steps": Task(
        config="""
[agent]
user = "worker"
[verifier]
env = {A = "task", B = "task"}
[[steps]]
name = "one"
artifacts = ["/app/made"]
[[steps]]
name = "two"
agent = {user = "root"}
verifier = {env = {B = "step"}, user = "worker"}
healthcheck = {command = "test -e /app/ready && test $(id -un) = root", interval_sec = 0}
""",
        steps={
            "one": step(
                "[ ! -e /tests ] && id -un >made; (sleep 600 &) ; echo log >/logs/agent/l",
                '[ "$(cat made)" = worker ]',
                '[ "$A$B" = tasktask ]',
                "[ -e /tests/common ]",
                "[ -e /logs/agent/l ]",
                "[ -e /logs/agent/oracle.txt ]",
            ),
            "two": step(
                '[ -z "$(ls -A /tests /logs/verifier | grep -v :)" ] || exit; '
                "[ -e /logs/agent/l ] || id -un >made2",
                '[ "$(cat made made2 ready)" = "worker\nroot\nroot" ]',
                '[ "$A$B$(id -un)" = taskstepworker ]',
                "grep -qsz sleep /proc/[0-9]*/cmdline",
                "grep -qx step /tests/common",
                "[ -e /app/given/data ]",
                files={
                    "tests/common": "step",
                    "workdir/given/data": "x",
                    "workdir/setup.sh": "id -un >ready",
                },
            ),
        },
        files={"tests/common": "task", "environment/Dockerfile": USERS},
        holds=lambda record: (
            [list(s["rewards"].values()) for s in record["steps"]] == [[1.0], [1.0]]
            and [s["verifier_level"] for s in record["steps"]] == ["shared", "shared"]
        ),
    ),
    "artifacts": Task(
        config=f"""
artifacts = ["/app/one.txt", {{source = "/app/data", destination = "d", exclude = ["cache", "*.tmp"]}}]
{SEPARATE}user = "worker"
""",
        files={
            "environment/Dockerfile": USERS,
            "solution/solve.sh": f"{TREE}echo one >one.txt; echo secret >other; echo p >/logs/artifacts/p",
            "tests/test.sh": checked(
                '[ "$(cat /app/one.txt /logs/artifacts/p)" = "one\np" ]',
                "[ ! -e /app/other ]",
                "[ ! -e /app/data/cache ]",
                "[ ! -e /app/data/sub/junk.tmp ]",
                "[ -d /app/data/empty ]",
                '[ "$(stat -c %U:%a /app/data/a)" = root:600 ]',
                "[ -x /app/data/run ]",
                '[ "$(readlink /app/data/inside /app/data/sub/up)" = "a\n../a" ]',
                "[ ! -L /app/data/outside ]",
                '[ "$(stat -c %s /app/data/hard)" = 2 ]',
                "touch /app/mine /app/data/mine",
                "[ ! -e /solution ]",
            ),
        },
        holds=lambda record: (
            record["verifier_level"] == "separate" and record["verifier_image"] == record["image"]
        ),
    ),
    "bundled": Task(
        config="""artifacts = ["/app/answer"]
[environment.env]
WHERE = "agent"
[verifier]
network_mode = "no-network"
env = {V = "v"}
[[verifier.collect]]
command = "cat /proc/sys/kernel/hostname >answer; id -un >>answer; exit 3"
user = "nobody"
[[verifier.collect]]
command = "id -un >>answer"
[verifier.environment]
memory_mb = 77
env = {WHERE = "judge"}
""",
        files={
            "solution/solve.sh": "touch answer; chmod 666 answer",
            "tests/Dockerfile": "FROM debian:bookworm-slim\nWORKDIR /judge\nCOPY . /tests\n",
            "tests/helper": "here",
            "tests/test.sh": checked(
                '[ "$PWD$WHERE$V$(cat /tests/helper)" = /judgejudgevhere ]',
                '[ "$(sed 1d /app/answer)" = "nobody\nroot" ]',
                '[ "$(cat /proc/sys/kernel/hostname)" != "$(sed q /app/answer)" ]',
                '[ "$(ls /sys/class/net)" = lo ]',
                f"cat {LIMITS} 2>/dev/null | grep -qx 80740352",
            ),
        },
        holds=lambda record: (
            record["verifier_image"] != record["image"]
            and [note["code"] for note in record["notes"]] == ["collect-hook"]
        ),
    ),
    "late-hook": Task(
        config='[[verifier.collect]]\ncommand = "touch /began; sleep 60"\ntimeout_sec = 1\n',
        files={
            "solution/solve.sh": "(exec -a service sleep 600 &)",
            "tests/test.sh": checked("[ -e /began ]", "grep -qs ^service /proc/[0-9]*/cmdline"),
        },
        holds=lambda record: (
            [note["text"] for note in record["notes"]]
            == ["collect hook `touch /began; sleep 60` did not end within 1.0 s"]
        ),
    ),
    "prebuilt": Task(
        config='[verifier.environment]\ndocker_image = "PREBUILT"\n',
        files={"solution/solve.sh": "echo yes >/logs/artifacts/answer"},
        holds=lambda record: record["verifier_image"].startswith("PREBUILT"),
    ),
    "mixed": Task(
        config="""
[[steps]]
name = "apart"
artifacts = ["/app/answer"]
verifier = {environment_mode = "separate"}
[[steps]]
name = "together"
""",
        steps={
            "apart": step("echo 1 >answer; echo 2 >other", "[ -e answer ]", "[ ! -e other ]"),
            "together": step(
                "[ ! -e /tests ] && echo 3 >third", "[ -e answer ]", "[ -e other ]", "[ -e third ]"
            ),
        },
        holds=lambda record: record["verifier_level"] == "separate, shared",
    ),
    "checks": Task(
        files={
            "solution/solve.sh": "true",
            "tests/test.sh": """echo '{"results": {"tests": [{"name": "t.py::a", "status": "failed"}, 1]}}' \
>/logs/verifier/ctrf.json; echo 0 >/logs/verifier/reward.txt""",
        },
        reward=0.0,
        holds=lambda record: record["message"] == "reward 0.0 < 1.0; 1 of 1 checks failed: t.py::a",
    ),
    "no-bundled-tests": Task(
        config=SEPARATE,
        files={
            "solution/solve.sh": "true",
            "tests/Dockerfile": "FROM debian:bookworm-slim\n",
            "tests/test.sh": LAST,
        },
        reward=None,
        holds=lambda record: "has no /tests/test.sh" in record["error"]["message"],
    ),
}
EVIL = "(cd /; while :; do echo 1 >/logs/verifier/reward.txt; sleep 0.01; done) & disown; "
QUIESCE: dict[str, Task] = {
    "killed": Task(
        files={"solution/solve.sh": EVIL, "tests/test.sh": "sleep 0.2; ls /proc | grep -c '^[0-9]*$' >&2"},
        reward=None,
        holds=lambda record: record["error"]["type"] == "RewardMissing",
    ),
    "system-kept": Task(
        files={
            "solution/solve.sh": "touch /usr/local/bin/installed",
            "tests/test.sh": checked("[ -e /usr/local/bin/installed ]"),
        },
        holds=lambda record: record["verifier_level"] == "quiesce",
    ),
}
FRESH: dict[str, Task] = {
    "as-it-was": Task(
        config='[agent]\nuser = "worker"\n',
        files={
            "environment/Dockerfile": f"{USERS}RUN touch /app/removed; chown worker /app/removed\n",
            "solution/solve.sh": f"{TREE}rm removed; echo l >/logs/agent/l",
            "tests/test.sh": checked(
                '[ "$(stat -c %U:%a:%Y data/a)" = worker:600:1234567890 ]',
                '[ "$(stat -c %U /app data/sub data/inside)" = "worker\nworker\nworker" ]',
                '[ "$(readlink data/outside)" = /etc/passwd ]',
                '[ "$(cat data/hard data/sub/up)" = "a\na" ]',
                "[ -e data/cache/junk ]",
                "[ ! -e removed ]",
                "[ -e /logs/agent/l ]",
                "[ -e /logs/agent/oracle.txt ]",
            ),
        },
        holds=lambda record: record["verifier_level"] == "fresh",
    ),
    "mounted-below": Task(
        files={
            "environment/Dockerfile": f"{USERS}RUN mkdir data; touch data/old\nVOLUME /app/data\n",
            "solution/solve.sh": "rm data/old; touch data/new",
            "tests/test.sh": checked('[ "$(ls data)" = new ]'),
        },
    ),
    "system-as-it-was": Task(
        files={
            "solution/solve.sh": f"cp /bin/true /usr/bin/grep; touch done /tests-were-here; {EVIL}",
            "tests/test.sh": checked(
                "[ -e done ]", "[ ! -e /tests-were-here ]", "echo x | grep -q x", "! echo x | grep -q y"
            ),
        },
    ),
    "steps": Task(
        config='[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n',
        steps={
            "one": step("echo 1 >a; touch /b", "[ -e a ]", "[ ! -e /b ]"),
            "two": step("[ -e /b ] && [ ! -e /tests ] && echo 2 >c", "[ -e a ]", "[ -e c ]"),
        },
    ),
    "no-workdir": Task(
        files={
            "environment/Dockerfile": "FROM debian:bookworm-slim\n",
            "solution/solve.sh": "true",
            "tests/test.sh": LAST,
        },
        reward=None,
        holds=lambda record: "the image's working directory is /" in record["skip_reason"],
    ),
}
RUNS = {"shared": SHARED, "quiesce": QUIESCE, "fresh": FRESH}
CASES = [(level, name) for level, tasks in RUNS.items() for name in tasks]


@pytest.fixture(scope="session")
def prebuilt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of an image that holds tests."""
    folder = tmp_path_factory.mktemp("prebuilt")
    script = f"#!/bin/bash\n{checked('grep -qx yes /logs/artifacts/answer')}\n"
    dockerfile = "FROM debian:bookworm-slim\nCOPY test.sh /tests/test.sh"
    context = write_context(folder / "context", dockerfile, {"test.sh": script})
    sandbox = DockerSandbox(SandboxContext("apart", "main", folder / "cache", folder))
    try:
        image = sandbox.prepare(ImageSpec(context=context, slug="judge"))
        yield image.name
    finally:
        sandbox.close()
    remove_image(shared_engine(), image.name)


@pytest.fixture(scope="session")
def records(
    tmp_path_factory: pytest.TempPathFactory, prebuilt: str
) -> Callable[[str], dict[str, dict[str, Any]]]:
    found: dict[str, dict[str, dict[str, Any]]] = {}

    def of(level: str) -> dict[str, dict[str, Any]]:
        if level not in found:
            folder = tmp_path_factory.mktemp(level)
            for name, task in RUNS[level].items():
                write(folder / "env" / name, task, prebuilt)
            found[level] = run(folder, level)
        return found[level]

    return of


def write(root: Path, task: Task, prebuilt: str) -> None:
    files = {name.replace("/", "__"): text for name, text in task.files.items()}
    if not task.steps:
        files["instruction.md"] = "do it"
    write_steps(root, task.config.replace("PREBUILT", prebuilt), task.steps, **files)


def run(folder: Path, level: str) -> dict[str, dict[str, Any]]:
    command = [sys.executable, "-m", "pytest", "-q", "-n4", "--rlenv=env", "--rlenv-sandbox=docker"]
    done = subprocess.run(
        [*command, f"--rlenv-verifier={level}"], cwd=folder, capture_output=True, text=True, check=False
    )
    written = list((folder / ".rlenv").glob("*/results.jsonl"))
    assert len(written) == 1, done.stdout + done.stderr
    lines = written[0].read_text().splitlines()
    return {record["task"]: record | {"run": written[0].parent} for record in map(json.loads, lines)}


@pytest.mark.parametrize(("level", "name"), CASES, ids=[f"{level}-{name}" for level, name in CASES])
def test_apart(
    records: Callable[[str], dict[str, dict[str, Any]]], level: str, name: str, prebuilt: str
) -> None:
    task, record = RUNS[level][name], records(level)[name]
    logs = record["run"] / record["logs"]
    said = {path.relative_to(logs).as_posix(): path.read_text() for path in logs.rglob("test-stdout.txt")}
    assert record["reward"] == task.reward, (record["message"], record["notes"], said)
    text = json.dumps(record, default=str).replace(prebuilt, "PREBUILT")
    assert task.holds(json.loads(text)), record


def test_what_a_run_leaves(records: Callable[[str], dict[str, dict[str, Any]]]) -> None:
    record = records("shared")["artifacts"]
    logs = record["run"] / record["logs"]
    here = {path.relative_to(logs).as_posix() for path in logs.rglob("*") if path.is_file()}
    assert here == {
        "rlenv.json",
        "config.json",
        "result.json",
        "instruction.md",
        "agent/oracle.txt",
        "artifacts/manifest.json",
        "artifacts/app/one.txt",
        "artifacts/d/a",
        "artifacts/d/hard",
        "artifacts/d/run",
        "artifacts/logs/artifacts/p",
        "verifier/reward.txt",
        "verifier/test-stdout.txt",
    }
    manifest = json.loads((logs / "artifacts/manifest.json").read_text())
    assert [(row["source"], row["destination"], row["type"], row["status"]) for row in manifest] == [
        ("/logs/artifacts", "artifacts/logs/artifacts", "directory", "ok"),
        ("/app/one.txt", "artifacts/app/one.txt", "file", "ok"),
        ("/app/data", "artifacts/d", "directory", "ok"),
    ]
    steps = records("shared")["steps"]
    logs = steps["run"] / steps["logs"]
    assert {path.name for path in logs.iterdir()} == {"rlenv.json", "config.json", "result.json", "steps"}
    assert (logs / "steps/one/agent/l").exists()
    assert not (logs / "steps/two/agent/l").exists()
    assert (logs / "steps/two/setup-stdout.txt").exists()
    assert (logs / "steps/one/artifacts/app/made").read_text() == "worker\n"
