from __future__ import annotations

import platform
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pytest_rlenv.errors import TaskInvalid
from pytest_rlenv.frameworks.terminal_bench.client_limits import Limits
from pytest_rlenv.frameworks.terminal_bench.compose_file import Client, read_client
from pytest_rlenv.frameworks.terminal_bench.interpolation import interpolate
from pytest_rlenv.sandboxes.model import BuildOptions

USUAL = """\
services:
  client:
    build:
      dockerfile: Dockerfile
    image: ${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}
    container_name: ${T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME}
    command: [ "sh", "-c", "sleep infinity" ]
    environment:
      - TEST_DIR=${T_BENCH_TEST_DIR}
    volumes:
      - ${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}
      - ${T_BENCH_TASK_AGENT_LOGS_PATH}:${T_BENCH_CONTAINER_AGENT_LOGS_PATH}
"""
PLAIN = "services: {client: {build: ., %s}}"


def read(root: Path, text: str, *, dockerfile: str = "Dockerfile") -> Client:
    (root / dockerfile).parent.mkdir(parents=True, exist_ok=True)
    (root / dockerfile).write_text("FROM scratch\n")
    (root / "docker-compose.yaml").write_text(text)
    return read_client(root.resolve())


def test_the_usual_file_is_a_plain_container(tmp_path: Path) -> None:
    client = read(tmp_path, USUAL)
    assert client == Client(
        tmp_path.resolve(), BuildOptions(), None, {"TEST_DIR": "${T_BENCH_TEST_DIR}"}, limits=Limits()
    )


def test_without_the_file_it_is_one_too(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").touch()
    client = read_client(tmp_path.resolve())
    assert client.env == {"TEST_DIR": "/tests"}
    assert client.warnings == ("docker-compose.yaml: not found, which Terminal-Bench 1 refuses",)


@pytest.mark.parametrize(
    ("more", "field", "value"),
    [
        ("working_dir: /srv", "workdir", "/srv"),
        ("working_dir: '${T_BENCH_TEST_DIR}/x'", "workdir", "/tests/x"),
        ("user: agent", "user", "agent"),
        ("user: 1000", "user", "1000"),
        ("network_mode: none", "network", False),
        ("network_mode: bridge", "network", True),
        ("cpus: 1.5", "limits", Limits(1.5)),
        ("cpus: '2'", "limits", Limits(2.0)),
        ("mem_limit: 2g", "limits", Limits(None, 2048)),
        ("mem_limit: 512MB", "limits", Limits(None, 512)),
        ("mem_limit: 1000000", "limits", Limits(None, 1)),
        ("deploy: {resources: {limits: {cpus: '0.5', memory: 1G}}}", "limits", Limits(0.5, 1024)),
        ("environment: {A: 1, B: true, C: null}", "env", {"A": "1", "B": "true", "C": None}),
        ("environment: {D: 1.5}", "env", {"D": "1.5"}),
        ("environment: [A=b=c, B]", "env", {"A": "b=c", "B": None}),
        ("environment: {TEST_DIR: /elsewhere}", "env", {"TEST_DIR": "/elsewhere"}),
        ("command: sleep infinity", "more", ()),
        ("command: /bin/bash -c 'tail -f /dev/null'", "more", ()),
        ("tty: true, stdin_open: true, init: true, x-mine: 3, expose: ['80'], restart: 'no'", "more", ()),
        ("volumes: []", "more", ()),
    ],
)
def test_what_is_taken_over(more: str, field: str, value: object, tmp_path: Path) -> None:
    client = read(tmp_path, PLAIN % more)
    found = getattr(client, field)
    assert found == ({"TEST_DIR": "/tests", **value} if isinstance(value, dict) else value)
    assert client.more == ()


@pytest.mark.parametrize(
    ("more", "phrase"),
    [
        ("privileged: true", "services.client.privileged = True"),
        ("cap_add: [NET_ADMIN]", "services.client.cap_add = a list"),
        ("entrypoint: /start.sh", "services.client.entrypoint = /start.sh"),
        ("command: ./serve", "services.client.command = ./serve"),
        ("command: [sh, -c, 'service ssh start; sleep infinity']", "services.client.command = a list"),
        ("network_mode: host", "services.client.network_mode = host"),
        ("mem_limit: much", "services.client.mem_limit = much"),
        ("cpus: -1", "services.client.cpus = -1"),
        ("deploy: {replicas: 2}", "services.client.deploy = a mapping"),
        ("deploy: {resources: {limits: {cpus: 1}, reservations: {}}}", "services.client.deploy = a mapping"),
        ("volumes: ['./data:/data']", "services.client.volumes = a list"),
        ("volumes: [{type: bind}]", "services.client.volumes = a list"),
        ("platform: linux/s390x", "services.client.platform = linux/s390x"),
        ("user: '${NOBODY}'", "services.client.user with the variable NOBODY"),
    ],
)
def test_what_is_for_docker_compose(more: str, phrase: str, tmp_path: Path) -> None:
    client = read(tmp_path, PLAIN % more)
    assert client.more == (phrase,)
    assert client == Client(tmp_path.resolve(), env={"TEST_DIR": "/tests"}, more=(phrase,))


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        (f"{USUAL}  db: {{image: postgres}}\n  web: {{}}\n", "services beside the client (db, web)"),
        (f"{USUAL}networks: {{inner: {{}}}}\n", "networks"),
        (f"{USUAL}include: [other.yaml]\n", "include"),
        (
            "services: {client: {build: {context: ..}}}",
            "services.client.build.context = ..",
        ),
        ("services: {client: {build: {context: ., network: host}}}", "services.client.build.network"),
        (
            "services: {client: {build: {context: ., args: [A]}}}",
            "services.client.build.args.A without a value",
        ),
    ],
)
def test_what_reaches_beyond_the_client(text: str, phrase: str, tmp_path: Path) -> None:
    assert read(tmp_path, text).more == (phrase,)


def test_ports_are_a_warning(tmp_path: Path) -> None:
    client = read(tmp_path, PLAIN % "ports: ['8000:8000']")
    assert client.more == ()
    assert "services.client.ports: not published" in client.warnings[0]


def test_an_empty_section_and_a_version_mean_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, f"version: '3'\nname: x\nvolumes: {{}}\nx-y: 1\n{USUAL}").more == ()


def test_the_machines_own_platform_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert read(tmp_path, PLAIN % "platform: linux/amd64").more == ()
    assert read(tmp_path, PLAIN % "platform: linux/arm64").more != ()


@pytest.mark.parametrize(
    ("build", "folder", "options"),
    [
        ("client", "client", BuildOptions()),
        ("{context: ./client, dockerfile: Dockerfile}", "client", BuildOptions()),
        ("{dockerfile: other/File}", "", BuildOptions("other/File")),
        ("{args: {B: 1, A: '${T_BENCH_TEST_DIR}'}}", "", BuildOptions(args=(("A", "/tests"), ("B", "1")))),
        ("{args: [A=x], target: last}", "", BuildOptions(args=(("A", "x"),), target="last")),
    ],
)
def test_how_the_image_is_built(build: str, folder: str, options: BuildOptions, tmp_path: Path) -> None:
    dockerfile = f"{folder}/{options.dockerfile or 'Dockerfile'}".lstrip("/")
    client = read(tmp_path, f"services: {{client: {{build: {build}}}}}", dockerfile=dockerfile)
    assert (client.context, client.options) == ((tmp_path / folder).resolve(), options)
    assert client.more == ()


def test_a_prebuilt_image(tmp_path: Path) -> None:
    assert read(tmp_path, "services: {client: {image: 'debian:12'}}").image == "debian:12"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file is nothing, not a mapping"),
        ("services: []", "services is a list, not a mapping"),
        ("services: {main: {}}", "no service `client` (it has main)"),
        ("services: {client: x}", "services.client is x, not a mapping"),
        ("services: {client: {}}", "services.client has neither `build` nor `image`"),
        (
            "services: {client: {image: '${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}'}}",
            "services.client has no `build`, so nothing makes its image",
        ),
        (PLAIN % "environment: A=b", "services.client.environment is neither a list of NAME=value"),
        (PLAIN % "environment: {A: [1]}", "services.client.environment.A is not the text of a variable"),
        (PLAIN % "environment: ['=x']", "services.client.environment.'' is not the text of a variable"),
        (PLAIN % "working_dir: [a]", "services.client.working_dir is a list, not a text"),
        (PLAIN % "working_dir: '/$'", "services.client.working_dir: '/$' has a $ that begins no variable"),
        ("services: {client: {build: 3}}", "services.client.build is 3, not a mapping"),
        ("services: {client: {build: sub}}", "sub/Dockerfile: not found"),
        ("a: [", "not valid YAML"),
    ],
)
def test_what_is_wrong_is_told(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(TaskInvalid) as caught:
        read(tmp_path, text)
    assert words in caught.value.message


KNOWN = {"A": "1", "EMPTY": "", "LONG_NAME_2": "two"}


@pytest.mark.parametrize(
    ("text", "filled", "missing"),
    [
        ("plain", "plain", []),
        ("$A-${A}-$LONG_NAME_2.", "1-1-two.", []),
        ("$$A $${A}", "$A ${A}", []),
        ("${B}x$B", "x", ["B", "B"]),
        ("${B:-d e}${B-d}${EMPTY:-d}${EMPTY-d}", "d eddd".replace("ddd", "dd"), []),
        ("${A:+yes}${EMPTY:+yes}${EMPTY+set}${B+yes}", "yesset", []),
        ("${A:?why}${EMPTY:?why}${B?why}", "1", ["EMPTY", "B"]),
        ("${EMPTY}", "", []),
    ],
)
def test_variables_are_filled_in_as_compose_does(text: str, filled: str, missing: list[str]) -> None:
    lacking: list[str] = []
    assert interpolate(text, KNOWN, lacking) == filled
    assert lacking == missing


@pytest.mark.parametrize("text", ["$", "a $1", "${", "${}", "${A", "${A:x}", "${B:-${A}}"])
def test_a_dollar_that_begins_nothing_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="begins no variable"):
        interpolate(text, KNOWN, [])


@given(st.text(alphabet="${}:-?+AB_1 \n"))
def test_any_text_is_filled_in_or_refused(text: str) -> None:
    try:
        filled = interpolate(text, {}, [])
    except ValueError:
        assert "$" in text
    else:
        assert len(filled) <= len(text)


LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5))
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | LEAVES, inner, max_size=3)
    ),
    max_leaves=5,
)
KEYS = st.sampled_from(
    [
        *("build", "image", "command", "environment", "volumes", "working_dir", "user", "network_mode"),
        *("cpus", "mem_limit", "deploy", "ports", "platform", "entrypoint", "tty"),
    ]
)


@example({"build": {}}, {"": 1})
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(KEYS, VALUES, max_size=4), st.dictionaries(st.text(max_size=4), VALUES, max_size=2))
def test_any_service_is_read_or_refused(
    tmp_path: Path, service: dict[str, object], more: dict[str, object]
) -> None:
    lines = told(tmp_path, str(yaml.safe_dump({**more, "services": {"client": service}})))
    assert all(line.isprintable() and line for line in lines)


def told(root: Path, text: str) -> list[str]:
    try:
        client = read(root, text)
    except TaskInvalid as error:
        return [error.message]
    return [*client.more, *client.warnings]
