"""The sandbox of a run that names none: which one is taken when, and what is said where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.no_engine import NOWHERE, hide_engine
from support.scripted import ScriptedSandbox

from pytest_rlenv.errors import EngineUnavailable, SpecError
from pytest_rlenv.sandboxes.auto import Choice, Need, choose
from pytest_rlenv.sandboxes.loading import create
from pytest_rlenv.sandboxes.local import bwrap
from pytest_rlenv.sandboxes.model import BuildOptions, ImageSpec, SandboxContext
from pytest_rlenv.sandboxes.protocol import Sandbox

NO_DOCKER = EngineUnavailable("no engine at the default", hint="start it")
NO_BWRAP = EngineUnavailable("there is no bubblewrap", hint="pip install 'pytest-rlenv[local]'")


class Machine:
    """What works on a machine, and what was tried there."""

    def __init__(self, **broken: EngineUnavailable) -> None:
        self.broken = {name.replace("_", "-"): error for name, error in broken.items()}
        self.open: list[str] = []
        self.tried: list[str] = []

    def make(self, name: str, context: SandboxContext) -> Sandbox:
        machine = self

        class Fake(ScriptedSandbox):
            def check(self) -> None:
                machine.tried.append(name)
                if name in machine.broken:
                    raise machine.broken[name]

            def close(self) -> None:
                machine.open.remove(name)

        self.open.append(name)
        return Fake(context)


@pytest.fixture
def context(tmp_path: Path) -> SandboxContext:
    return SandboxContext("s", "main", tmp_path / "cache", tmp_path / "run")


@pytest.fixture
def image(tmp_path: Path) -> Callable[[str], ImageSpec]:
    """Write a build context with the given lines below FROM."""

    def write(lines: str) -> ImageSpec:
        folder = tmp_path / f"context{len(list(tmp_path.iterdir()))}" / "environment"
        folder.mkdir(parents=True)
        (folder / "data.txt").write_text("x")
        (folder / "Dockerfile").write_text(f"FROM debian:bookworm-slim\n{lines}\n")
        return ImageSpec(context=folder)

    return write


def take(machine: Machine, context: SandboxContext, *needs: Need, **options: Any) -> Choice:
    options.setdefault("environ", {})
    return choose(context, lambda: needs, make=machine.make, **options)


def must_not_be_asked() -> Iterator[Need]:
    raise AssertionError("the tasks were looked at")


def test_docker_where_an_engine_answers_whatever_the_tasks_need(context: SandboxContext) -> None:
    machine = Machine()
    choice = choose(context, must_not_be_asked, environ={}, make=machine.make)
    assert choice.name == "docker"
    assert machine.tried == machine.open == ["docker"]


FREE = "WORKDIR /app\nCOPY data.txt .\nENV A=1\nARG B=2\nLABEL c=d\nADD data.txt /app/more/"


def test_the_hosts_userland_where_nobody_needs_an_image(
    context: SandboxContext, image: Callable[[str], ImageSpec]
) -> None:
    machine = Machine(docker=NO_DOCKER)
    choice = take(machine, context, Need("a", [image(FREE)]), Need("b", [image("")]))
    assert choice.name == "local-host"
    assert machine.open == ["local-host"]


@pytest.mark.parametrize("variable", ["DOCKER_HOST", "DOCKER_CONTEXT"])
def test_who_names_an_engine_gets_no_other_sandbox(variable: str, context: SandboxContext) -> None:
    machine = Machine(docker=NO_DOCKER)
    with pytest.raises(EngineUnavailable, match="no engine at the default") as caught:
        take(machine, context, environ={variable: "somewhere"})
    assert machine.tried == ["docker"]
    assert machine.open == []
    assert f"unset {variable}" in caught.value.hint
    assert take(machine, context, environ={variable: " "}).name == "local-host"


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("RUN true", "environment/Dockerfile line 2: RUN true"),
        ("\nUSER 1000", "environment/Dockerfile line 3: USER 1000"),
        ("COPY --from=x a /b", "environment/Dockerfile line 2: COPY --from=x"),
        ("ADD https://example.org/x /x", "environment/Dockerfile line 2: ADD https"),
        ("COPY data.txt /usr/bin/x", "environment/Dockerfile line 2: COPY data.txt /usr/bin/x"),
        ('ENTRYPOINT ["x"]', "environment/Dockerfile line 2: ENTRYPOINT"),
        ("FROM other", "environment/Dockerfile line 2: FROM other"),
    ],
)
def test_an_instruction_that_needs_an_image_is_named(
    lines: str, reason: str, context: SandboxContext, image: Callable[[str], ImageSpec]
) -> None:
    machine = Machine(docker=NO_DOCKER)
    with pytest.raises(EngineUnavailable) as caught:
        take(machine, context, Need("free", [image(FREE)]), Need("not-free", [image(FREE), image(lines)]))
    assert f"not-free: {reason}" in caught.value.detail
    assert "an image is needed by 1 of 2 tasks" in caught.value.detail
    assert machine.open == []


@pytest.mark.parametrize(
    ("need", "reason"),
    [
        (Need("t", [ImageSpec(name="ubuntu:24.04")]), "t: it starts from the prebuilt image ubuntu:24.04"),
        (
            Need("t", [ImageSpec(context=Path("x"), options=BuildOptions(target="y"))]),
            "t: its image is built with arguments, a target or another Dockerfile",
        ),
        (Need("t", refusal="environment/docker-compose.yaml: services"), "t: environment/docker-compose"),
    ],
)
def test_what_needs_an_engine_for_other_reasons(need: Need, reason: str, context: SandboxContext) -> None:
    with pytest.raises(EngineUnavailable) as caught:
        take(Machine(docker=NO_DOCKER), context, need)
    assert reason in caught.value.detail
    assert "1 of 1 task" in caught.value.message


def test_what_cannot_be_read_is_not_in_the_way(context: SandboxContext, tmp_path: Path) -> None:
    broken = Need("broken", [ImageSpec(context=tmp_path / "no-such-folder")])
    assert take(Machine(docker=NO_DOCKER), context, broken, Need("unknown")).name == "local-host"


def test_a_few_are_named_and_all_counted(context: SandboxContext, image: Callable[[str], ImageSpec]) -> None:
    needs = [Need(f"bad{number}", [image("RUN x")]) for number in range(5)] + [Need("good", [image(FREE)])]
    with pytest.raises(EngineUnavailable) as caught:
        take(Machine(docker=NO_DOCKER), context, *needs)
    error = caught.value
    assert "5 of 6 tasks cannot run without one" in error.message
    assert [line.split(":")[0].strip() for line in error.detail.splitlines()] == [
        "docker",
        "local",
        "bad0",
        "bad1",
        "bad2",
        "and 2 more",
    ]
    fixes = error.hint.splitlines()
    assert [fix[:2] for fix in fixes] == ["1)", "2)", "3)"]
    for fix, words in zip(fixes, ("DOCKER_HOST", "the 1 that need no image", "--rlenv-task"), strict=True):
        assert words in fix
    assert "--rlenv-sandbox local" in fixes[1]


def test_no_advice_that_would_run_nothing(context: SandboxContext, image: Callable[[str], ImageSpec]) -> None:
    with pytest.raises(EngineUnavailable) as caught:
        take(Machine(docker=NO_DOCKER), context, Need("bad", [image("RUN x")]))
    assert "--rlenv-task" not in caught.value.hint
    assert "--rlenv-sandbox local" not in caught.value.hint


@pytest.mark.parametrize(
    ("platform", "reason", "fix", "tried"),
    [
        (
            "linux",
            "there is no bubblewrap",
            "2) for tasks that need no image: pip install 'pytest-rlenv[local]'",
            ["docker", "local-host"],
        ),
        ("darwin", "Linux namespaces, which darwin does not", "2) a container engine is needed", ["docker"]),
        ("win32", "Linux namespaces, which win32 does not", "2) a container engine is needed", ["docker"]),
    ],
)
def test_nothing_works(
    platform: str, reason: str, fix: str, tried: list[str], context: SandboxContext
) -> None:
    machine = Machine(docker=NO_DOCKER, local_host=NO_BWRAP)
    with pytest.raises(EngineUnavailable) as caught:
        choose(context, must_not_be_asked, environ={}, make=machine.make, platform=platform)
    docker, local = caught.value.detail.splitlines()
    assert docker == "docker: no engine at the default"
    assert local.startswith("local: ")
    assert reason in local
    assert "1) have a Docker engine: start it; or set DOCKER_HOST" in caught.value.hint
    assert fix in caught.value.hint
    assert machine.tried == tried
    assert machine.open == []


def test_a_refusal_of_the_tasks_source_is_passed_on(context: SandboxContext) -> None:
    machine = Machine(docker=NO_DOCKER)

    def needs() -> Iterator[Need]:
        raise SpecError("the Hub refuses")
        yield

    with pytest.raises(SpecError, match="the Hub refuses"):
        choose(context, needs, environ={}, make=machine.make)
    assert machine.open == []


def test_with_the_real_ones(context: SandboxContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hide_engine(monkeypatch, tmp_path / "docker")
    monkeypatch.setattr(bwrap, "_paths", lambda: iter(()))
    with pytest.raises(EngineUnavailable) as caught:
        choose(context, must_not_be_asked)
    assert (
        f"docker: the Docker engine at {NOWHERE} (docker's current context 'nowhere')" in caught.value.detail
    )
    assert "local: the local sandbox needs bubblewrap" in caught.value.detail
    assert "bubblewrap package" in caught.value.hint
    monkeypatch.setenv("DOCKER_HOST", "unix:///elsewhere")
    with pytest.raises(EngineUnavailable, match="unix:///elsewhere"):
        choose(context, must_not_be_asked)


def test_making_a_sandbox_touches_nothing(context: SandboxContext) -> None:
    for name in ("docker", "local", "local-host"):
        create(name, context).close()
    assert not context.cache_dir.exists()
