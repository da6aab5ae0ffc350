"""Reasons to skip a task: each names the field that asks for something and what is lacking."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_rlenv.frameworks.harbor.support import notes, unsupported
from pytest_rlenv.frameworks.harbor.task import HarborTask, load_task
from pytest_rlenv.sandboxes.model import NO_NETWORK, PUBLIC, Capabilities

CASES = Path(__file__).parents[2] / "cases" / "harbor"
FULL = Capabilities(
    network_modes=frozenset({PUBLIC, NO_NETWORK}),
    builds_images=True,
    users=True,
    gpus=1,
    cpus=4,
    memory_mb=8192,
)
BARE = Capabilities()
ONLY_PREBUILT = Capabilities(network_modes=frozenset({PUBLIC}))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("environment/Dockerfile", "tests/test.sh", "instruction.md", "task.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x" if name == "instruction.md" else "")
    return tmp_path


def task_with(root: Path, config: str) -> HarborTask:
    (root / "task.toml").write_text(config)
    return load_task(root, "t")


SUPPORTED = {
    "nothing special": "",
    "users": '[agent]\nuser = "a"\n[verifier]\nuser = 1',
    "no network": '[environment]\nnetwork_mode = "no-network"',
    "the same network in a phase": (
        '[environment]\nnetwork_mode = "no-network"\n[agent]\nnetwork_mode = "no-network"'
    ),
    "gpu that is there": "[environment]\ngpus = 1",
    "no gpu": "[environment]\ngpus = 0",
    "limits that fit": "[environment]\ncpus = 4\nmemory_mb = 8192",
    "storage": "[environment]\nstorage_mb = 99999999",
    "servers, which the reference solution ignores": '[[environment.mcp_servers]]\nname = "a"\nurl = "x"',
    "skills, likewise": '[environment]\nskills_dir = "/skills"',
    "health check": '[environment.healthcheck]\ncommand = "x"',
    "explicitly shared": '[verifier]\nenvironment_mode = "shared"',
    "separate": '[verifier]\nenvironment_mode = "separate"',
    "separate, with a network of its own": (
        '[verifier]\nnetwork_mode = "no-network"\n[verifier.environment]\nmemory_mb = 1'
    ),
    "artifacts": 'artifacts = ["/app/x"]',
    "collect hooks": '[[verifier.collect]]\ncommand = "x"',
}


@pytest.mark.parametrize("config", SUPPORTED.values(), ids=SUPPORTED)
def test_supported(root: Path, config: str) -> None:
    assert unsupported(task_with(root, config), FULL) == []


UNSUPPORTED = {
    "allowlist": (
        '[environment]\nnetwork_mode = "allowlist"',
        FULL,
        '[environment] network_mode = "allowlist"',
    ),
    "allowlist in a phase": (
        '[agent]\nnetwork_mode = "allowlist"\nallowed_hosts = ["a.com"]',
        FULL,
        '[agent] network_mode = "allowlist": this sandbox does not have it',
    ),
    "another network in a phase": (
        '[verifier]\nnetwork_mode = "no-network"',
        FULL,
        '[verifier] network_mode = "no-network" differs from [environment], "public"',
    ),
    "no such network": (
        '[environment]\nnetwork_mode = "no-network"',
        ONLY_PREBUILT,
        'network_mode = "no-network"',
    ),
    "gpu": (
        "[environment]\ngpus = 1",
        BARE,
        "[environment] gpus = 1: the task needs 1 GPU, this sandbox has no GPU",
    ),
    "gpus": ("[environment]\ngpus = 4", FULL, "the task needs 4 GPUs, this sandbox has 1"),
    "tpu": ('[environment.tpu]\ntype = "v6e"\ntopology = "2x4"', FULL, "[environment.tpu] v6e 2x4"),
    "agent user": ("[agent]\nuser = 'daemon'", BARE, "[agent] user = 'daemon'"),
    "verifier user": ("[verifier]\nuser = 1000", BARE, "[verifier] user = 1000"),
    "cpus": ("[environment]\ncpus = 8", FULL, "[environment] cpus = 8: this machine has 4"),
    "memory": (
        "[environment]\nmemory_mb = 16384",
        FULL,
        "[environment] memory_mb = 16384: this machine has 8192 MiB",
    ),
    "build": ("", ONLY_PREBUILT, "environment/Dockerfile: this sandbox builds no images"),
}


@pytest.mark.parametrize(("config", "capabilities", "reason"), UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_unsupported(root: Path, config: str, capabilities: Capabilities, reason: str) -> None:
    reasons = unsupported(task_with(root, config), capabilities)
    assert sum(reason in text for text in reasons) == 1
    assert all("\n" not in text for text in reasons)
    if capabilities is FULL:
        assert len(reasons) == 1


def test_windows(root: Path) -> None:
    (root / "tests" / "test.bat").touch()
    assert unsupported(task_with(root, '[environment]\nos = "windows"'), FULL) == [
        '[environment] os = "windows": only Linux containers are supported'
    ]


def test_limits_of_an_unknown_machine_are_not_guessed(root: Path) -> None:
    task = task_with(root, '[environment]\ndocker_image = "x"\ncpus = 999\nmemory_mb = 999999999')
    assert unsupported(task, ONLY_PREBUILT) == []


def test_limits_that_are_not_enforced_are_no_reason(root: Path) -> None:
    task = task_with(root, "[environment]\ncpus = 8\nmemory_mb = 999999999")
    assert unsupported(task, FULL, enforce_limits=False) == []


CASES_SKIPPED = {
    "compose-sidecar": "docker-compose.yaml",
    "gpu-needed": "GPU",
}
CASES_INVALID = {"bad-field", "bad-toml", "no-instruction", "no-test-script"}


@pytest.mark.parametrize(
    "case", sorted({path.name for path in CASES.iterdir() if path.is_dir()} - CASES_INVALID)
)
def test_cases(case: str) -> None:
    without_gpu = Capabilities(FULL.network_modes, builds_images=True, users=True)
    reasons = unsupported(load_task(CASES / case, case), without_gpu)
    if case in CASES_SKIPPED:
        assert len(reasons) == 1
        assert CASES_SKIPPED[case] in reasons[0]
    else:
        assert reasons == []


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ("[environment]\nstorage_mb = 10240", "storage-not-enforced"),
        ('[environment]\ngpus = 1\ngpu_types = ["H100"]', "gpu-types-not-checked"),
        ("", None),
        ('[environment]\ngpu_types = ["H100"]', None),
    ],
)
def test_notes(root: Path, config: str, code: str | None) -> None:
    assert [found for found, _ in notes(task_with(root, config))] == ([code] if code else [])
