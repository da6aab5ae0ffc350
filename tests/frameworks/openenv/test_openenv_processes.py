"""Servers that are processes of this machine: how they start, fail, die, and that nothing is left of them."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import closing
from pathlib import Path

import pytest
from support import openenv as support
from support.openenv import write_environment

from pytest_rlenv.errors import SandboxFailed, SpecError, Unsupported
from pytest_rlenv.frameworks.openenv import launch
from pytest_rlenv.frameworks.openenv.launch import Launch, check_launcher
from pytest_rlenv.frameworks.openenv.manifest import Manifest, read_manifest
from pytest_rlenv.frameworks.openenv.process_server import reserved_port
from pytest_rlenv.frameworks.openenv.routes import Routes
from pytest_rlenv.options import Value
from pytest_rlenv.settings import Settings, load_settings

PROGRAM = Path(support.__file__)


def settings(command: str = "", **more: object) -> Settings:
    given = {"openenv_launcher": "process", "trust_code": True, **more}
    if command:
        given["openenv_command"] = f"{{python}} -S {PROGRAM} --port {{port}} {command}"
    return load_settings({name: Value(value, f"--rlenv-{name}") for name, value in given.items()})


def launching(tmp: Path, command: str = "", **environ: str) -> Launch:
    folder = write_environment(tmp / "env")
    path = {"PATH": os.environ["PATH"]}
    return Launch(settings(command or " "), Manifest(), folder, tmp, {**path, **environ})


def test_a_server_is_started_and_ended(tmp_path: Path) -> None:
    with closing(launching(tmp_path).start()) as server:
        assert (server.alive, server.words) == (True, "process")
        with closing(Routes(server)) as routes:
            assert "action" in routes.schema()
    assert server.ended() == "exit code 137"
    assert not server.alive
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])))


def test_a_server_that_ends_at_once_shows_why(tmp_path: Path) -> None:
    with pytest.raises(SandboxFailed) as caught:
        launching(tmp_path, "--fail 'no module named world'").start()
    assert "ended before it was ready (exit code 3)" in caught.value.message
    assert "no module named world" in caught.value.detail


def test_what_a_server_prints_is_kept_at_both_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "LOG_BYTES", 2000)
    with pytest.raises(SandboxFailed) as caught:
        launching(tmp_path, f"--fail first{'x' * 9000}last").start()
    log = (tmp_path / launch.LOG).read_text()
    assert log.startswith("first")
    assert "bytes left out" in log
    assert caught.value.detail.endswith("last\n")
    assert len(log) < 3100


def test_another_port_is_tried_where_one_is_taken(tmp_path: Path) -> None:
    mark = tmp_path / "starts"
    with pytest.raises(SandboxFailed) as caught:
        launching(tmp_path, f"--mark {mark} --fail '[Errno 98] Address already in use'").start()
    ports = [line.split()[1] for line in mark.read_text().splitlines()]
    assert (len(ports), len(set(ports))) == (launch.TRIES, launch.TRIES)
    assert "already in use" in caught.value.detail


def test_a_reserved_port_is_given_to_nobody_else_and_can_be_listened_on() -> None:
    with reserved_port() as port:
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        with socket.create_server(("127.0.0.1", port)):  # as servers do, with SO_REUSEADDR
            socket.create_connection(("127.0.0.1", port)).close()


def test_a_program_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    one = Launch(settings(openenv_command="/no/such/program {port}"), Manifest(), tmp_path, tmp_path)
    with pytest.raises(SandboxFailed) as caught:
        one.start()
    assert "/no/such/program" in caught.value.detail + caught.value.message


def test_the_server_sees_none_of_the_callers_secrets(tmp_path: Path) -> None:
    show = tmp_path / "show.py"
    show.write_text("import os, sys; print(sorted(os.environ)); sys.exit(3)")
    one = Launch(
        settings(openenv_command=f"{{python}} -S {show} {{port}}"),
        Manifest(),
        tmp_path,
        tmp_path,
        {
            "PATH": os.environ["PATH"],
            "OPENAI_API_KEY": "sk-secret",
            "HF_TOKEN": "hf_secret",
            "UV_PUBLISH_TOKEN": "pypi-secret",
            "UV_INDEX_OURS_PASSWORD": "secret",
            "UV_INDEX_URL": "https://me:secret@index.example/simple",
            "UV_OFFLINE": "1",
            "SSH_AUTH_SOCK": "/tmp/agent",
        },
    )
    with pytest.raises(SandboxFailed) as caught:
        one.start()
    assert "PORT" in caught.value.detail
    assert "KEY" not in caught.value.detail
    assert "UV_OFFLINE" in caught.value.detail
    for word in ("TOKEN", "PASSWORD", "INDEX", "SSH"):
        assert word not in caught.value.detail


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"trust_code": False}, "runs the environment's code outside of a container"),
        ({"openenv_launcher": "url"}, "which is not said"),
        ({"openenv_launcher": "docker", "openenv_python": "python"}, "-python means nothing to --rlenv"),
        ({"openenv_url": "http://127.0.0.1:1"}, "means nothing to --rlenv-openenv-launcher process"),
        ({"openenv_command": "serve 'it {port}"}, "is no command line: No closing quotation"),
        ({"openenv_url": "http://127.0.0.1:1?key=x"}, "is not an address alone"),
    ],
)
def test_options_that_make_no_sense_are_told(options: dict[str, object], words: str) -> None:
    with pytest.raises(SpecError) as caught:
        check_launcher(settings(**options))
    assert words in caught.value.message


def test_uv_is_missed_where_no_interpreter_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SpecError, match="no `uv` is here"):
        check_launcher(settings())
    check_launcher(settings(openenv_python=sys.executable))


def test_uvicorn_serves_the_app_of_the_manifest(tmp_path: Path) -> None:
    serve = ["own.server:app", "--host", "127.0.0.1", "--port", "7"]
    manifest = Manifest(app="own.server:app")
    named = Launch(settings(openenv_python="/venv/bin/python"), manifest, tmp_path, tmp_path)
    assert named._command(7) == ["/venv/bin/python", "-m", "uvicorn", *serve]
    by_uv = Launch(settings(), manifest, tmp_path, tmp_path)
    assert by_uv._command(7) == [
        "uv",
        "run",
        "--isolated",
        "--project",
        str(tmp_path),
        "--",
        "uvicorn",
        *serve,
    ]


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ("validation: {resources: {gpus: 1}}", "1 GPUs"),
        ("validation: {network: {mode: no-network}}", "network.mode is 'no-network'"),
        ("validation: {execution: {requires_credentials: true}}", "no keys are passed on"),
        ("name: odd", "runs in a container, and no sandbox has none"),
    ],
)
def test_what_an_environment_needs_and_is_not_there_is_a_skip(
    tmp_path: Path, manifest: str, words: str
) -> None:
    folder = write_environment(tmp_path / "env", manifest)
    one = Launch(load_settings({}), read_manifest(folder, "openenv.yaml"), folder, tmp_path)
    with pytest.raises(Unsupported) as caught:
        one.check()
    assert words in caught.value.reason


@pytest.mark.parametrize(
    ("files", "manifest", "options"),
    [
        (["Dockerfile"], "", {}),
        (["server/Dockerfile"], "", {"dockerfile": "server/Dockerfile"}),
        (["docker/Own"], "validation: {execution: {dockerfile: docker/Own}}", {"dockerfile": "docker/Own"}),
        (
            ["docker/Own"],
            "validation: {execution: {dockerfile: docker/Own, context: docker}}",
            {"dockerfile": "Own"},
        ),
    ],
)
def test_the_image_is_built_from_the_environments_dockerfile(
    tmp_path: Path, files: list[str], manifest: str, options: dict[str, str]
) -> None:
    folder = write_environment(tmp_path / "env", f"name: odd\n{manifest}\n")
    for file in files:
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text("FROM scratch\n")
    one = Launch(load_settings({}), read_manifest(folder, "openenv.yaml"), folder, tmp_path)
    image = one.image()
    assert {key: getattr(image.options, key) for key in options} == options
    assert image.slug == "odd"


def test_without_an_image_there_is_nothing_to_start(tmp_path: Path) -> None:
    one = Launch(load_settings({}), Manifest(), tmp_path, tmp_path)
    with pytest.raises(Unsupported, match="no Dockerfile or server/Dockerfile"):
        one.image()
