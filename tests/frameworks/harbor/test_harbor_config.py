"""``task.toml`` as Harbor 0.26 reads it: one row for each fact about a field."""

from __future__ import annotations

import json
import string
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.toml_text import as_toml

from pytest_rlenv.errors import TaskInvalid
from pytest_rlenv.frameworks.harbor.config import TaskConfig, VerifierMode, parse_config
from pytest_rlenv.frameworks.harbor.config_text import MAX_CONFIG_BYTES
from pytest_rlenv.frameworks.harbor.network import NetworkMode


def parse(text: bytes | str) -> TaskConfig:
    return parse_config(text, "task.toml")[0]


def value_at(config: TaskConfig, path: str) -> Any:
    value: Any = config
    for part in path.split("."):
        value = value[int(part)] if part.isdigit() else getattr(value, part)
    return value


DEFAULTS = {
    "schema_version": "1.4",
    "task": None,
    "metadata": {},
    "source": None,
    "multi_step_reward_strategy": None,
    "steps": None,
    "artifacts": [],
    "agent.timeout_sec": None,
    "agent.user": None,
    "agent.network_mode": None,
    "agent.allowed_hosts": None,
    "verifier.timeout_sec": 600.0,
    "verifier.env": {},
    "verifier.user": None,
    "verifier.environment_mode": None,
    "verifier.environment": None,
    "verifier.collect": [],
    "environment.build_timeout_sec": 600.0,
    "environment.docker_image": None,
    "environment.os": "linux",
    "environment.cpus": None,
    "environment.memory_mb": None,
    "environment.storage_mb": None,
    "environment.gpus": None,
    "environment.gpu_types": None,
    "environment.tpu": None,
    "environment.mcp_servers": [],
    "environment.env": {},
    "environment.skills_dir": None,
    "environment.healthcheck": None,
    "environment.workdir": None,
    "environment.network_mode": "public",
    "environment.allowed_hosts": None,
    "solution.env": {},
}


@pytest.mark.parametrize(("path", "expected"), DEFAULTS.items())
def test_an_empty_file_is_a_valid_config(path: str, expected: object) -> None:
    assert value_at(parse(""), path) == expected


ACCEPTED = {
    "any schema version": ('schema_version = "banana"', "schema_version", "banana"),
    "old name of the version": ('version = "1.0"', "schema_version", "1.0"),
    "new name wins": ('version = "1.0"\nschema_version = "1.2"', "schema_version", "1.2"),
    "numbers may be quoted": ('[agent]\ntimeout_sec = "5"', "agent.timeout_sec", 5.0),
    "no limit, infinite": ("[verifier]\ntimeout_sec = inf", "verifier.timeout_sec", None),
    "no limit, beyond timers": ("[agent]\ntimeout_sec = 1e300", "agent.timeout_sec", None),
    "user by name": ('[agent]\nuser = "daemon"', "agent.user", "daemon"),
    "user by number": ("[verifier]\nuser = 1000", "verifier.user", 1000),
    "whole cpus": ("[environment]\ncpus = 2.0", "environment.cpus", 2),
    "part of a cpu": ("[environment]\ncpus = 0.5", "environment.cpus", 0.5),
    "cpus in quotes": ('[environment]\ncpus = "2"', "environment.cpus", 2),
    "cpus 0 is no limit": ("[environment]\ncpus = 0", "environment.cpus", None),
    "memory in quotes": ('[environment]\nmemory_mb = "512"', "environment.memory_mb", 512),
    "memory as a whole float": ("[environment]\nmemory_mb = 512.0", "environment.memory_mb", 512),
    "memory 0 is no limit": ("[environment]\nmemory_mb = 0", "environment.memory_mb", None),
    "old memory G": ('[environment]\nmemory = "4G"', "environment.memory_mb", 4096),
    "old memory g": ('[environment]\nmemory = "1.5g"', "environment.memory_mb", 1536),
    "old storage M": ('[environment]\nstorage = "512M"', "environment.storage_mb", 512),
    "old memory K": ('[environment]\nmemory = "2048K"', "environment.memory_mb", 2),
    "old memory as a number is dropped": ("[environment]\nmemory = 2048", "environment.memory_mb", None),
    "old and new agree": ('[environment]\nmemory = "2G"\nmemory_mb = 2048', "environment.memory_mb", 2048),
    "old internet off": ("[environment]\nallow_internet = false", "environment.network_mode", "no-network"),
    "old internet on": ("[environment]\nallow_internet = true", "environment.network_mode", "public"),
    "new network wins": (
        '[environment]\nallow_internet = false\nnetwork_mode = "public"',
        "environment.network_mode",
        "public",
    ),
    "old internet of the verifier": (
        "[verifier.environment]\nallow_internet = false",
        "verifier.environment.network_mode",
        "no-network",
    ),
    "os in any case": ('[environment]\nos = "Windows"', "environment.os", "windows"),
    "allowlist without hosts": (
        '[environment]\nnetwork_mode = "allowlist"',
        "environment.network_mode",
        "allowlist",
    ),
    "hosts are normalised": (
        """
        agent.network_mode = "allowlist"
        agent.allowed_hosts = [" A.com. ", "*.B.org", "2001:DB8::0", "10.0.0.0/8"]
        """,
        "agent.allowed_hosts",
        ["a.com", "*.b.org", "2001:db8::", "10.0.0.0/8"],
    ),
    "empty hosts of the baseline": ("[environment]\nallowed_hosts = []", "environment.allowed_hosts", []),
    "healthcheck defaults": (
        '[environment.healthcheck]\ncommand = "true"',
        "environment.healthcheck",
        {
            "command": "true",
            "interval_sec": 5.0,
            "timeout_sec": 30.0,
            "start_period_sec": 0.0,
            "start_interval_sec": 5.0,
            "retries": 3,
        },
    ),
    "a negative pause is none": (
        '[environment.healthcheck]\ncommand = "true"\ninterval_sec = -1',
        "environment.healthcheck.interval_sec",
        0.0,
    ),
    "mcp http": (
        '[[environment.mcp_servers]]\nname = "a"\ntransport = "http"\nurl = "http://x"',
        "environment.mcp_servers.0.transport",
        "streamable-http",
    ),
    "mcp default transport": (
        '[[environment.mcp_servers]]\nname = "a"\nurl = "http://x"',
        "environment.mcp_servers.0.transport",
        "sse",
    ),
    "mcp credential by reference": (
        '[[environment.mcp_servers]]\nname="a"\nurl="x"\nheaders={Authorization="Bearer ${TOKEN}"}',
        "environment.mcp_servers.0.headers",
        {"Authorization": "Bearer ${TOKEN}"},
    ),
    "tpu": (
        '[environment.tpu]\ntype = "v6e"\ntopology = "2x2x1"',
        "environment.tpu",
        {"type": "v6e", "topology": "2x2x1"},
    ),
    "collect defaults": ('[[verifier.collect]]\ncommand = "x"', "verifier.collect.0.timeout_sec", 60.0),
    "collect service": ('[[verifier.collect]]\ncommand = "x"', "verifier.collect.0.service", "main"),
    "artifact as text": ('artifacts = ["/app/x"]', "artifacts.0.source", "/app/x"),
    "artifact as table": ('artifacts = [{source = "/x", destination = "y"}]', "artifacts.0.destination", "y"),
    "artifact of a sidecar": ('artifacts = [{source = "/x", service = "db"}]', "artifacts.0.service", "db"),
    "empty destination is none": (
        'artifacts = [{source = "/x", destination = ""}]',
        "artifacts.0.destination",
        None,
    ),
    "step verifier time is its own": (
        '[verifier]\ntimeout_sec = 30\n[[steps]]\nname = "a"',
        "steps.0.verifier.timeout_sec",
        600.0,
    ),
    "step gate, a number": ('[[steps]]\nname = "a"\nmin_reward = 0.5', "steps.0.min_reward", 0.5),
    "step gate, a table": (
        '[[steps]]\nname = "a"\nmin_reward = {acc = 1}',
        "steps.0.min_reward",
        {"acc": 1.0},
    ),
    "package": ('[task]\nname = "org/my-task"', "task.name", "org/my-task"),
    "CR LF line ends": ('[agent]\r\nuser = "x"\r\n', "agent.user", "x"),
}


@pytest.mark.parametrize(("text", "path", "expected"), ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(text: str, path: str, expected: object) -> None:
    value = value_at(parse(text), path)
    assert (value.model_dump() if hasattr(value, "model_dump") else value) == expected


def test_metadata_is_free_form() -> None:
    assert parse("[metadata]\nanything = {at = [1]}").metadata == {"anything": {"at": [1]}}


REJECTED = {
    "schema version, a number": ("schema_version = 1.0", "schema_version = 1.0: expected a string"),
    "old version, a number": ("version = 1", "schema_version: expected a string"),
    "time in words": (
        '[agent]\ntimeout_sec = "soon"',
        'agent.timeout_sec = "soon": expected a number of seconds',
    ),
    "no time at all": (
        "[agent]\ntimeout_sec = 0",
        "agent.timeout_sec = 0: expected a number of seconds above 0",
    ),
    "time before the start": ("[verifier]\ntimeout_sec = -1", "verifier.timeout_sec = -1: expected"),
    "time that is no number": (
        "[environment]\nbuild_timeout_sec = nan",
        "environment.build_timeout_sec = nan",
    ),
    "step without time": ('[[steps]]\nname="a"\nagent={timeout_sec=0}', "steps[0].agent.timeout_sec = 0"),
    "package without org": ('[task]\nname = "bad"', 'task.name = "bad": expected "org/name"'),
    "package with dots": ('[task]\nname = "a/b..c"', "task.name"),
    "package without a name": ("[task]", "task.name: required, but not set"),
    "empty package version": ('[task]\nname="a/b"\nversion=""', "expected a string that is not empty"),
    "author without name": ('[task]\nname="a/b"\nauthors=[{email="x"}]', "task.authors[0].name: required"),
    "env value, a number": ("[environment]\nenv = {A = 12345}", "environment.env.A: expected a string"),
    "cpus nan": ("[environment]\ncpus = nan", "environment.cpus = nan: expected a finite number of cores"),
    "cpus inf": ("[environment]\ncpus = inf", "environment.cpus = inf"),
    "cpus negative": ("[environment]\ncpus = -1", "environment.cpus = -1"),
    "cpus in words": ('[environment]\ncpus = "many"', 'environment.cpus = "many": expected a number'),
    "memory, a part": (
        "[environment]\nmemory_mb = 1.5",
        "environment.memory_mb = 1.5: expected a whole number",
    ),
    "memory negative": (
        "[environment]\nmemory_mb = -5",
        "environment.memory_mb = -5: expected a number of MiB",
    ),
    "gpus negative": ("[environment]\ngpus = -1", "environment.gpus = -1"),
    "old memory GB": ('[environment]\nmemory = "4GB"', "memory = '4GB' is not a size"),
    "old memory GiB": ('[environment]\nmemory = "4GiB"', "memory = '4GiB' is not a size"),
    "old memory bare": ('[environment]\nmemory = "2048"', "memory = '2048' is not a size"),
    "old memory infinite": ('[environment]\nmemory = "infG"', "memory = 'infG' is not a size"),
    "old and new disagree": ('[environment]\nmemory = "2G"\nmemory_mb = 1', "environment: memory = '2G' and"),
    "unknown os": ('[environment]\nos = "macos"', "expected 'linux' or 'windows'"),
    "unknown network": (
        '[environment]\nnetwork_mode = "off"',
        "expected 'no-network', 'public' or 'allowlist'",
    ),
    "hosts without a mode": ("[agent]\nallowed_hosts = []", "agent: allowed_hosts needs network_mode"),
    "hosts without allowlist": ('[environment]\nallowed_hosts = ["a"]', "environment: allowed_hosts needs"),
    "hosts with public": (
        '[verifier]\nnetwork_mode="public"\nallowed_hosts=["a"]',
        "verifier: allowed_hosts",
    ),
    "old internet with hosts": (
        '[environment]\nallow_internet=false\nallowed_hosts=["a"]',
        "allowed_hosts needs",
    ),
    "shared with environment": (
        '[verifier]\nenvironment_mode = "shared"\n[verifier.environment]',
        'verifier: environment_mode = "shared" excludes',
    ),
    "healthcheck without command": (
        "[environment.healthcheck]",
        "healthcheck.command: required, but not set",
    ),
    "healthcheck that cannot succeed": (
        '[environment.healthcheck]\ncommand="x"\ntimeout_sec=-1',
        "healthcheck.timeout_sec = -1",
    ),
    "healthcheck that never ends": (
        '[environment.healthcheck]\ncommand="x"\ninterval_sec=inf',
        "healthcheck.interval_sec = inf: expected a finite number",
    ),
    "mcp without url": (
        '[[environment.mcp_servers]]\nname="a"',
        "environment.mcp_servers[0]: transport 'sse' needs",
    ),
    "mcp stdio without command": (
        '[[environment.mcp_servers]]\nname="a"\ntransport="stdio"',
        "transport 'stdio' needs a command",
    ),
    "mcp stdio with headers": (
        '[[environment.mcp_servers]]\nname="a"\ntransport="stdio"\ncommand="x"\nheaders={A="b"}',
        "headers are for HTTP transports only",
    ),
    "tpu topology": ('[environment.tpu]\ntype="v6e"\ntopology="4"', 'expected dimensions such as "2x4"'),
    "tpu topology 0": ('[environment.tpu]\ntype="v6e"\ntopology="0x4"', "environment.tpu.topology"),
    "step name, a path": ('[[steps]]\nname = "a/b"', 'steps[0].name = "a/b": expected a folder name'),
    "step name, a device": ('[[steps]]\nname = "NUL.txt"', "steps[0].name"),
    "step name, too long": (f'[[steps]]\nname = "{"é" * 128}"', "of at most 255 bytes"),
    "step names, alike": ('[[steps]]\nname = "One"\n[[steps]]\nname = "oNE"', "two steps are called 'oNE'"),
    "step gate, words": (
        '[[steps]]\nname="a"\nmin_reward="x"',
        'steps[0].min_reward = "x": expected a number',
    ),
    "step gate, nan": ('[[steps]]\nname="a"\nmin_reward=nan', "steps[0].min_reward = nan: expected a number"),
    "collect hook, no time": (
        '[[verifier.collect]]\ncommand="x"\ntimeout_sec=-1',
        "verifier.collect[0].timeout_sec = -1: expected a number of seconds, 0 for no limit",
    ),
    "step gate, words in table": (
        '[[steps]]\nname="a"\nmin_reward={acc="x"}',
        'steps[0].min_reward.acc = "x": expected a number',
    ),
    "artifact above": ('artifacts = ["/a/../b"]', 'artifacts[0] = "/a/../b": expected a path without'),
    "artifact goes out": ('artifacts = [{source="/a", destination="../b"}]', "artifacts[0].destination"),
    "artifact goes to the root": (
        'artifacts = [{source="/a", destination="/b"}]',
        "artifacts[0].destination",
    ),
    "artifact for windows": ("artifacts = [{source='/a', destination='a\\b'}]", "artifacts[0].destination"),
    "artifact manifest": ('artifacts = [{source="/a", destination="manifest.json"}]', "is reserved"),
    "artifact of a sidecar, relative": ('artifacts = [{source="a", service="db"}]', "must be absolute"),
    "artifact, a number": ("artifacts = [1]", "artifacts[0] = 1: expected a path or a table"),
    "strategy": ('multi_step_reward_strategy = "max"', "expected 'mean' or 'final'"),
    "table, an array": ("agent = []", "agent is an array: expected a table"),
    "user, an array": ("[agent]\nuser = []", "agent.user is an array: expected a string or a whole number"),
    "date": ("[environment]\nworkdir = 1979-05-27", "environment.workdir = 1979-05-27: expected a string"),
}


@pytest.mark.parametrize(("text", "expected"), REJECTED.values(), ids=REJECTED)
def test_rejected(text: str, expected: str) -> None:
    with pytest.raises(TaskInvalid) as caught:
        parse(text)
    message = caught.value.message
    assert message.startswith("task.toml: ")
    assert expected in message
    assert message.isprintable()


@pytest.mark.parametrize(
    "host",
    [
        "http://a.com",
        "a.com:80",
        "a.com/x",
        "a.*.com",
        "*.1.2.3.4",
        "*.",
        "",
        "10.0.0.1/8",
        "fe80::1%eth0",
        "[::1]",
    ],
)
def test_a_host_that_is_none(host: str) -> None:
    with pytest.raises(TaskInvalid, match="allowed_hosts"):
        parse(f'[environment]\nnetwork_mode = "allowlist"\nallowed_hosts = [{json.dumps(host)}]')


@pytest.mark.parametrize(
    "headers",
    [
        '{Authorization = "Bearer s3cret"}',
        '{X-Api-Key = "s3cret"}',
        '{Cookie = "s3cret"}',
        '{X-Api-Key = "${KEY:-s3cret}"}',
        '{Other = "${API_TOKEN:-s3cret}"}',
    ],
)
def test_a_credential_in_a_header_is_refused_and_not_shown(headers: str) -> None:
    with pytest.raises(TaskInvalid) as caught:
        parse(f'[[environment.mcp_servers]]\nname = "a"\nurl = "x"\nheaders = {headers}')
    assert "as ${VAR} without a default" in caught.value.message
    assert "s3cret" not in str(caught.value) + caught.value.detail + caught.value.hint


def test_values_of_env_tables_are_not_shown() -> None:
    with pytest.raises(TaskInvalid) as caught:
        parse("[verifier.env]\nKEY = 31337")
    assert "verifier.env.KEY" in caught.value.message
    assert "31337" not in caught.value.message


def test_the_first_errors_are_listed_and_the_rest_counted() -> None:
    with pytest.raises(TaskInvalid) as caught:
        parse('[environment]\ncpus = "a"\nmemory_mb = "b"\ngpus = "c"\nstorage_mb = "d"\nworkdir = 1')
    assert caught.value.message.endswith("(and 2 more)")
    assert len(caught.value.detail.splitlines()) == 5


NOT_TOML = {
    "syntax": (b"[agent\n", "line 1, column 7"),
    "duplicate": (b"a = 1\na = 2\n", "line 2"),
    "not utf-8": (b"ok = 1\nname = '\xff'\n", "byte 0xff in line 2, column 9"),
    "nul": (b"a = 1\nb = '\0'", "a NUL byte in line 2, column 6"),
    "byte order mark": (b"\xef\xbb\xbfa = 1", "byte order mark"),
    "too large": (b"#" * (MAX_CONFIG_BYTES + 1), f"at most {MAX_CONFIG_BYTES}"),
    "deep": (b"a = " + b"[" * 100_000, "nested too deeply"),
    "digits": (b"a = " + b"1" * 5000, "too many digits"),
    "surrogate": ("a = '\ud800'", "not valid Unicode"),
}


@pytest.mark.parametrize(("data", "expected"), NOT_TOML.values(), ids=NOT_TOML)
def test_not_toml(data: bytes | str, expected: str) -> None:
    with pytest.raises(TaskInvalid) as caught:
        parse(data)
    assert caught.value.message.startswith("task.toml: ")
    assert expected in caught.value.message


WARNINGS = {
    "no warning": ("[metadata]\nx = {y = 1}\n[metadata.harbor.lint]\nz = 1", None),
    "unknown at the root": ("bogus = 1", "bogus: unknown field, ignored"),
    "suggestion": ("[environment]\ncpu = 2", "environment.cpu: unknown field, ignored; did you mean `cpus`?"),
    "deep": (
        '[[steps]]\nname = "a"\n[steps.verifier.environment]\nmemry_mb = 1',
        "steps[0].verifier.environment.memry_mb: unknown field, ignored; did you mean `memory_mb`?",
    ),
    "in an array": ('artifacts = [{source = "/x", destnation = "y"}]', "artifacts[0].destnation"),
    "env keys are free": ("[verifier.env]\nANY = 'x'", None),
    "old version": ('version = "1.0"', "version is deprecated; use `schema_version`"),
    "old memory": ('[environment]\nmemory = "2G"', "environment.memory is deprecated; use `memory_mb`"),
    "dropped memory": (
        "[environment]\nmemory = 2048",
        'environment.memory = 2048 is ignored, as it is not a text such as "2G"; use `memory_mb`',
    ),
    "dropped storage": ("[environment]\nstorage = 5", "environment.storage = 5 is ignored"),
    "old internet": ("[environment]\nallow_internet = true", "use `network_mode`"),
    "old internet of the verifier": (
        "[verifier.environment]\nallow_internet = true",
        "verifier.environment.allow_internet is deprecated",
    ),
    "own table": (
        "[metadata.rlenv]\nreward_ky = 'a'",
        "metadata.rlenv.reward_ky: unknown field, ignored; did you",
    ),
}


@pytest.mark.parametrize(("text", "expected"), WARNINGS.values(), ids=WARNINGS)
def test_warnings(text: str, expected: str | None) -> None:
    _, warnings = parse_config(text, "task.toml")
    if expected is None:
        assert warnings == []
    else:
        assert len(warnings) == 1
        assert warnings[0].startswith("task.toml: ")
        assert expected in warnings[0]


def test_own_metadata() -> None:
    config = parse(
        '[metadata.rlenv]\nreward_key = "acc"\nreward_range = [-1, 2.5]\n'
        'expect = {oracle = ">= 0.55", nop = "acc <= 0.6"}'
    )
    assert config.rlenv.reward_key == "acc"
    assert config.rlenv.reward_range == (-1.0, 2.5)
    assert config.rlenv.expect == {"oracle": ">= 0.55", "nop": "acc <= 0.6"}


def test_own_metadata_is_optional() -> None:
    rlenv = parse("").rlenv
    assert (rlenv.reward_key, rlenv.reward_range, rlenv.expect) == (None, None, {})


@pytest.mark.parametrize(
    "text",
    [
        "reward_key = 1",
        'reward_key = ""',
        "reward_range = [1]",
        "reward_range = [2, 1]",
        "reward_range = [0, inf]",
        "reward_range = [nan, 1]",
        'reward_range = ["0", 1]',
        "reward_range = [false, true]",
        'reward_range = "0..1"',
        f"reward_range = [0, 1{'0' * 400}]",
        'expect = ">= 1"',
        "expect = {oracle = 1}",
    ],
)
def test_own_metadata_of_wrong_types(text: str) -> None:
    with pytest.raises(TaskInvalid, match=r"task\.toml: metadata\.rlenv\.(reward_key|reward_range|expect)"):
        parse(f"[metadata.rlenv]\n{text}")


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("", VerifierMode.SHARED),
        ('[verifier]\nenvironment_mode = "separate"', VerifierMode.SEPARATE),
        ("[verifier.environment]", VerifierMode.SEPARATE),
    ],
)
def test_verifier_mode(text: str, mode: VerifierMode) -> None:
    assert parse(text).verifier_mode() is mode


def test_a_step_may_have_its_own_verifier_mode() -> None:
    config = parse(
        '[verifier]\nenvironment_mode = "separate"\n'
        '[[steps]]\nname = "a"\n[[steps]]\nname = "b"\nverifier = {environment_mode = "shared"}'
    )
    assert [config.verifier_mode(step) for step in config.steps or []] == [
        VerifierMode.SEPARATE,
        VerifierMode.SHARED,
    ]


@pytest.mark.parametrize(("written", "limit"), [(30, 30.0), (1.9, 1.0), (0.5, None), (0, None)])
def test_the_time_of_a_health_check_loses_its_fraction(written: float, limit: float | None) -> None:
    check = parse(
        f'[environment.healthcheck]\ncommand = "x"\ntimeout_sec = {written}'
    ).environment.healthcheck
    assert check is not None
    assert check.limit == limit


# Properties.


def config_or_message(text: bytes | str) -> TaskConfig | str:
    try:
        return parse(text)
    except TaskInvalid as error:
        return error.message


@given(st.binary(max_size=400))
def test_any_bytes_are_a_config_or_a_clear_error(data: bytes) -> None:
    read = config_or_message(data)
    assert isinstance(read, TaskConfig) or read.startswith("task.toml: ")


FIELDS = [
    *(
        "schema_version",
        "version",
        "task",
        "metadata",
        "verifier",
        "agent",
        "environment",
        "solution",
        "steps",
    ),
    *("artifacts", "name", "timeout_sec", "user", "env", "network_mode", "allowed_hosts", "cpus", "memory"),
    *(
        "memory_mb",
        "gpus",
        "healthcheck",
        "command",
        "mcp_servers",
        "headers",
        "collect",
        "min_reward",
        "rlenv",
    ),
    *("reward_range", "expect", "tpu", "topology", "os", "source", "destination", "environment_mode", "oops"),
]
SCALARS = (
    st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["4G", "public", "separate", "allowlist", "linux", "a/b", "${X}", "2x4", "main"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=5))
def test_any_table_is_a_config_or_a_clear_error(table: dict[str, Any]) -> None:
    text = "\n".join(f"{key} = {as_toml(value)}" for key, value in table.items())
    read = config_or_message(text)
    if isinstance(read, str):
        assert read.startswith("task.toml: ")
        assert read.isprintable()
    else:
        assert TaskConfig.model_validate(read.model_dump()) == read
        known = set(TaskConfig.model_fields) | {"version"}
        named = {warning.split()[1].rstrip(":") for warning in parse_config(text, "task.toml")[1]}
        assert {key for key in table if key not in known} <= named


WORDS = st.text(string.ascii_lowercase, min_size=1, max_size=8)
SECONDS = st.floats(0.001, 1e6)
ENVIRONMENTS = st.fixed_dictionaries(
    {},
    optional={
        "build_timeout_sec": SECONDS,
        "docker_image": WORDS,
        "os": st.sampled_from(["linux", "windows"]),
        "cpus": st.integers(1, 64) | st.floats(0.1, 0.9),
        "memory_mb": st.integers(1, 10**6),
        "gpus": st.integers(0, 8),
        "env": st.dictionaries(WORDS, WORDS, max_size=3),
        "workdir": WORDS.map("/{}".format),
        "network_mode": st.sampled_from(list(NetworkMode)).map(lambda mode: mode.value),
        "healthcheck": st.fixed_dictionaries({"command": WORDS, "retries": st.integers(1, 9)}),
        "tpu": st.fixed_dictionaries({"type": WORDS, "topology": st.just("2x4")}),
    },
)
CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "schema_version": WORDS,
        "source": WORDS,
        "agent": st.fixed_dictionaries(
            {}, optional={"timeout_sec": SECONDS, "user": WORDS | st.integers(0, 9999)}
        ),
        "verifier": st.fixed_dictionaries({}, optional={"timeout_sec": SECONDS, "environment": ENVIRONMENTS}),
        "environment": ENVIRONMENTS,
        "solution": st.fixed_dictionaries({"env": st.dictionaries(WORDS, WORDS, max_size=2)}),
        "steps": st.lists(WORDS, max_size=3, unique=True).map(
            lambda names: [{"name": name} for name in names]
        ),
        # hypothesis tries words of the source, too, and these two are tables with rules of their own
        "metadata": st.dictionaries(
            WORDS.filter(lambda word: word not in ("rlenv", "harbor")), SCALARS, max_size=3
        ),
    },
)


def same(found: Any, given_value: Any) -> bool:
    """True if everything that was given is found, whatever defaults are there beside it."""
    if isinstance(given_value, dict):
        return all(same(found[key], value) for key, value in given_value.items())
    if isinstance(given_value, list):
        return len(found) == len(given_value) and all(map(same, found, given_value))
    return found == given_value or (found != found and given_value != given_value)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(CONFIGS)
def test_a_valid_config_is_read_as_written_without_warnings(table: dict[str, Any]) -> None:
    text = "\n".join(f"{key} = {as_toml(value)}" for key, value in table.items())
    config, warnings = parse_config(text, "task.toml")
    assert same(config.model_dump(mode="python"), table)
    assert warnings == []


@pytest.mark.parametrize("version", ["9.9", "1.5", "1.10", "2", "1.4.1"])
def test_a_later_schema_is_a_warning(version: str) -> None:
    _, warnings = parse_config(f'schema_version = "{version}"', "task.toml")
    assert warnings == [f'task.toml: schema_version = "{version}" is newer than what is known (1.4)']


@pytest.mark.parametrize("version", ["1.4", "1.0", "1", "next"])
def test_a_known_schema_is_none(version: str) -> None:
    assert parse_config(f'schema_version = "{version}"', "task.toml")[1] == []
