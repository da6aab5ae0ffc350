from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from support.scripted import ScriptedBox, ScriptedSandbox
from support.terminal_bench import COMPOSE, CONFIG, FAILS, write_terminal_bench_task

from pytest_rlenv.agents.nop import NopAgent
from pytest_rlenv.agents.oracle import OracleAgent
from pytest_rlenv.agents.protocol import Agent
from pytest_rlenv.errors import RewardMissing, TaskInvalid, Unsupported, VariableMissing, VerifierTimeout
from pytest_rlenv.frameworks.context import RolloutContext
from pytest_rlenv.frameworks.protocol import get_framework
from pytest_rlenv.rollout import Rollout, StageClock
from pytest_rlenv.sandboxes.model import BoxSpec, BuildOptions, Entry, ImageRef, ImageSpec, SandboxContext

FRAMEWORK = get_framework("terminal-bench")


class WithApp(ScriptedSandbox):
    """Its images have a folder ``/app``."""

    def start(self, image: ImageRef, spec: BoxSpec, entries: Iterable[Entry] = ()) -> ScriptedBox:
        return super().start(image, spec, (*entries, Entry("app")))


class OneUser(ScriptedSandbox):
    capabilities = replace(ScriptedSandbox.capabilities, users=False)


def run(
    task: Path,
    agent: Agent | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    sandbox: type[ScriptedSandbox] = ScriptedSandbox,
) -> tuple[Rollout, ScriptedBox, BoxSpec]:
    """Run a task in the scripted sandbox; return its record, the box, and how that was started."""
    folder = task.parent / "rollout"
    folder.mkdir()
    rollout = Rollout(environment="env", framework="terminal-bench", task="t", agent="a")
    made = sandbox(SandboxContext("s", "main", task.parent, task.parent))
    context = RolloutContext(
        agent=agent or NopAgent(),
        sandbox=made,
        rollout=rollout,
        clock=StageClock(rollout),
        folder=folder,
        environ=environ or {},
        timeout_multiplier=2.0,
    )
    FRAMEWORK.load(task, "t").run(context)
    return rollout, made.boxes[0], made.started[0][1]


def test_the_tests_run_as_terminal_bench_runs_them(tmp_path: Path) -> None:
    more = {"tests/data/x.txt": "x", "tests/helper.sh": "echo"}
    rollout, box, spec = run(write_terminal_bench_task(tmp_path / "t", more))
    assert rollout.rewards == {"reward": 1.0}
    assert rollout.checks is not None
    assert (rollout.checks.passed, rollout.checks.failed) == (1, 0)
    (tests,) = (ran for ran in box.ran if ran.argv == ("bash", "/tests/run-tests.sh"))
    assert (tests.user, tests.timeout) == (0, 360.0)
    assert spec.env == {"TEST_DIR": "/tests"}
    in_tests = {name for name in box.files if name.startswith("/tests/") and not box.files[name].is_dir}
    assert in_tests == {
        f"/tests/{name}" for name in ("run-tests.sh", "test_outputs.py", "data/x.txt", "helper.sh")
    }
    assert "/solution/solve.sh" not in box.files


def test_a_failing_test_is_a_reward_of_0_that_names_it(tmp_path: Path) -> None:
    rollout, _, _ = run(write_terminal_bench_task(tmp_path / "t", {"run-tests.sh": FAILS}))
    assert rollout.rewards == {"reward": 0.0}
    assert rollout.checks is not None
    assert rollout.checks.failing == ["test_it"]


@pytest.mark.parametrize(
    ("script", "error", "words"),
    [
        ("# scripted: print=3 passed in 0.1s", RewardMissing, "no 'short test summary info'"),
        ("# scripted: print=x\n# scripted: exit=127", RewardMissing, "it exited 127"),
        ("# scripted: hang", VerifierTimeout, "the verifier ran out of time"),
        ("# scripted: reward=1", RewardMissing, "no 'short test summary info'"),
    ],
)
def test_without_a_result_there_is_no_reward(script: str, error: type, words: str, tmp_path: Path) -> None:
    config = CONFIG.replace("180.0", "0.01")
    task = write_terminal_bench_task(tmp_path / "t", {"run-tests.sh": script, "task.yaml": config})
    with pytest.raises(error, match=words) as caught:
        run(task)
    assert "task.toml" not in caught.value.hint


def test_the_oracle_is_given_the_solution(tmp_path: Path) -> None:
    _, box, _ = run(write_terminal_bench_task(tmp_path / "t"), OracleAgent())
    assert box.files["/solution/solution.sh"].content == b"echo 42 > /app/answer\n"
    (solving,) = (ran for ran in box.ran if ran.argv[-1] == "/solution/solve.sh")
    assert solving.user is None


def test_the_containers_description_is_taken_over(tmp_path: Path) -> None:
    more = "    user: agent\n    network_mode: none\n    cpus: 1\n    mem_limit: 1g\n    working_dir: /app\n"
    compose = (
        f"{COMPOSE}      - KEY=${{KEY}}\n      - HERE\n      - GONE\n      - MODE=${{MODE:-slow}}\n{more}"
    )
    task = write_terminal_bench_task(tmp_path / "t", {"docker-compose.yaml": compose})
    _, box, spec = run(task, environ={"KEY": "k", "HERE": "h"}, sandbox=WithApp)
    assert spec.env == {"TEST_DIR": "/tests", "KEY": "k", "HERE": "h", "MODE": "slow"}
    assert (spec.network, spec.cpus, spec.memory_mb, spec.workdir) == ("no-network", 1, 1024, "/app")
    assert box.ran[-1].user == 0


def test_a_variable_that_is_not_set_is_an_error_that_names_it(tmp_path: Path) -> None:
    compose = f"{COMPOSE}      - KEY=x${{KEY}}\n"
    with pytest.raises(VariableMissing) as caught:
        run(write_terminal_bench_task(tmp_path / "t", {"docker-compose.yaml": compose}))
    assert caught.value.message == (
        "docker-compose.yaml: not set in the environment: KEY (services.client.environment.KEY)"
    )


def test_a_sandbox_of_one_user_runs_what_needs_no_other(tmp_path: Path) -> None:
    _, box, _ = run(write_terminal_bench_task(tmp_path / "t"), sandbox=OneUser)
    assert [ran.user for ran in box.ran if ran.argv[0] == "bash"] == [None]


@pytest.mark.parametrize(
    "files",
    [
        {"Dockerfile": "FROM x\n  user daemon\n"},
        {"docker-compose.yaml": f"{COMPOSE}    user: daemon\n"},
    ],
)
def test_a_sandbox_of_one_user_skips_what_needs_another(files: dict[str, str | None], tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="cannot switch users"):
        run(write_terminal_bench_task(tmp_path / "t", files), sandbox=OneUser)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        (
            {"task.yaml": f"{CONFIG}parser_name: sweperf\n"},
            "task.yaml: parser_name: parser sweperf is not supported; only pytest is",
        ),
        (
            {"task.yaml": f"{CONFIG}run_tests_in_same_shell: true\n"},
            "task.yaml: run_tests_in_same_shell: true needs the agent's own shell",
        ),
        (
            {"docker-compose.yaml": f"{COMPOSE}    privileged: true\n  db: {{}}\n"},
            (
                "docker-compose.yaml: this sandbox runs no services, so it lacks "
                "services beside the client (db), services.client.privileged = True"
            ),
        ),
    ],
)
def test_what_is_not_supported_is_a_skip_that_names_it(
    files: dict[str, str | None], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(Unsupported) as caught:
        run(write_terminal_bench_task(tmp_path / "t", files))
    assert caught.value.reason == reason


def test_the_oracle_needs_a_solution_and_nop_does_not(tmp_path: Path) -> None:
    task = write_terminal_bench_task(tmp_path / "t", {"solution.sh": None})
    with pytest.raises(Unsupported, match="no reference solution"):
        run(task, OracleAgent())
    (tmp_path / "rollout").rmdir()
    assert run(task)[0].rewards == {"reward": 1.0}


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"run-tests.sh": None}, "run-tests.sh: not found (the task's folder holds"),
        ({"Dockerfile": None}, "Dockerfile: not found"),
        ({"task.yaml": "tags: [a]"}, "task.yaml: instruction: required"),
        ({"solution.sh": None, "solution.yaml": "- x: 1"}, "solution.yaml: [0].command: required"),
        ({"docker-compose.yaml": "services: {}"}, "docker-compose.yaml: no service `client`"),
        ({"tests/big": "version https://git-lfs.github.com/spec/v1\n"}, "tests/big: a git-lfs pointer"),
    ],
)
def test_what_is_wrong_is_told_before_anything_starts(
    files: dict[str, str | None], words: str, tmp_path: Path
) -> None:
    with pytest.raises(TaskInvalid) as caught:
        FRAMEWORK.load(write_terminal_bench_task(tmp_path / "t", files), "t")
    assert words in caught.value.message


def test_a_link_out_of_the_task_is_refused(tmp_path: Path) -> None:
    task = write_terminal_bench_task(tmp_path / "t", {"run-tests.sh": None})
    (tmp_path / "secret").write_text("x")
    (task / "run-tests.sh").symlink_to(tmp_path / "secret")
    with pytest.raises(TaskInvalid, match=r"run-tests\.sh: leaves the task"):
        FRAMEWORK.load(task, "t")


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(TaskInvalid, match="no such folder"):
        FRAMEWORK.load(tmp_path / "nowhere", "t")


def test_warnings_and_expectations(tmp_path: Path) -> None:
    files: dict[str, str | None] = {"task.yaml": f"{CONFIG}zzz: x\n", "docker-compose.yaml": None}
    loaded = FRAMEWORK.load(write_terminal_bench_task(tmp_path / "t", files), "t")
    assert loaded.warnings == (
        "task.yaml: zzz: unknown field, ignored",
        "docker-compose.yaml: not found, which Terminal-Bench 1 refuses",
    )
    assert loaded.expectations == {}
    assert loaded.reward_key is None
    assert loaded.reward_range == (0.0, 1.0)


def test_the_digest_is_of_every_file(tmp_path: Path) -> None:
    task = write_terminal_bench_task(
        tmp_path / "t", {".git/HEAD": "", "__pycache__/x.pyc": "", "src/a.c": ""}
    )
    digests = [FRAMEWORK.load(task, "t").digest]
    counted = ("task.yaml", "docker-compose.yaml", "src/a.c", "run-tests.sh", "tests/test_outputs.py")
    for name in (*counted, ".git/HEAD", "__pycache__/x.pyc"):
        with (task / name).open("a") as file:
            file.write("# changed\n")
        digests.append(FRAMEWORK.load(task, "t").digest)
    assert len(set(digests)) == 1 + len(counted)
    assert digests[-1] == digests[-2] == digests[-3]


@pytest.mark.parametrize(
    ("service", "image"),
    [
        ("{build: .}", ImageSpec(context=Path(), slug="name")),
        (
            "{build: {context: tests, dockerfile: D}}",
            ImageSpec(context=Path("tests"), slug="name", options=BuildOptions("D")),
        ),
        ("{image: debian}", ImageSpec(name="debian")),
    ],
)
def test_which_image_a_task_starts_from(service: str, image: ImageSpec, tmp_path: Path) -> None:
    files: dict[str, str | None] = {
        "docker-compose.yaml": f"services: {{client: {service}}}",
        "tests/D": "FROM x",
    }
    root = write_terminal_bench_task(tmp_path / "t", files)
    expected = image if image.context is None else replace(image, context=(root / image.context).resolve())
    assert tuple(FRAMEWORK.images(root, "name")) == (expected,)


def test_services_are_no_image(tmp_path: Path) -> None:
    task = write_terminal_bench_task(tmp_path / "t", {"docker-compose.yaml": f"{COMPOSE}  db: {{}}\n"})
    with pytest.raises(Unsupported) as caught:
        FRAMEWORK.images(task, "t")
    assert caught.value.reason == (
        "docker-compose.yaml: only a container engine can run services beside the client (db)"
    )


class WithServices(ScriptedSandbox):
    capabilities = replace(ScriptedSandbox.capabilities, services=True)
    asked: ImageSpec

    def prepare(self, image: ImageSpec, *, timeout: float | None = None) -> ImageRef:
        type(self).asked = image
        return super().prepare(image, timeout=timeout)


def test_docker_compose_is_told_what_the_harness_would_tell_it(tmp_path: Path) -> None:
    compose = f"{COMPOSE}      - KEY=${{KEY}}\n    working_dir: /x\n    user: me\n  db: {{image: postgres}}\n"
    task = write_terminal_bench_task(tmp_path / "t", {"docker-compose.yaml": compose})
    _, _, spec = run(task, environ={"KEY": "k"}, sandbox=WithServices)
    asked = WithServices.asked.compose
    assert asked is not None
    assert (asked.file, asked.root, asked.main) == (task / "docker-compose.yaml", task, "client")
    told = {name: asked.env[name] for name in asked.env if name.startswith("T_BENCH_") or name == "KEY"}
    assert told == {
        "KEY": "k",
        "T_BENCH_TEST_DIR": "/tests",
        "T_BENCH_CONTAINER_LOGS_PATH": "/logs",
        "T_BENCH_CONTAINER_AGENT_LOGS_PATH": "/agent-logs",
        "T_BENCH_TASK_LOGS_PATH": "/.rlenv-left-out/logs",
        "T_BENCH_TASK_AGENT_LOGS_PATH": "/.rlenv-left-out/agent-logs",
        "T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME": "rlenv/terminal-bench-client",
        "T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME": "rlenv-client",
        "T_BENCH_TASK_DOCKER_NAME_PREFIX": "rlenv",
    }
    assert spec.env == {"TEST_DIR": "/tests", "KEY": "k"}
    assert (spec.workdir, spec.network) == (None, "public")
