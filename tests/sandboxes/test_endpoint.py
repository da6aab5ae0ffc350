from __future__ import annotations

import hashlib
import json
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_rlenv.errors import EngineUnavailable
from pytest_rlenv.sandboxes.docker import client
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.endpoint import DEFAULT_URL, Endpoint, TlsFiles, resolve_endpoint


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A docker configuration with the contexts ``remote`` and ``secure``."""
    add_context(tmp_path, "remote", "tcp://remote:2375")
    add_context(tmp_path, "secure", "tcp://secure:2376")
    certs = tmp_path / "contexts" / "tls" / digest("secure") / "docker"
    certs.mkdir(parents=True)
    for name in ("ca.pem", "cert.pem", "key.pem"):
        (certs / name).touch()
    return tmp_path


def digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def add_context(config: Path, name: str, host: str) -> None:
    folder = config / "contexts" / "meta" / digest(name)
    folder.mkdir(parents=True)
    (folder / "meta.json").write_text(json.dumps({"Name": name, "Endpoints": {"docker": {"Host": host}}}))


@pytest.mark.parametrize(
    ("environ", "current", "url", "source"),
    [
        ({}, None, DEFAULT_URL, "the default"),
        ({}, "default", DEFAULT_URL, "the default"),
        ({}, "remote", "tcp://remote:2375", "docker's current context 'remote'"),
        ({"DOCKER_CONTEXT": "remote"}, None, "tcp://remote:2375", "from DOCKER_CONTEXT=remote"),
        ({"DOCKER_CONTEXT": "default"}, "remote", DEFAULT_URL, "the default"),
        ({"DOCKER_CONTEXT": ""}, "remote", "tcp://remote:2375", "docker's current context 'remote'"),
        ({"DOCKER_HOST": "unix:///a"}, "remote", "unix:///a", "from DOCKER_HOST"),
        ({"DOCKER_HOST": "unix:///a", "DOCKER_CONTEXT": "no"}, None, "unix:///a", "from DOCKER_HOST"),
    ],
)
def test_order(environ: dict[str, str], current: str | None, url: str, source: str, config: Path) -> None:
    if current:
        (config / "config.json").write_text(json.dumps({"currentContext": current}))
    assert resolve_endpoint({"DOCKER_CONFIG": str(config), **environ}) == Endpoint(url, source)


@pytest.mark.parametrize("by_variable", [True, False])
def test_unknown_context_is_an_error(by_variable: bool, config: Path) -> None:
    environ = {"DOCKER_CONFIG": str(config)}
    if by_variable:
        environ["DOCKER_CONTEXT"] = "gone"
    else:
        (config / "config.json").write_text(json.dumps({"currentContext": "gone"}))
    with pytest.raises(EngineUnavailable, match="no docker context 'gone'") as caught:
        resolve_endpoint(environ)
    assert "docker context ls" in caught.value.hint


def test_broken_configuration_is_an_error(config: Path) -> None:
    (config / "config.json").write_text("{")
    with pytest.raises(EngineUnavailable, match=r"config\.json"):
        resolve_endpoint({"DOCKER_CONFIG": str(config)})


def test_context_brings_its_certificates(config: Path) -> None:
    endpoint = resolve_endpoint({"DOCKER_CONFIG": str(config), "DOCKER_CONTEXT": "secure"})
    certs = config / "contexts" / "tls" / digest("secure") / "docker"
    files = [str(certs / name) for name in ("ca.pem", "cert.pem", "key.pem")]
    assert endpoint.tls == TlsFiles(*files, verify=True)


def test_tls_by_variables(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").touch()
    environ = {"DOCKER_HOST": "tcp://h:2376", "DOCKER_CERT_PATH": str(tmp_path), "DOCKER_TLS_VERIFY": "1"}
    assert resolve_endpoint(environ).tls == TlsFiles(ca=str(tmp_path / "ca.pem"), verify=True)


def test_ssh_is_answered_with_a_tunnel() -> None:
    with pytest.raises(EngineUnavailable) as caught:
        resolve_endpoint({"DOCKER_HOST": "ssh://me@gpu1:2222"})
    assert "ssh -p 2222 -nNT -L" in caught.value.hint
    assert "me@gpu1 &" in caught.value.hint


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path, as a socket's path may have 107 bytes only."""
    with tempfile.TemporaryDirectory(prefix="rl-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def refusal(path: Path) -> EngineUnavailable:
    with pytest.raises(EngineUnavailable) as caught:
        Engine(Endpoint(f"unix://{path}", "from DOCKER_HOST"))
    assert f"unix://{path} (from DOCKER_HOST)" in caught.value.message
    return caught.value


def test_missing_socket(folder: Path) -> None:
    error = refusal(folder / "none.sock")
    assert "no such socket" in error.message
    assert "start it" in error.hint


def test_socket_without_a_listener(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "s"))
    error = refusal(folder / "s")
    assert "nothing listens" in error.message
    assert "systemctl start docker" in error.hint


def test_permission_denied(folder: Path) -> None:
    refusal(folder / "warm-up")  # imports what would not be readable below
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "s"))
        listener.listen()
        (folder / "s").chmod(0o000)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)
        try:
            error = refusal(folder / "s")
        finally:
            os.seteuid(user)
    assert "permission denied" in error.message
    assert "usermod -aG docker" in error.hint


def test_engine_that_hangs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CONNECT_TIMEOUT", 0.3)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "s"))
        listener.listen()
        error = refusal(folder / "s")
    assert "does not answer" in error.message
    assert "restart" in error.hint


def test_unknown_host() -> None:
    with pytest.raises(EngineUnavailable, match="does-not-exist"):
        Engine(Endpoint("tcp://does-not-exist.invalid:2375", "from DOCKER_HOST"))


def test_not_an_address() -> None:
    with pytest.raises(EngineUnavailable, match="gopher"):
        Engine(Endpoint("gopher://x", "from DOCKER_HOST"))
