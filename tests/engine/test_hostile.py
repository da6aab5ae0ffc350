"""What a hostile or broken agent, or an odd image, leaves behind gets a fair verdict from a real engine.

One run of pytest for all of them. The reference solution plays the agent.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.tasks import write_task

pytestmark = pytest.mark.docker

BASE = "FROM debian:bookworm-slim\nWORKDIR /app\n"
ONE = "echo 1 >/logs/verifier/reward.txt"
SCHEMA = 'schema_version = "1.4"\n'
SPOOF = "echo 1 >/logs/verifier/reward.txt\necho evil >/logs/verifier/reward.json\n"
FRESH = '[ "$(ls -A /logs/verifier)$(ls /tests)" = test.sh ] && echo 1 >/logs/verifier/reward.txt'
UNVERIFIABLE = "the agent left the box in a state in which it cannot be verified: "


class Case(NamedTuple):
    """A task and what becomes of it: a verdict, or the error's type, kind and message; codes of notes."""

    verdict: str
    solve: str = "true"
    test: str = ONE
    dockerfile: str = BASE
    config: str = SCHEMA
    type: str = ""
    kind: str = ""
    message: str = ""
    note: str = ""


CASES = {
    "removes-workdir": Case(
        "passed",
        solve="rm -rf /app",
        test='[ "$PWD" = /app ] && [ -z "$(ls -A)" ] && ' + ONE,
        note="workdir-restored",
    ),
    "removes-named-workdir": Case(
        "passed",
        solve="rm -rf /work",
        test='[ "$PWD" = /work ] && ' + ONE,
        dockerfile=BASE + "RUN mkdir /work\n",
        config=SCHEMA + '[environment]\nworkdir = "/work"\n',
        note="workdir-restored",
    ),
    "workdir-becomes-a-file": Case(
        "error",
        solve="rm -rf /app; echo x >/app",
        type="AgentFailed",
        kind="agent",
        message=UNVERIFIABLE + "the working directory /app is now a file",
    ),
    "removes-rm": Case(
        "error", solve=SPOOF + "rm /usr/bin/rm", test="true", type="RewardMissing", kind="task"
    ),
    "removes-rm-and-find": Case(
        "passed",
        solve=SPOOF + "rm /usr/bin/rm /usr/bin/find",
        test=FRESH,
    ),
    "removes-rm-and-find-by-a-volume": Case(
        "passed",
        solve=SPOOF + "rm /usr/bin/rm /usr/bin/find",
        test=FRESH,
        dockerfile=BASE + "VOLUME /logs/verifier\n",
    ),
    "replaces-rm": Case(
        "passed",
        solve=SPOOF + "cp /usr/bin/true /usr/bin/rm; cp /usr/bin/true /usr/bin/find",
        test=FRESH,
    ),
    "replaces-rm-by-a-volume": Case(
        "passed",
        solve=SPOOF + "cp /usr/bin/true /usr/bin/rm; cp /usr/bin/true /usr/bin/find",
        test=FRESH,
        dockerfile=BASE + "VOLUME /logs/verifier\n",
    ),
    "removes-sh": Case("passed", solve="rm /usr/bin/sh"),
    "removes-sh-and-spoofs": Case(
        "passed",
        solve=SPOOF + "rm /usr/bin/sh",
        test=FRESH,
    ),
    "removes-sh-and-spoofs-by-a-volume": Case(
        "passed",
        solve=SPOOF + "rm /usr/bin/sh",
        test=FRESH,
        dockerfile=BASE + "VOLUME /logs/verifier\n",
    ),
    "writes-for-ever": Case(
        "passed",
        solve="for i in 1 2 3 4; do setsid bash -c 'cd /; while :; do mkdir -p /logs/verifier/d$RANDOM; "
        "done' >/dev/null 2>&1 & done; sleep 0.5",
    ),
    "fills-the-process-table": Case(
        "passed",
        solve=SPOOF + "setsid bash -c 'while :; do sleep 600 & done' >/dev/null 2>&1 & sleep 5",
        test=FRESH,
    ),
    "logs-are-a-file": Case("passed", solve="rm -rf /logs; echo x >/logs"),
    "logs-are-a-link": Case("passed", solve="rm -rf /logs; ln -s /nowhere /logs"),
    "links-lead-to-each-other": Case(
        "passed",
        solve="rm -rf /logs; ln -s logs /logs; ln -s tests /tests",
        test=FRESH,
        note="artifacts-refused",
    ),
    "artifacts-lead-to-themselves": Case(
        "passed",
        solve="rm -rf /logs/a*; ln -s artifacts /logs/artifacts; ln -s agent /logs/agent",
        note="artifacts-refused",
    ),
    "logs-where-only-the-box-sees-them": Case(
        "error",
        solve=SPOOF + "mv /logs /x; ln -s /proc/self/root/x /logs",
        test="true",
        type="AgentFailed",
        kind="agent",
        message=UNVERIFIABLE + "nothing can be put below /logs, which is a symlink",
    ),
    "agent-logs-are-a-link": Case(
        "passed",
        solve="rm -rf /logs/agent; ln -s /etc /logs/agent",
        test="[ ! -e /etc/oracle.txt ] && " + ONE,
        note="logs-refused",
    ),
    "artifacts-are-a-pipe": Case(
        "passed",
        solve="rm -rf /logs/artifacts; mkfifo /logs/artifacts /app/pipe",
        config='artifacts = ["/app/pipe"]\n' + SCHEMA,
        note="artifacts-refused",
    ),
    "tests-are-a-link": Case("passed", solve="mkdir /mine; ln -s /mine /tests", test=FRESH),
    "no-users": Case("passed", solve="rm /etc/passwd /etc/group", test=FRESH),
    "volumes": Case(
        "passed",
        solve=SPOOF + "mkdir /logs/verifier/d; touch /tests/.evil /tests/evil",
        test=FRESH,
        dockerfile=BASE + "VOLUME /tests\nVOLUME /logs/verifier\n",
    ),
    "no-such-user": Case(
        "error",
        config=SCHEMA + '[verifier]\nuser = "ghost"\n',
        type="BoxUnfit",
        kind="task",
        message="user 'ghost' does not exist in the image",
    ),
    "no-such-image-user": Case(
        "error",
        dockerfile=BASE + "USER ghost\n",
        type="BoxUnfit",
        kind="task",
        message="the image's USER does not exist in it",
    ),
    "no-bash": Case(
        "error",
        dockerfile=BASE + "RUN rm /bin/bash\n",
        type="BoxUnfit",
        kind="task",
        message="command 'bash' is not in the image",
    ),
    "no-such-workdir": Case(
        "error",
        config=SCHEMA + '[environment]\nworkdir = "/nowhere"\n',
        type="BoxUnfit",
        kind="task",
        message="[environment] workdir = '/nowhere' does not exist in the image",
    ),
    "workdir-is-where-the-solution-will-be": Case(
        "error",
        config=SCHEMA + '[environment]\nworkdir = "//solution"\n',
        type="BoxUnfit",
        kind="task",
        message="[environment] workdir = '//solution' does not exist in the image",
    ),
    "relative-workdir": Case(
        "error",
        config=SCHEMA + '[environment]\nworkdir = "app"\n',
        type="BoxUnfit",
        kind="task",
        message="[environment] workdir = 'app' is not an absolute path",
    ),
    "entrypoint-not-executable": Case(
        "error",
        dockerfile=BASE + 'RUN touch /entry\nENTRYPOINT ["/entry"]\n',
        type="BoxUnfit",
        kind="task",
        message="the image's ENTRYPOINT cannot be executed",
    ),
    "nul-for-the-box": Case(
        "error",
        config=SCHEMA + '[environment.env]\nA = "x\\u0000y"\n',
        type="BoxUnfit",
        kind="task",
        message="the value of an environment variable holds a NUL character",
    ),
    "nul-for-the-verifier": Case(
        "error",
        config=SCHEMA + '[verifier.env]\nA = "x\\u0000y"\n',
        type="BoxUnfit",
        kind="task",
        message="the value of an environment variable holds a NUL character",
    ),
    "later-schema": Case("passed", config='schema_version = "9.9"\n', note="task-warning"),
}


@pytest.fixture(scope="session")
def records(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder: Path = tmp_path_factory.mktemp("hostile")
    for name, case in CASES.items():
        write_task(
            folder / "env" / name,
            solve=case.solve,
            test=case.test,
            config=case.config,
            dockerfile=case.dockerfile,
        )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n4", "--rlenv=env", "--rlenv-sandbox=docker"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    found = list((folder / ".rlenv").glob("*/results.jsonl"))
    assert len(found) == 1, done.stdout + done.stderr
    lines = found[0].read_text().splitlines()
    return {record["task"]: record for record in map(json.loads, lines)}


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_box_gets_a_fair_verdict(records: dict[str, dict[str, Any]], name: str) -> None:
    case, record = CASES[name], records[name]
    assert record["verdict"] == case.verdict, record
    error = record["error"]
    if case.type:
        assert (error["type"], error["kind"]) == (case.type, case.kind), error
        assert error["message"].startswith(case.message)
    if case.note:
        assert case.note in [note["code"] for note in record["notes"]]
