"""Boxes with services beside them, on a real engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.engine import remove_image
from support.model_calls import ASK, proxied, question
from support.scripted_model import ScriptedModel

from pytest_rlenv.errors import BoxUnfit, Unsupported
from pytest_rlenv.sandboxes.docker import labels
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.compose.box import ServicesBox
from pytest_rlenv.sandboxes.docker.sandbox import DockerSandbox
from pytest_rlenv.sandboxes.docker.sweep import sweep_stale
from pytest_rlenv.sandboxes.model import (
    ALLOWLIST,
    NO_NETWORK,
    PUBLIC,
    BoxSpec,
    ComposeSpec,
    Entry,
    ImageSpec,
    SandboxContext,
)

pytestmark = pytest.mark.docker

PYTHON = "python:3.11-slim"
SERVE = 'image: python:3.11-slim, command: [python3, -m, http.server, "8000", --directory, /srv]'
Start = Callable[..., ServicesBox]


@pytest.fixture
def session(engine: Engine) -> Iterator[str]:
    """A session of which nothing is left at the end, whatever a test does."""
    session = f"t{uuid.uuid4().hex[:12]}"
    yield session
    for kind, path in left_of(engine, session):
        force = "?force=1&v=1" if kind == "containers" else ""
        engine.request("DELETE", f"{path}{force}", doing="clean up")


@pytest.fixture
def project(tmp_path: Path) -> Callable[..., ImageSpec]:
    """Write a project, and return what is to be prepared."""
    root = tmp_path / "task"
    folder = root / "environment"
    folder.mkdir(parents=True)

    def write(text: str, env: dict[str, str] | None = None, **files: str) -> ImageSpec:
        for name, content in files.items():
            file = folder / name.replace("__", "/")
            file.parent.mkdir(exist_ok=True)
            file.write_text(content)
        (folder / "docker-compose.yaml").write_text(text)
        compose = ComposeSpec(folder / "docker-compose.yaml", root, {**os.environ, **(env or {})})
        return ImageSpec(name=PYTHON, compose=compose)

    return write


@pytest.fixture
def sandbox_of(session: str, tmp_path: Path) -> Iterator[Callable[..., DockerSandbox]]:
    made: list[DockerSandbox] = []

    def make(worker: str = "main", **context: Any) -> DockerSandbox:
        base = tmp_path / "base"
        made.append(DockerSandbox(SandboxContext(session, worker, base, base, **context)))
        return made[-1]

    yield make
    for sandbox in made:
        sandbox.close()


@pytest.fixture
def start(sandbox_of: Callable[..., DockerSandbox], project: Callable[..., ImageSpec]) -> Start:
    sandbox = sandbox_of()

    def start(
        text: str, files: dict[str, str] | None = None, variables: dict[str, str] | None = None, **spec: Any
    ) -> ServicesBox:
        image = sandbox.prepare(project(text, variables, **(files or {})))
        box = sandbox.start(image, BoxSpec(lifetime=600, **spec), [Entry("logs/x", b"x")])
        assert isinstance(box, ServicesBox)
        return box

    return start


def left_of(engine: Engine, session: str) -> list[tuple[str, str]]:
    """Return everything of a session, containers first: what it is, and the engine's path of it."""
    params = {"filters": json.dumps({"label": [f"{labels.SESSION}={session}"]}), "all": "1"}
    containers = engine.get("/containers/json", params=params, doing="look")
    networks = engine.get("/networks", params=params, doing="look")
    volumes = engine.get("/volumes", params=params, doing="look").get("Volumes") or []
    return [
        *(("containers", f"/containers/{each['Id']}") for each in containers),
        *(("networks", f"/networks/{each['Id']}") for each in networks),
        *(("volumes", f"/volumes/{each['Name']}") for each in volumes),
    ]


def gone_within(seconds: float, engine: Engine, session: str) -> bool:
    give_up = time.monotonic() + seconds
    while left := left_of(engine, session):
        if time.monotonic() > give_up:
            print(left)
            return False
        time.sleep(0.1)
    return True


def said(box: Any, script: str, **options: Any) -> str:
    done = box.run(["sh", "-c", script], timeout=30, **options)
    assert done.exit_code == 0, done.output.decode()
    text: str = done.stdout.decode().strip()
    return text


def fetch(url: str) -> str:
    return f"python3 -c 'import urllib.request as u; print(u.urlopen(\"{url}\").read().decode().strip())'"


WHOLE = """
services:
  main:
    container_name: rlenv-test-fixed-main
    ports: ["127.0.0.1:18976:80"]
    environment: {GREETING: "${GREETING}", KEPT: file, SET: file}
    depends_on:
      web: {condition: service_healthy}
      once: {condition: service_completed_successfully}
    volumes: ["./site:/site", "shared:/shared"]
  web:
    build: {context: web, dockerfile: Other, target: wanted, args: {WORD: built}}
    container_name: rlenv-test-fixed-web
    ports: ["127.0.0.1:18977:8000"]
    command: [python3, -m, http.server, "8000", --directory, /srv]
    volumes: ["./site:/srv:ro", "./run.sh:/run.sh", /anonymous]
    secrets: [{source: word, target: /etc/word, mode: 0400}]
    healthcheck: {test: [CMD, test, -e, /started], interval: 100ms, retries: 100}
    post_start: [{command: [sh, -c, "echo $$WHY > /started"], environment: {WHY: hooked}}]
    cap_drop: [CHOWN]
  once:
    build: {context: ., dockerfile_inline: "FROM debian:bookworm-slim\\nCOPY run.sh /run.sh\\n"}
    command: [bash, -c, "cat /run.sh > /shared/once"]
    volumes: ["shared:/shared"]
volumes: {shared: {name: rlenv-test-fixed}}
networks: {default: {name: rlenv-test-fixed, ipam: {config: [{subnet: 10.213.0.0/24}]}}}
secrets: {word: {environment: GREETING}}
"""
WHOLE_FILES = {
    "site__page": "a page\n",
    "run.sh": "#!/bin/sh\necho ran\n",
    "web__Other": "ARG BASE=python:3.11-slim\nFROM $BASE AS wanted\nARG WORD\nRUN echo $WORD > /word\n"
    "FROM wanted\nRUN false\n",
}


def test_two_at_once_with_the_same_names_ports_and_ranges(start: Start, engine: Engine, session: str) -> None:
    spec: dict[str, Any] = {"env": {"SET": "task"}, "memory_mb": 256, "workdir": "/site"}
    first, box = (start(WHOLE, WHOLE_FILES, {"GREETING": "5$"}, **spec) for _ in range(2))
    web = box.service("web")
    assert box.services == ("main", "once", "web")
    assert said(box, "echo $GREETING $KEPT $SET; pwd; cat page /shared/once /logs/x") == (
        "5$ file task\n/site\na page\n#!/bin/sh\necho ran\nx"
    )
    assert (
        said(web, "cat /word /started /etc/word; /run.sh; ls -d /anonymous")
        == "built\nhooked\n5$ran\n/anonymous"
    )
    assert box.run(["sh", "-c", "echo written > /site/new"]).exit_code == 0
    assert said(box, fetch("http://rlenv-test-fixed-web:8000/new")) == "written"
    assert web.run(["touch", "/srv/x"]).exit_code != 0
    assert "NoNewPrivs:\t1" in said(web, "cat /proc/1/status")
    assert said(first, fetch("http://web:8000/page")) == "a page"
    assert first.service("web").run(["test", "-e", "/srv/new"]).exit_code == 1
    box.stop()
    assert said(web, "echo alive") == "alive"
    assert box.get("/shared/once", cap=100) == b"#!/bin/sh\necho ran\n"
    with pytest.raises(BoxUnfit, match="there are main, once, web"):
        box.service("nobody")
    (anonymous,) = (
        mount["Name"]
        for mount in engine.get(f"/containers/{web.id}/json", doing="look")["Mounts"]
        if mount["Destination"] == "/anonymous"
    )
    built = [
        engine.get(f"/containers/{box.service(n).id}/json", doing="look")["Image"] for n in ("web", "once")
    ]
    for each in (first, box):
        each.destroy()
        each.destroy()
    assert gone_within(20, engine, session)
    for image in built:
        remove_image(engine, image)
    assert engine.find(f"/volumes/{anonymous}", doing="look") is None


@pytest.mark.parametrize(
    ("db", "words", "detail"),
    [
        (
            "command: [sh, -c, 'echo no space >&2; exit 7'], healthcheck: {test: 'false', interval: 60s}",
            "service 'db' ended with exit code 7",
            "no space",
        ),
        (
            "command: [sleep, '60'], healthcheck: {test: 'echo not yet; false', interval: 50ms, retries: 2}",
            "service 'db' is unhealthy",
            "not yet",
        ),
        ("command: [no-such-program]", "service 'db'", "no-such-program"),
        (
            "command: [sleep, '60'], post_start: [{command: [sh, -c, 'echo oh; exit 3']}]",
            r"services\.db\.post_start: .* ended with exit code 3",
            "oh",
        ),
    ],
)
def test_a_service_that_does_not_come_up_is_the_tasks_fault(
    db: str, words: str, detail: str, start: Start, engine: Engine, session: str
) -> None:
    main = "main: {depends_on: {db: {condition: service_healthy}}}"
    with pytest.raises(BoxUnfit, match=words) as failed:
        start(f"services:\n  {main}\n  db: {{image: {PYTHON}, {db}}}\n", start_timeout=120.0)
    assert detail in failed.value.detail
    assert left_of(engine, session) == []


def test_a_main_with_a_command_of_its_own(start: Start) -> None:
    serve = "[sh, -c, 'echo up >> /starts; sleep 600 & wait']"
    box = start(f"services: {{main: {{command: {serve}, init: true}}}}")
    assert said(box, "cat /starts") == "up"
    assert box.run(["sleep", "60"], timeout=0.5).timed_out
    assert said(box, "cat /starts") == "up\nup"
    with pytest.raises(BoxUnfit, match="service 'main' ended with exit code 5"):
        start("services: {main: {command: [sh, -c, 'exit 5']}}")


ALONE = f"""
services:
  main: {{depends_on: [web]}}
  web: {{{SERVE}, container_name: fixed, volumes: ['./site:/srv']}}
"""
SITE = {"site__page": "a page\n"}
REACH = "import socket; socket.create_connection((%r, 80), 1)"


def test_without_a_network_services_reach_each_other_only(start: Start) -> None:
    box = start(ALONE, SITE, network=NO_NETWORK)
    for host in ("web", "fixed", "localhost"):
        assert said(box, f"sleep 0.2; {fetch(f'http://{host}:8000/page')}") == "a page"
    for each in (box, box.service("web")):
        assert said(each, "ls /sys/class/net") == "lo"


def test_networks_of_its_own_are_cut_off(start: Start, engine: Engine) -> None:
    gateway = engine.get("/networks/bridge", doing="look")["IPAM"]["Config"][0].get("Gateway", "172.17.0.1")
    web = f"web: {{{SERVE}, volumes: ['./site:/srv'], networks: [n]}}"
    box = start(f"services: {{main: {{networks: [n]}}, {web}}}\nnetworks: {{n: }}", SITE, network=NO_NETWORK)
    assert said(box, f"sleep 0.5; {fetch('http://web:8000/page')}") == "a page"
    own = said(box, "awk '$2 == \"00000000\" {print $3}' /proc/net/route")
    hosts = [gateway, *([".".join(str(b) for b in reversed(bytes.fromhex(own)))] if own else [])]
    for host in hosts:
        failed = box.run(["python3", "-c", REACH % host])
        assert failed.exit_code == 1
        assert b"refused" not in failed.output  # which would be an answer


def test_an_allowlist_and_changes_hold_for_all_services(start: Start) -> None:
    box = start(ALONE, SITE, network=PUBLIC, later_networks=frozenset({NO_NETWORK, ALLOWLIST}))
    web = box.service("web")
    assert said(box, f"sleep 0.3; {fetch('http://web:8000/page')}") == "a page"
    assert "eth0" in said(web, "ls /sys/class/net")
    box.set_network(ALLOWLIST, ["allowed.invalid"])
    for each in (box, web):
        assert said(each, "ls /sys/class/net") == "lo"
    assert said(box, fetch("http://web:8000/page")) == "a page"
    refused = box.run(["sh", "-c", fetch("http://other.invalid/")])
    assert b"403" in refused.output
    assert box.take_denied() == {"other.invalid:80": 1}
    box.set_network(NO_NETWORK)
    assert "proxy" not in said(box, "env")


@pytest.mark.parametrize("network", [PUBLIC, NO_NETWORK, ALLOWLIST])
def test_main_reaches_a_server_of_this_process(start: Start, network: str) -> None:
    with ScriptedModel(["hello from here"]) as model, proxied(model.url) as (proxy, _):
        box = start(ALONE, SITE, network=network, take_listener=proxy.take_listener)
        endpoint = proxy.endpoint(from_box=True)
        port, body = endpoint.anthropic_base_url.rpartition(":")[2], json.dumps(question())
        argv = ["bash", "-c", ASK, "ask", port, endpoint.key, "/v1/chat/completions", body]
        assert b"hello from here" in box.run(argv, timeout=20).output
        assert "rlenv-network" not in box.services
        assert said(box, f"sleep 0.3; {fetch('http://web:8000/page')}") == "a page"


def test_what_is_unsafe_runs_only_if_it_is_allowed(
    sandbox_of: Callable[..., DockerSandbox], project: Callable[..., ImageSpec], tmp_path: Path
) -> None:
    (tmp_path / "outside").write_text("from outside")
    image = project(
        "services: {main: {cap_add: [SYS_PTRACE], volumes: ['../../outside:/outside:ro']}}",
    )
    with pytest.raises(Unsupported) as refused:
        sandbox_of().prepare(image)
    assert "environment/docker-compose.yaml: services.main.cap_add: SYS_PTRACE" in refused.value.reason
    assert "services.main.volumes[0]" in refused.value.reason
    trusting = sandbox_of(allow_unsafe_compose=True)
    box = trusting.start(trusting.prepare(image), BoxSpec(lifetime=600))
    assert said(box, "cat /outside") == "from outside"
    assert int(said(box, "awk '/CapBnd/ {print $2}' /proc/self/status"), 16) >> 19 & 1


def test_without_docker_compose_it_is_a_skip(
    sandbox_of: Callable[..., DockerSandbox],
    project: Callable[..., ImageSpec],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pytest_rlenv.sandboxes.docker.compose.program.candidates", lambda _: iter(()))
    image = project("services: {}", {"DOCKER_CONFIG": "/nowhere"})
    with pytest.raises(Unsupported, match=r"needs docker compose v2: .*pytest-rlenv"):
        sandbox_of().prepare(image)


OWNER = """
import sys, time, pathlib
from pytest_rlenv.sandboxes.docker import DockerSandbox
from pytest_rlenv.sandboxes.model import *
session, base, file = sys.argv[1:]
file = pathlib.Path(file)
sandbox = DockerSandbox(SandboxContext(session, "main", pathlib.Path(base), pathlib.Path(base)))
image = ImageSpec(name="python:3.11-slim", compose=ComposeSpec(file, file.parent.parent))
sandbox.start(sandbox.prepare(image), BoxSpec(lifetime=300))
if REAPED:
    print("up", flush=True)
    time.sleep(60)
from pytest_rlenv.sandboxes.docker import reaper
for each in reaper._reapers.values():
    each.stop(sweep=False)
print("up", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("reaped", [True, False], ids=["reaper", "sweep"])
def test_a_killed_owner_leaves_no_container_network_or_volume(
    reaped: bool, session: str, project: Callable[..., ImageSpec], tmp_path: Path, engine: Engine
) -> None:
    compose = project(ALONE, **SITE).compose
    assert compose is not None
    script = OWNER.replace("REAPED", str(reaped))
    owner = subprocess.Popen(
        [sys.executable, "-c", script, session, str(tmp_path), str(compose.file)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "up\n"
        assert {kind for kind, _ in left_of(engine, session)} == {"containers", "networks", "volumes"}
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        if not reaped:
            sweep_stale(engine=engine)
        assert gone_within(20 if reaped else 0.5, engine, session)
    finally:
        owner.kill()
        owner.wait()
        if owner.stdout is not None:
            owner.stdout.close()
