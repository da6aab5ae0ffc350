"""Tasks for what the cases of the tests do not have: steps, artifacts, hooks, services and odd rewards.

Some are there for a difference that is meant, the others for what must be equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

SEPARATE = '[verifier]\nenvironment_mode = "separate"\n'
TWO = '[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'
PLAIN = "FROM debian:bookworm-slim\nWORKDIR /app\n"
DEV = f"{PLAIN}RUN useradd dev && chmod 700 . && chown dev .\nUSER dev\n"
FULL = "echo 1 >/logs/verifier/reward.txt"
TRAP = "trap 'echo 0 >/logs/verifier/reward.txt; exit' ERR"
DB = "  db:\n    image: debian:bookworm-slim\n    command: sh -c 'mkdir -p /data; sleep 600'\n"
NO_FILES: Mapping[str, str] = {}


def checked(*lines: str) -> str:
    """Return a test script that gives 1 if all lines succeed, else 0."""
    return "\n".join([TRAP, *lines, FULL])


def writes_json(text: str) -> str:
    """Return a test script that writes this reward.json."""
    return f"echo '{text}' >/logs/verifier/reward.json"


class Made(NamedTuple):
    """A task: its task.toml, its scripts, its Dockerfile, further files; and the two scripts of each step."""

    config: str = ""
    solve: str = "true"
    test: str = FULL
    dockerfile: str = PLAIN
    files: Mapping[str, str] = NO_FILES
    steps: Mapping[str, tuple[str, str]] = {}


def linked(target: str, *checks: str) -> Made:
    """Return a task whose artifact is a link."""
    solve = f"mkdir real; echo x >real/f; cp real/f file; ln -s {target} l"
    return Made(f'artifacts = ["/app/l"]\n{SEPARATE}', solve, checked(*checks))


def at_one_place(*checks: str) -> Made:
    """Return a task of whose two artifacts the second has no place."""
    places = '{source = "/app/a", destination = "x"}, {source = "/app/b", destination = "x"}'
    return Made(f"artifacts = [{places}]\n{SEPARATE}", "echo a >a; echo b >b", checked(*checks))


def services(main: str, more: str = "") -> Mapping[str, str]:
    """Return the files of a task with a Compose file."""
    return {"environment/docker-compose.yaml": f"services:\n  main:\n    {main}\n{more}"}


MADE: dict[str, Made] = {
    "artifact-exclude": Made(
        'artifacts = [{source = "/app/d", exclude = ["*.tmp", "cache"]}]\n' + SEPARATE,
        "mkdir -p d/cache; touch d/a d/b.tmp d/cache/x",
        checked("[ -e /app/d/a ]", "[ ! -e /app/d/b.tmp ]", "[ ! -e /app/d/cache ]"),
    ),
    "artifact-is-a-link": linked("file", '[ "$(cat /app/l)" = x ]'),
    "artifact-is-a-link-out": linked("/etc/hostname", "[ -e /app/l ]"),
    "artifact-is-a-link-to-a-folder": linked("real", '[ "$(cat /app/l/f)" = x ]'),
    "artifact-missing": Made(
        f'artifacts = ["/app/none", "/app/a"]\n{SEPARATE}', "echo x >a", checked("[ -e /app/a ]")
    ),
    "artifacts-at-one-place": at_one_place('[ "$(cat /app/a)" = a ]', "[ ! -e /app/b ]"),
    "artifact-of-a-service": Made(
        'artifacts = [{source = "/data/x", service = "db"}]\n'
        + SEPARATE
        + '[[verifier.collect]]\ncommand = "echo hooked >/data/x"\nservice = "db"\n',
        test=checked('[ "$(cat /data/x)" = hooked ]'),
        files=services("depends_on: [db]", DB),
    ),
    "bundled-tests": Made(
        f'artifacts = ["/app/a"]\n{SEPARATE}',
        "touch a",
        checked("[ -e /app/a ]"),
        files={"tests/Dockerfile": "FROM debian:bookworm-slim\nCOPY . /tests\n"},
    ),
    "hook-fails": Made(
        '[[verifier.collect]]\ncommand = "exit 3"\n[[verifier.collect]]\ncommand = "touch h"\n',
        test=checked("[ -e h ]"),
    ),
    "hook-late": Made(
        '[[verifier.collect]]\ncommand = "sleep 60"\ntimeout_sec = 1\n',
        "(exec -a service sleep 600 &)",
        checked("grep -qs ^service /proc/[0-9]*/cmdline"),
    ),
    "health-check-late": Made('[environment.healthcheck]\ncommand = "sleep 20"\ntimeout_sec = 1\n'),
    "loose-files-of-a-prebuilt-image": Made(
        '[environment]\ndocker_image = "debian:bookworm-slim"\nworkdir = "/opt"\n',
        test=checked("[ -e /opt/data/x ]"),
        dockerfile="",
        files={"environment/data/x": "1"},
    ),
    "ignored-files": Made(
        solve="[ -e /solution/a.md ] && touch bad; true",
        test=checked("[ ! -e /tests/secret.txt ]", "[ ! -e bad ]"),
        files={
            "tests/.harborignore": "secret*\n",
            "tests/secret.txt": "x",
            "solution/.harborignore": "*.md\n",
            "solution/a.md": "x",
        },
    ),
    "reward-is-a-link": Made(test="echo 1 >/tmp/r; ln -s /tmp/r /logs/verifier/reward.txt"),
    "reward-key-twice": Made(test=writes_json('{"reward": 0, "reward": 1}')),
    "reward-of-400-digits": Made(test=writes_json(f'{{"reward": 1{"0" * 400}}}')),
    "reward-with-a-byte-order-mark": Made(test=r'printf "\xef\xbb\xbf1" >/logs/verifier/reward.txt'),
    "root-verifies-in-a-users-service": Made(
        '[verifier]\nuser = "root"\n',
        "umask 077; echo 1 >x; mkdir /logs/verifier/d; touch /logs/verifier/d/x",
        checked('[ "$(cat /app/x)" = 1 ]'),
        DEV,
        services("environment: {A: b}"),
    ),
    "step-keys": Made(
        TWO, steps={"one": ("true", writes_json('{"a": 1}')), "two": ("true", writes_json('{"b": 1}'))}
    ),
    "step-gate-by-key": Made(
        TWO.replace('"one"\n', '"one"\nmin_reward = {a = 0.5, b = 1}\n'),
        steps={"one": ("true", writes_json('{"a": 1, "b": 0.5}')), "two": ("true", FULL)},
    ),
    "step-setup-fails": Made(
        TWO,
        files={"steps/two/workdir/setup.sh": "exit 3"},
        steps={"one": ("true", FULL), "two": ("true", FULL)},
    ),
    "step-without-a-reward": Made(TWO, steps={"one": ("true", FULL), "two": ("true", "true")}),
    "workdir-missing": Made('[environment]\nworkdir = "/none"\n'),
}


def write_made(folder: Path) -> Path:
    """Write all of them below a folder, and return it."""
    for name, made in MADE.items():
        files = {"task.toml": made.config, **made.files}
        if made.dockerfile:
            files["environment/Dockerfile"] = made.dockerfile
        of_task = {} if made.steps else {"": (made.solve, made.test)}
        for step, (solve, test) in {
            **of_task,
            **{f"steps/{each}/": own for each, own in made.steps.items()},
        }.items():
            files |= {
                f"{step}instruction.md": "Do it.\n",
                f"{step}solution/solve.sh": f"#!/bin/bash\n{solve}\n",
                f"{step}tests/test.sh": f"#!/bin/bash\n{test}\n",
            }
        for path, text in files.items():
            (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / name / path).write_text(text)
    return folder
