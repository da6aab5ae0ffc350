"""Servers in containers of a real engine: published on this machine only, limited, shared, and removed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from support.openenv import EXAMPLE

from pytest_rlenv.errors import BoxUnfit, SandboxFailed, Unsupported
from pytest_rlenv.frameworks.openenv.container_server import ContainerServer
from pytest_rlenv.frameworks.openenv.routes import wait_ready
from pytest_rlenv.sandboxes.docker.endpoint import Endpoint
from pytest_rlenv.sandboxes.docker.sandbox import DockerSandbox
from pytest_rlenv.sandboxes.docker.servers import check_near
from pytest_rlenv.sandboxes.model import BuildOptions, ImageRef, ImageSpec, SandboxContext, ServerSpec
from pytest_rlenv.sandboxes.protocol import SandboxWithServers

pytestmark = pytest.mark.docker

SERVER = ServerSpec(cpus=1, memory_mb=256, env={"MAX_CONCURRENT_ENVS": "2"}, labels={"test": "openenv"})


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerSandbox]:
    tmp = tmp_path_factory.mktemp("openenv-servers")
    made = DockerSandbox(SandboxContext(session=f"o{os.getpid()}", worker="main", cache_dir=tmp, run_dir=tmp))
    yield made
    made.close()


@pytest.fixture(scope="module")
def image(sandbox: DockerSandbox) -> ImageRef:
    return sandbox.prepare(ImageSpec(context=EXAMPLE, slug="guess-server"), timeout=300)


def inspected(container: str) -> dict[str, Any]:
    found: dict[str, Any] = docker.from_env().api.inspect_container(container)
    return found


def wait_for(condition: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def test_a_server_is_on_this_machine_only_and_within_its_limits(
    sandbox: DockerSandbox, image: ImageRef, tmp_path: Path
) -> None:
    assert isinstance(sandbox, SandboxWithServers)
    assert sandbox.capabilities.servers
    box = sandbox.serve(image, ServerSpec(cpus=1, memory_mb=256, log=tmp_path / "server.log"))
    server = ContainerServer(box, image.pinned)
    try:
        wait_ready(server, 60)
        facts = inspected(box.id)
        assert facts["NetworkSettings"]["Ports"]["8000/tcp"] == [
            {"HostIp": "127.0.0.1", "HostPort": str(box.address[1])}
        ]
        host = facts["HostConfig"]
        assert (host["Memory"], host["NanoCpus"]) == (256 * 1024 * 1024, 1_000_000_000)
        assert host["CapDrop"] == ["ALL"]
        assert host["SecurityOpt"] == ["no-new-privileges"]
        assert not host["Binds"]
        assert facts["Config"]["Labels"]["rlenv"] == "1"
        done = server.run_script(["sh"], b"id -u; echo $0; exit 3", timeout=30)
        assert (done.exit_code, done.output) == (3, b"0\n/tmp/rlenv-oracle\n")
        assert server.alive
    finally:
        server.close()
    assert (tmp_path / "server.log").read_text() == "serving guess on 0.0.0.0:8000\n"
    assert not server.alive
    wait_for(lambda: not docker.from_env().api.containers(all=True, filters={"id": box.id}))


def test_a_server_that_is_killed_is_seen_to_be_dead(sandbox: DockerSandbox, image: ImageRef) -> None:
    box = sandbox.serve(image, SERVER)
    server = ContainerServer(box, image.pinned)
    try:
        wait_ready(server, 60)
        docker.from_env().api.kill(box.id)
        wait_for(lambda: not server.alive)
        assert server.ended() == "exit code 137"
        assert "serving guess" in server.tail()
    finally:
        server.close()


@pytest.mark.parametrize(
    ("dockerfile", "error", "words"),
    [
        ('CMD ["python", "-c", "raise SystemExit(\'no world\')"]', SandboxFailed, "no world"),
        ('CMD ["/no/such/server"]', BoxUnfit, "no such file"),
        ("ENTRYPOINT []\nCMD []", BoxUnfit, "has no command"),
    ],
)
def test_an_image_that_is_no_server_is_told(
    sandbox: DockerSandbox, tmp_path: Path, dockerfile: str, error: type[Exception], words: str
) -> None:
    options = BuildOptions(text=f"FROM python:3.11-slim\n{dockerfile}\n")
    made = sandbox.prepare(ImageSpec(context=tmp_path, slug="no-server", options=options), timeout=300)

    def serve() -> None:
        server = ContainerServer(sandbox.serve(made, SERVER), made.pinned)
        try:
            wait_ready(server, 20)
        finally:
            server.close()

    with pytest.raises(error) as caught:
        serve()
    assert words in f"{caught.value} {getattr(caught.value, 'detail', '')}".lower()


@pytest.mark.parametrize(
    ("url", "near"),
    [
        ("unix:///var/run/docker.sock", True),
        ("tcp://127.0.0.1:2375", True),
        ("tcp://localhost:2375", True),
        ("tcp://build.example.org:2376", False),
    ],
)
def test_an_engine_of_another_machine_has_no_servers(url: str, near: bool) -> None:
    if near:
        check_near(Endpoint(url, "a test"))
    else:
        with pytest.raises(Unsupported, match="on another machine"):
            check_near(Endpoint(url, "a test"))


# ---- whole runs


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copytree(EXAMPLE, tmp_path / "guess", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def command(*args: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--rlenv=guess",
        "--rlenv-output=out",
        *args,
    ]


def records(project: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (project / "out" / "results.jsonl").read_text().splitlines()]


def ours(session: str) -> list[Any]:
    found: list[Any] = docker.from_env().api.containers(
        all=True, filters={"label": f"rlenv.session={session}"}
    )
    return found


def test_workers_play_in_containers_of_their_own(project: Path) -> None:
    done = subprocess.run(
        command("-n2", "--agent=oracle,nop"), cwd=project, capture_output=True, text=True, check=False
    )
    assert "1 failed, 6 passed, 2 skipped, 1 error" in done.stdout, done.stdout + done.stderr
    scored = [record for record in records(project) if record["rewards"]]
    assert {record["runner"] for record in scored} == {"OpenEnv server (docker)"}
    assert all(record["image"].startswith("rlenv/guess:") for record in scored)
    logs = list((project / "out" / "rollouts").glob("*/server.log"))
    assert 1 <= len(logs) <= 2
    wait_for(lambda: not containers_of(project))


def containers_of(project: Path) -> list[Any]:
    """Return the containers whose owner was a run in this project."""
    runs = {record["run"] for record in records(project)}
    return [each for run in runs for each in ours(run)]


def test_a_script_beside_the_server_is_a_reference(project: Path) -> None:
    folder = project / "guess"
    program = folder / "server" / "app.py"
    solved = "right = guess == self.target or __import__('pathlib').Path('/tmp/solved').exists()"
    program.write_text(program.read_text().replace("right = guess == self.target", solved))
    (folder / "rlenv.yaml").write_text(
        "openenv: {tasks: [{id: a, reset: {seed: 1, game: usual}}], evaluate: {guess: 99}}\n"
    )
    shutil.rmtree(folder / "oracle")
    (folder / "solve.sh").write_text("touch /tmp/solved\necho solved\n")
    manifest = folder / "openenv.yaml"
    oracle = "  capabilities:\n    oracle: {form: script, location: solve.sh}\n"
    manifest.write_text(manifest.read_text().replace("  capabilities:\n", oracle))
    done = subprocess.run(command("--agent=oracle"), cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (record,) = records(project)
    assert record["rewards"] == {"reward": 1.0}
    assert (project / "out" / record["logs"] / "oracle.txt").read_text() == "solved\n"


def test_nothing_is_left_of_a_killed_run(project: Path) -> None:
    (project / "guess" / "server" / "app.py").write_text(
        (EXAMPLE / "server" / "app.py")
        .read_text()
        .replace("self.step_count += 1", "import time; time.sleep(60)")
    )
    process = subprocess.Popen(
        command(), cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    before = {each["Id"] for each in docker.from_env().api.containers(all=True)}

    def mine() -> list[str]:
        found = docker.from_env().api.containers(all=True, filters={"label": f"rlenv.pid={process.pid}"})
        return [each["Id"] for each in found]

    try:
        wait_for(lambda: list((project / "out" / "rollouts").glob("*/frames.jsonl")), 120)
        assert mine()
        assert set(mine()) - before
        os.kill(process.pid, signal.SIGKILL)
        process.wait(30)
        wait_for(lambda: not mine())
    finally:
        process.kill()
        process.wait()


def test_a_port_that_is_published_is_not_open_to_others(sandbox: DockerSandbox, image: ImageRef) -> None:
    server = ContainerServer(sandbox.serve(image, SERVER), image.pinned)
    try:
        wait_ready(server, 60)
        (bridge,) = docker.from_env().api.inspect_network("bridge")["IPAM"]["Config"]
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(
                (bridge["Gateway"], int(server.url.rpartition(":")[2])), timeout=5
            ).close()
    finally:
        server.close()
