"""Every case, through the whole plugin, gets the verdict that we owe it: the same one in every sandbox.

Tasks that a sandbox cannot run are not run weaker there, but skipped for a reason that is checked as well.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from support.engine import BASE, remove_image, write_context
from support.project import properties, verdict_of

from pytest_rlenv.errors import EngineUnavailable
from pytest_rlenv.sandboxes.docker.client import shared_engine
from pytest_rlenv.sandboxes.docker.sandbox import DockerSandbox
from pytest_rlenv.sandboxes.loading import DOCKER, LOCAL, LOCAL_HOST, create
from pytest_rlenv.sandboxes.model import ImageSpec, SandboxContext

TESTS = Path(__file__).parents[1]
SETS = {
    "cases": TESTS / "cases" / "harbor",
    "verdicts": TESTS.parent / "example_envs" / "verdicts",
    "quickstart": TESTS.parent / "example_envs" / "quickstart",
    "terminal-bench": TESTS / "cases" / "terminal_bench",
}
HARBOR = ("cases", "verdicts", "quickstart")
SETS_OF = {DOCKER: tuple(SETS), LOCAL: HARBOR, LOCAL_HOST: HARBOR}
RUNS = {DOCKER: ("oracle", "nop"), LOCAL: ("oracle,nop",), LOCAL_HOST: ("oracle,nop",)}
"""The runs of pytest, by their agents. Where a rollout is cheap, one run does all of them."""

NO_SERVICES = {("cases", "compose-sidecar"): "environment/docker-compose.yaml: this sandbox runs no"}
NO_IMAGES = {
    ("cases", "users"): "environment/Dockerfile line 3: RUN chmod 777 /app",
    ("cases", "workdir-kept"): "environment/Dockerfile line 2: RUN mkdir -p /srv/work",
    ("cases", "image-entrypoint"): "environment/Dockerfile line 4: RUN chmod +x /entry.sh",
    ("cases", "entrypoint-dies"): 'environment/Dockerfile line 3: ENTRYPOINT ["/bin/false"]',
    ("cases", "build-fails"): "environment/Dockerfile line 2: RUN no-such-command",
    ("cases", "image-missing"): "image 'example.invalid/no-such-image:1'",
    ("verdicts", "entrypoint-dies"): 'environment/Dockerfile line 5: ENTRYPOINT ["bash", "/entrypoint.sh"]',
    ("verdicts", "image-missing"): "image 'registry.invalid/no-such-image:1'",
}
SKIPPED: dict[str, dict[tuple[str, str], str]] = {
    DOCKER: {},
    LOCAL: NO_SERVICES,
    LOCAL_HOST: NO_SERVICES | NO_IMAGES,
}
"""What a sandbox lacks, by the tasks that ask for it and the reason of their skip."""

NOT_NEEDED = (
    *(f"/usr/share/{name}" for name in ("doc", "info", "locale", "man", "perl5", "zoneinfo")),
    *("/var/cache/*", "/var/lib/dpkg"),
)
"""Most of the files of the base image."""

Row = list[Any]


def rows_of(set_name: str) -> dict[str, dict[str, Row]]:
    """Return what the tasks of a set are to get, by agent: verdict, reward, words of the text."""
    folder = SETS[set_name]
    if (folder / "expected.json").exists():
        rows: dict[str, dict[str, Row]] = json.loads((folder / "expected.json").read_text())
        return rows
    names = sorted(file.parent.name for file in folder.glob("tasks/*/task.toml"))
    return {name: {"oracle": ["passed", 1.0, []], "nop": ["passed", 0.0, []]} for name in names}


def expected_of(sandbox: str, set_name: str, agent: str) -> dict[str, Row]:
    found = {name: row[agent] for name, row in rows_of(set_name).items() if agent in row}
    for name in found:
        if reason := SKIPPED[sandbox].get((set_name, name)):
            found[name] = ["skipped", None, [reason]]
    return found


CASES = [
    pytest.param(
        *(sandbox, agents, agent, set_name, name),
        id=f"{sandbox}-{agent}-{set_name}-{name}",
        marks=() if sandbox == LOCAL_HOST else pytest.mark.docker,
    )
    for sandbox, runs in RUNS.items()
    for agents in runs
    for agent in agents.split(",")
    for set_name in SETS_OF[sandbox]
    for name in expected_of(sandbox, set_name, agent)
]

Cases = dict[tuple[str, str, str], ET.Element]


@pytest.fixture(scope="session")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Cases]:
    """Give the JUnit test cases of agents in a sandbox, by set, task and agent, from one run of them all.

    Whoever asks first runs them: this process, or another worker of the same session.
    """
    mine = tmp_path_factory.getbasetemp()
    shared = mine.parent if "PYTEST_XDIST_WORKER" in os.environ else mine

    @cache
    def cases(sandbox: str, agents: str) -> Cases:
        folder = shared / f"cases-{sandbox}-{agents}"
        with FileLock(f"{folder}.lock"):
            if not (folder / "junit.xml").exists():
                folder.mkdir(exist_ok=True)
                if sandbox != DOCKER:
                    skip_unless_there(sandbox, folder)
                with small_base(folder) if sandbox == LOCAL else nullcontext(BASE) as base:
                    run_all(sandbox, agents, folder, base)
        found = {}
        for case in ET.parse(folder / "junit.xml").getroot().iter("testcase"):
            facts = properties(case)
            found[facts["rlenv.repo"].removeprefix("env/"), facts["rlenv.task"], facts["rlenv.agent"]] = case
        return found

    return cases


@contextmanager
def small_base(folder: Path) -> Iterator[str]:
    """Have the base image without what no task needs: each image on it is extracted as a whole."""
    sandbox = DockerSandbox(SandboxContext("s", "main", folder / "base", folder / "base"))
    context = write_context(folder / "base" / "context", f"FROM {BASE}\nRUN rm -rf {' '.join(NOT_NEEDED)}")
    name = sandbox.prepare(ImageSpec(context=context, slug="small base")).name
    try:
        yield name
    finally:
        sandbox.close()
        remove_image(shared_engine(), name)


def run_all(sandbox: str, agents: str, folder: Path, base: str) -> None:
    names: set[str] = set()
    command = [sys.executable, "-m", "pytest", "-q", "-n4", f"--rlenv-sandbox={sandbox}", "--agent", agents]
    for set_name in SETS_OF[sandbox]:
        shutil.copytree(SETS[set_name], folder / "env" / set_name, symlinks=True)
        for file in (folder / "env" / set_name).rglob("Dockerfile"):
            file.write_text(file.read_text().replace(f"FROM {BASE}", f"FROM {base}"))
        command += ["--rlenv", f"env/{set_name}"]
        for agent in agents.split(","):
            names.update(expected_of(sandbox, set_name, agent))
    command += [f"--rlenv-task={name}" for name in sorted(names)]
    done = subprocess.run(
        [*command, "--junitxml=junit.xml", "-p", "no:cacheprovider"],
        cwd=folder,
        env={**os.environ, "RLENV_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    shutil.rmtree(folder / "cache", ignore_errors=True)  # whole file systems
    assert (folder / "junit.xml").exists(), done.stdout + done.stderr


def skip_unless_there(sandbox: str, folder: Path) -> None:
    made = create(sandbox, SandboxContext("s", "main", folder / "cache", folder / "run"))
    try:
        description = made.describe()
    except EngineUnavailable as error:
        pytest.skip(f"no local boxes on this machine: {error}")
    finally:
        made.close()
    if sandbox == LOCAL and "image root file systems" not in description:
        pytest.skip(f"no images here: {description}")


@pytest.mark.parametrize(("sandbox", "agents", "agent", "set_name", "name"), CASES)
def test_a_case_gets_its_verdict(
    cases: Callable[[str, str], Cases], sandbox: str, agents: str, agent: str, set_name: str, name: str
) -> None:
    outcome, reward, words = expected_of(sandbox, set_name, agent)[name]
    case = cases(sandbox, agents)[set_name, name, agent]
    verdict, text = verdict_of(case)
    assert verdict == outcome, text
    found = properties(case).get("rlenv.reward")
    assert (None if found is None else float(found)) == reward
    for word in words:
        assert word.lower() in text.lower()


@pytest.mark.parametrize("sandbox", SKIPPED)
def test_reasons_are_those_of_tasks_that_there_are(sandbox: str) -> None:
    there = {(set_name, name) for set_name in SETS_OF[sandbox] for name in rows_of(set_name)}
    assert set(SKIPPED[sandbox]) <= there
