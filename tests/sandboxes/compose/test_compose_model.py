"""From a Compose file to what is run: read by the real ``docker compose``, without an engine."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rlenv.errors import (
    BoxUnfit,
    DiskFull,
    SandboxFailed,
    StageTimeout,
    TaskInvalid,
    Unsupported,
    VariableMissing,
)
from pytest_rlenv.sandboxes.docker.compose import program as finder
from pytest_rlenv.sandboxes.docker.compose import project
from pytest_rlenv.sandboxes.docker.compose.command import Answer, at_engine
from pytest_rlenv.sandboxes.docker.compose.files import entries_below, take_files
from pytest_rlenv.sandboxes.docker.compose.images import image_specs
from pytest_rlenv.sandboxes.docker.compose.model import (
    KEEPER,
    Model,
    escaped,
    has_keeper,
    read_model,
    unescaped,
)
from pytest_rlenv.sandboxes.docker.compose.network import HOLDER, check_networks, published_ports
from pytest_rlenv.sandboxes.docker.compose.override import final_model
from pytest_rlenv.sandboxes.docker.compose.program import candidates, compose_program
from pytest_rlenv.sandboxes.docker.endpoint import Endpoint, TlsFiles
from pytest_rlenv.sandboxes.docker.networks import BoxNetwork
from pytest_rlenv.sandboxes.model import (
    ALLOWLIST,
    LEFT_OUT,
    NO_NETWORK,
    PUBLIC,
    BoxSpec,
    BuildOptions,
    ComposeSpec,
    ImageRef,
    ImageSpec,
)

ENV = {"PATH": os.environ["PATH"], "WORD": "a word", "PRICE": "5$"}
IMAGE = ImageSpec(name="agent:1")
Read = Callable[..., Model]


@pytest.fixture
def program() -> Path:
    return compose_program()


@pytest.fixture
def read(tmp_path: Path, program: Path) -> Read:
    """Read a Compose file, with other files beside it."""
    root = tmp_path / "task"
    (root / "environment").mkdir(parents=True)

    def read(text: str, image: ImageSpec = IMAGE, timeout: float | None = 30, **files: str) -> Model:
        for name, content in files.items():
            (root / "environment" / name).write_text(content)
        file = root / "environment" / "docker-compose.yaml"
        file.write_text(text)
        return read_model(program, ComposeSpec(file, root, ENV), image, tmp_path, timeout=timeout)

    return read


def final(model: Model, *, as_root: bool = True, **spec: Any) -> Model:
    images = {name: ImageRef(name, f"sha256:{name}") for name in model["services"]}
    box = BoxSpec(**spec)
    network = BoxNetwork(None, box, None)  # type: ignore[arg-type]  # no engine is asked for anything here
    labels = {"rlenv": "1"}
    return final_model(model, images, box, project="p", labels=labels, network=network, as_root=as_root)


@pytest.mark.parametrize(
    ("main", "spec", "shares"),
    [
        ("{}", {"network": PUBLIC}, "service:main"),
        ("{networks: [n]}", {"network": NO_NETWORK}, "service:main"),
        ("{}", {"network": NO_NETWORK}, "none"),
        ("{}", {"network": PUBLIC, "later_networks": frozenset({NO_NETWORK})}, "bridge"),
    ],
)
def test_a_listener_is_where_main_is(main: str, spec: dict[str, Any], shares: str, read: Read) -> None:
    text = f"services: {{main: {main}}}\nnetworks: {{n: }}"
    found = final(read(text), take_listener=lambda listener: listener.close(), **spec)
    assert found["services"][HOLDER]["network_mode"] == shares
    assert HOLDER not in final(read(text), network=PUBLIC)["services"]


def test_a_listener_that_main_could_not_reach_is_refused(read: Read) -> None:
    model = read("services: {main: {networks: [n]}, web: {image: x}}\nnetworks: {n: }")
    with pytest.raises(Unsupported, match="cannot call its model"):
        final(model, network=NO_NETWORK, take_listener=lambda listener: listener.close())


# ---- the program


def test_scripts_and_old_versions_are_passed_over(
    tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugins = tmp_path / "cli-plugins"
    plugins.mkdir()
    (plugins / "docker-compose").write_text("#!/bin/sh\necho 2.99.0\n")
    (plugins / "docker-compose").chmod(0o755)
    environ = {"DOCKER_CONFIG": str(tmp_path), "PATH": str(tmp_path)}
    assert next(candidates(environ)) == plugins / "docker-compose"
    assert compose_program(environ) != plugins / "docker-compose"
    (tmp_path / "config.json").write_text(json.dumps({"cliPluginsExtraDirs": [str(tmp_path / "extra")]}))
    (tmp_path / "extra").mkdir()
    (tmp_path / "extra" / "docker-compose").symlink_to(program)
    assert compose_program(environ | {"HOME": "/"}) == tmp_path / "extra" / "docker-compose"
    monkeypatch.setattr(finder, "NEEDED", (99, 0))
    with pytest.raises(Unsupported) as none:
        compose_program(environ | {"HOME": "/nowhere"})
    assert "is a script" in none.value.reason
    assert "older than 99.0" in none.value.reason
    assert "pip install 'pytest-rlenv[compose]'" in none.value.reason


def test_compose_is_sent_to_our_engine(tmp_path: Path) -> None:
    files = TlsFiles(ca="/c/ca.pem", cert="/c/cert.pem", key="/c/key.pem")
    user = {"DOCKER_HOST": "tcp://other:1", "DOCKER_CONTEXT": "x", "DOCKER_CONFIG": "/d", "A": "b"}
    found = at_engine(Endpoint("tcp://engine:2376", "here", files), tmp_path, user)
    certificates = Path(found.pop("DOCKER_CERT_PATH"))
    assert (certificates / "key.pem").readlink() == Path("/c/key.pem")
    assert found == {
        "DOCKER_HOST": "tcp://engine:2376",
        "DOCKER_TLS_VERIFY": "1",
        "DOCKER_CONFIG": "/d",
        "A": "b",
    }


# ---- reading


def test_the_file_wins_over_what_makes_a_box(read: Read) -> None:
    plain = read("services: {db: {image: b}}")["services"]
    assert (plain["main"]["image"], plain["main"]["command"]) == ("agent:1", list(KEEPER))
    assert has_keeper(plain["main"])
    own = read("services: {main: {image: own, command: [serve, $$x]}}")["services"]["main"]
    assert (own["image"], own["command"], has_keeper(own)) == ("own", ["serve", "$x"], False)
    entered = read("services: {main: {entrypoint: [/enter]}}")["services"]["main"]
    assert (entered["entrypoint"], has_keeper(entered)) == (["/enter"], True)


def test_variables_come_from_the_task_and_its_dotenv(read: Read) -> None:
    text = "services: {main: {environment: {A: '${WORD}', B: '${MORE:-none}', C: 'a$$b${PRICE}', D: $DOT}}}"
    found = read(text, **{".env": "DOT=dotted"})["services"]["main"]["environment"]
    assert found == {"A": "a word", "B": "none", "C": "a$b5$", "D": "dotted"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("services: {db: {imag: x}}", r"imag\b"),
        ("services: {db: {image: x, depends_on: [nobody]}}", "nobody"),
        ("services: {db: {image: x, env_file: not-there.env}}", "not-there.env"),
        ("services: {main: {mem_limit: lots}}", "lots"),
    ],
)
def test_what_compose_refuses_is_the_tasks_fault(text: str, words: str, read: Read) -> None:
    with pytest.raises(TaskInvalid, match=words) as refused:
        read(text)
    assert refused.value.message.startswith("environment/docker-compose.yaml: docker compose refuses it: ")


def test_reading_has_a_limit(read: Read) -> None:
    with pytest.raises(StageTimeout):
        read("services: {}", timeout=0.0)


@given(st.text("a$ {}", max_size=9))
def test_escaping_changes_nothing(text: str) -> None:
    value = {"a": [text, 1, None], "b": {text: text}}
    assert unescaped(escaped(value)) == value


# ---- images


def test_images_are_named_or_built(read: Read, tmp_path: Path) -> None:
    root = tmp_path / "task" / "environment"
    (tmp_path / "task" / "other").write_text("FROM x")
    text = """
services:
  main: {image: shared-name}
  twin: {image: shared-name}
  far: {image: registry/x:1}
  args: {build: {context: sub, dockerfile: D, target: t, args: [WORD, NOT_SET, A=b]}}
  inline: {build: {dockerfile_inline: FROM y}}
  outside: {build: {context: ., dockerfile: ../other}}
"""
    specs = image_specs(read(text, ImageSpec(context=root)), "slug", ENV)
    assert specs == {
        "main": ImageSpec(context=root, slug="slug"),
        "twin": ImageSpec(context=root, slug="slug"),
        "far": ImageSpec(name="registry/x:1"),
        "args": ImageSpec(
            context=root / "sub",
            slug="slug-args",
            options=BuildOptions(dockerfile="D", target="t", args=(("A", "b"), ("WORD", "a word"))),
        ),
        "inline": ImageSpec(context=root, slug="slug-inline", options=BuildOptions(text="FROM y")),
        "outside": ImageSpec(context=root, slug="slug-outside", options=BuildOptions(text="FROM x")),
    }


# ---- files


def test_mounts_of_the_task_become_files_and_shared_volumes(read: Read, tmp_path: Path) -> None:
    root = tmp_path / "task"
    (root / "environment" / "data" / "sub").mkdir(parents=True)
    (root / "environment" / "data" / "sub" / "x").write_text("x")
    (root / "environment" / "data" / "link").symlink_to("/etc/passwd")
    text = f"""
services:
  main: {{volumes: ['./data:/d', '{LEFT_OUT}/agent:/logs/agent', 'named:/n', '/outside:/o']}}
  db:
    image: b
    volumes: ['./data:/e:ro', './run:/bin/run', './not-there:/f']
    secrets: [pass, {{source: word, target: /etc/word, mode: 0400, uid: '7'}}]
    configs: [text]
volumes: {{named: {{}}}}
secrets: {{pass: {{file: ./run}}, word: {{environment: WORD}}}}
configs: {{text: {{content: 'hi ${{WORD}}'}}}}
"""
    model = read(text, run="#!/bin/sh")
    files = take_files(model, root, ENV)
    data, missing = files.volumes
    assert files.volumes[data] == root / "environment" / "data"
    assert list(entries_below(files.volumes[missing])) == []
    mounts = {
        (m["type"], m["source"], m["target"], m.get("read_only", False))
        for m in model["services"]["main"]["volumes"]
    }
    assert mounts == {
        ("volume", data, "/d", False),
        ("volume", "named", "/n", False),
        ("bind", "/outside", "/o", False),
    }
    beside = [
        (m["source"], m["target"], m.get("read_only", False)) for m in model["services"]["db"]["volumes"]
    ]
    assert beside == [(data, "/e", True), (missing, "/f", False)]
    assert set(model["volumes"]) == {"named", data, missing}
    put = {
        e.path: (e.content or (e.source and e.source.read_bytes()), e.mode, e.uid)
        for e in files.entries["db"]
    }
    assert put == {
        "/bin/run": (b"#!/bin/sh", 0o755, 0),
        "/run/secrets/pass": (b"#!/bin/sh", 0o444, 0),
        "/etc/word": (b"a word", 0o400, 7),
        "/text": (b"hi a word", 0o444, 0),
    }
    below = {entry.path: entry for entry in entries_below(root / "environment" / "data")}
    assert below["link"].link == "/etc/passwd"
    assert set(below) == {"sub", "sub/x", "link"}


def test_a_secret_without_a_value_names_its_variable(read: Read, tmp_path: Path) -> None:
    model = read("services: {main: {secrets: [s]}}\nsecrets: {s: {environment: NO_SUCH}}")
    with pytest.raises(VariableMissing, match=r"secrets\.s: variable NO_SUCH is not set"):
        take_files(model, tmp_path, ENV)


# ---- what is run

TWO = """
services:
  main:
    container_name: fixed-main
    environment: {A: file, C: file}
    init: true
    depends_on: [db]
  db:
    image: b
    container_name: fixed-db
    hostname: host-db
    ports: ['80:80', '9090']
    restart: always
    logging: {driver: syslog}
    cap_drop: [CHOWN]
    pids_limit: 10
    labels: {rlenv: '0', mine: $$x}
    volumes: [vol:/v]
volumes: {vol: {name: fixed}}
networks:
  default:
    name: fixed
    driver_opts: {com.docker.network.bridge.name: br9}
    ipam: {config: [{subnet: 10.9.0.0/24}]}
"""


def test_fixed_names_limits_and_labels_are_ours(read: Read) -> None:
    found = final(read(TWO), env={"A": "task", "B": "5$"}, memory_mb=64, cpus=0.5)
    main, db = found["services"]["main"], found["services"]["db"]
    assert main["environment"] == {"A": "task", "B": "5$$", "C": "file"}
    assert (main["cpus"], main["mem_limit"], main["memswap_limit"]) == (0.5, "64m", "64m")
    assert (main["image"], main["pull_policy"], main["init"]) == ("sha256:main", "never", False)
    assert "rlenv-keeper" in main["command"]
    assert db["labels"] == {"rlenv": "1", "mine": "$$x"}
    assert db["logging"]["driver"] == "json-file"
    assert (db["cap_drop"], "CHOWN" in db["cap_add"], "SETUID" in db["cap_add"]) == (["ALL"], False, True)
    assert (db["pids_limit"], db["security_opt"], db["ipc"]) == (10, ["no-new-privileges"], "private")
    assert (db["restart"], db["hostname"]) == ("always", "host-db")
    assert not {"container_name", "ports"} & (main.keys() | db.keys())
    assert db["networks"] == {"default": {"aliases": ["fixed-db"]}}
    assert found["networks"] == {"default": {"name": "p_default", "labels": {"rlenv": "1"}}}
    assert found["volumes"] == {"vol": {"name": "p_vol", "labels": {"rlenv": "1"}}}
    assert HOLDER not in found["services"]


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("[]", ["no-new-privileges"]),
        ("['no-new-privileges:true', 'label:disable']", ["no-new-privileges", "label:disable"]),
        ("['no-new-privileges=false', 'seccomp:unconfined']", ["seccomp:unconfined"]),
    ],
)
def test_security_options_that_were_allowed_hold(asked: str, given: list[str], read: Read) -> None:
    found = final(read(f"services: {{db: {{image: b, security_opt: {asked}}}}}"))
    assert found["services"]["db"]["security_opt"] == given


@pytest.mark.parametrize(
    ("user", "as_root", "given"),
    [
        ("", True, ["no-new-privileges"]),
        ("", False, []),
        ("dev", True, []),
        ("1000:0", True, []),
        ("root", False, ["no-new-privileges"]),
        ("'0:0'", False, ["no-new-privileges"]),
    ],
)
def test_root_keeps_its_capabilities_where_main_is_another_user(
    user: str, as_root: bool, given: list[str], read: Read
) -> None:
    """With no new privileges, a verifier that is root could not read what a user keeps to itself."""
    asked = f"user: {user}" if user else ""
    model = read(f"services: {{main: {{image: m, {asked}}}, db: {{image: b, user: dev}}}}")
    services = final(model, as_root=as_root)["services"]
    assert services["main"]["security_opt"] == given
    assert services["db"]["security_opt"] == ["no-new-privileges"]


def test_the_files_own_limits_and_command_win(read: Read) -> None:
    limits = "{resources: {limits: {memory: 9M, cpus: '2', pids: 7}}}"
    text = f"services: {{main: {{command: [serve], init: true, deploy: {limits}}}}}"
    main = final(read(text), memory_mb=64, cpus=0.5)["services"]["main"]
    assert (main["command"], main["init"]) == (["serve"], True)
    assert not {"mem_limit", "cpus", "pids_limit"} & main.keys()


def test_without_a_network_all_share_one_namespace_and_know_their_names(read: Read) -> None:
    found = final(read(TWO), network=NO_NETWORK)
    holder = found["services"][HOLDER]
    assert (holder["network_mode"], holder["cap_add"], holder["volumes"]) == ("none", [], [])
    assert holder["extra_hosts"] == dict.fromkeys(
        ("main", "fixed-main", "db", "host-db", "fixed-db"), "127.0.0.1"
    )
    for name in ("main", "db"):
        service = found["services"][name]
        assert service["network_mode"] == f"service:{HOLDER}"
        assert not {"networks", "hostname", "ports"} & service.keys()
    assert found["networks"] == {}


OWN = """
services:
  main: {networks: [back], links: ['db:store'], extra_hosts: ['x:1.2.3.4']}
  db: {image: b, networks: {back: {ipv4_address: 10.9.0.7}}}
  free: {image: b}
networks: {back: {ipam: {config: [{subnet: 10.9.0.0/24}]}}, default: {internal: true}}
"""


def test_networks_of_its_own_are_kept_and_cut_off(read: Read) -> None:
    public = final(read(OWN))
    assert public["networks"]["back"]["ipam"]["config"] == [{"subnet": "10.9.0.0/24"}]
    assert "internal" not in public["networks"]["back"]
    assert public["networks"]["default"]["internal"] is True
    cut_off = final(read(OWN), network=NO_NETWORK)
    back = cut_off["networks"]["back"]
    assert back["internal"] is True
    assert back["driver_opts"] == {"com.docker.network.bridge.inhibit_ipv4": "true"}
    assert cut_off["services"]["main"]["dns"] == ["127.0.0.1"]
    assert cut_off["services"]["free"]["network_mode"] == f"service:{HOLDER}"


@pytest.mark.parametrize(
    ("spec", "refused"),
    [
        (BoxSpec(network=PUBLIC), False),
        (BoxSpec(network=NO_NETWORK), False),
        (BoxSpec(network=ALLOWLIST), True),
        (BoxSpec(network=PUBLIC, later_networks=frozenset({NO_NETWORK})), True),
    ],
)
def test_networks_of_its_own_are_not_held_to_what_changes(spec: BoxSpec, refused: bool, read: Read) -> None:
    check_networks(read(TWO), spec)
    model = read(OWN)
    if not refused:
        check_networks(model, spec)
        return
    with pytest.raises(Unsupported, match=r"services\.db\.networks"):
        check_networks(model, spec)


@pytest.mark.parametrize(
    ("service", "kept"),
    [
        ("network_mode: bridge", f"service:{HOLDER}"),
        ("network_mode: none", "none"),
        ("network_mode: 'service:main'", "service:main"),
        ("network_mode: host", None),
        ("networks: [out]", None),
    ],
)
def test_no_service_keeps_a_way_out(service: str, kept: str | None, read: Read) -> None:
    """Also where what is unsafe is allowed: an allowed field is no way round the task's network mode."""
    model = read(f"services: {{db: {{image: b, {service}}}}}\nnetworks: {{out: {{external: true}}}}")
    if kept is None:
        with pytest.raises(Unsupported, match="cannot be held to no-network"):
            check_networks(model, BoxSpec(network=NO_NETWORK))
        check_networks(model, BoxSpec(network=PUBLIC))
        return
    check_networks(model, BoxSpec(network=NO_NETWORK))
    assert final(model, network=NO_NETWORK)["services"]["db"]["network_mode"] == kept


def test_ports_that_are_not_given_are_told(read: Read) -> None:
    assert list(published_ports(read(TWO))) == ["services.db.ports"]


def test_compose_reads_what_is_written_as_it_is_meant(read: Read, program: Path, tmp_path: Path) -> None:
    text = "services: {main: {environment: {A: 'x$$y $${PRICE} $$$$'}, command: [echo, $$PRICE]}}"
    file = tmp_path / "final.json"
    file.write_text(json.dumps(final(read(text), env={"B": "$PRICE"})))
    shown = subprocess.run(
        [program, "-f", file, "config", "--format", "json"], env=ENV, capture_output=True, check=True
    )
    main = unescaped(json.loads(shown.stdout))["services"]["main"]
    assert main["environment"] == {"A": "x$y ${PRICE} $$", "B": "$PRICE"}
    assert main["command"] == ["echo", "$PRICE"]


# ---- creating


@pytest.mark.parametrize(
    ("exit_code", "stderr", "error", "words"),
    [
        (
            1,
            "failed: could not find an available, non-overlapping IPv4 address pool",
            SandboxFailed,
            "at once",
        ),
        (1, "first line\nError response from daemon: bad parameter", SandboxFailed, "bad parameter"),
        (1, "Error response from daemon: invalid mount config for type", BoxUnfit, "invalid mount"),
        (1, "write /x: no space left on device", DiskFull, "no space left"),
        (None, "", StageTimeout, "time limit"),
        (0, "main: no support for memory limits. Limitation discarded.", Unsupported, "discarded"),
    ],
)
def test_what_becomes_of_a_creation_that_fails(
    exit_code: int | None,
    stderr: str,
    error: type[Exception],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []

    def run(*args: Any, **kwargs: Any) -> Answer:
        calls.append("run")
        return Answer(exit_code, "", stderr)

    monkeypatch.setattr(project, "run_compose", run)
    monkeypatch.setattr(project, "remove_project", lambda *_: calls.append("remove"))
    monkeypatch.setattr(project, "_PAUSE", 0.01)
    engine: Any = SimpleNamespace(endpoint=Endpoint("unix:///x", "test"))
    with pytest.raises(error) as failed:
        project.create_project(
            engine, tmp_path, {"name": "p"}, BoxSpec(memory_mb=9), tmp_path, deadline=time.monotonic() + 0.1
        )
    assert words in str(failed.value) + getattr(failed.value, "hint", "")
    assert (calls.count("remove") > 0) == ("address pool" in stderr)
