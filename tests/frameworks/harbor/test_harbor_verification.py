"""Where a verifier runs, what it is given there, and how far that is from what the agent left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.rollouts import Runner, Scripted, write_steps
from support.tasks import write_task

from pytest_rlenv.errors import ArtifactsTooLarge, BoxUnfit, VariableMissing
from pytest_rlenv.frameworks.harbor import carrying, collecting, session
from pytest_rlenv.frameworks.harbor.carrying import as_artifacts
from pytest_rlenv.frameworks.harbor.collecting import Found
from pytest_rlenv.frameworks.harbor.config import parse_config
from pytest_rlenv.frameworks.harbor.definitions import verifier_definition
from pytest_rlenv.frameworks.harbor.steps import steps_of
from pytest_rlenv.frameworks.harbor.task import load_task
from pytest_rlenv.sandboxes.model import Entry

SEPARATE = '[verifier]\nenvironment_mode = "separate"\n'
ONE = "# scripted: reward=1"


@pytest.fixture
def run(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


IMAGES: dict[str, tuple[str, list[str], str | None, tuple[str, str | None, str, bool] | None]] = {
    "shared": ("", ["tests/Dockerfile"], None, None),
    "a copy": (SEPARATE, [], None, ("environment", None, "environment", False)),
    "a copy of an image": (
        f'{SEPARATE}[environment]\ndocker_image = "task"',
        [],
        None,
        ("environment", "task", "environment", False),
    ),
    "a copy with own limits": (
        "[verifier.environment]\nmemory_mb = 64",
        [],
        None,
        ("verifier.environment", None, "environment", False),
    ),
    "tests/Dockerfile": (SEPARATE, ["tests/Dockerfile"], None, ("environment", None, "tests", True)),
    "tests/docker-compose.yaml": (
        SEPARATE,
        ["tests/docker-compose.yaml"],
        None,
        ("environment", None, "tests", True),
    ),
    "docker_image beats tests/Dockerfile": (
        '[verifier.environment]\ndocker_image = "v"',
        ["tests/Dockerfile"],
        None,
        ("verifier.environment", "v", "tests", True),
    ),
    "a step's Dockerfile beats the task's image": (
        '[verifier.environment]\ndocker_image = "v"',
        ["steps/s/tests/Dockerfile", "tests/Dockerfile"],
        "",
        ("verifier.environment", None, "steps/s/tests", True),
    ),
    "a step's image beats all": (
        SEPARATE,
        ["steps/s/tests/Dockerfile"],
        'verifier = {environment = {docker_image = "s"}}',
        ("steps.s.verifier.environment", "s", "steps/s/tests", True),
    ),
    "the task's image with a step's limits": (
        '[verifier.environment]\ndocker_image = "v"',
        [],
        "verifier = {environment = {cpus = 1}}",
        ("steps.s.verifier.environment", "v", "tests", True),
    ),
    "a step that is shared": (
        '[verifier.environment]\ndocker_image = "v"',
        [],
        'verifier = {environment_mode = "shared"}',
        None,
    ),
}


@pytest.mark.parametrize("case", IMAGES)
def test_the_image_of_a_separate_verifier(tmp_path: Path, case: str) -> None:
    toml, files, step, expected = IMAGES[case]
    if step is not None:
        toml += f'\n[[steps]]\nname = "s"\n{step}'
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    config, _ = parse_config(toml, "task.toml")
    found = verifier_definition(tmp_path, config, config.steps[0] if config.steps else None)
    if expected is None:
        assert found is None
        return
    assert found is not None
    folder = found.folder.relative_to(tmp_path).as_posix()
    assert (found.where, found.docker_image, folder, found.bundles_tests) == expected


def test_a_separate_verifier_sees_the_artifacts_only(run: Runner, tmp_path: Path) -> None:
    task = write_task(
        tmp_path / "task",
        config=f'artifacts = ["/app/answer", {{source = "/out", destination = "elsewhere"}}]\n{SEPARATE}',
        test="# scripted: reward-if=/app/answer",
    )
    agent = Scripted(
        "/app/answer", "/app/secret", "/out/a/b", "/logs/artifacts/c", "/logs/agent/d", "/tests/e"
    )
    done = run(task, agent)
    assert done.error is None
    assert done.rollout.rewards == {"reward": 1.0}
    first, second = done.boxes
    brought = {"/app/answer", "/out/a/b", "/logs/artifacts/c", "/tests/test.sh", "/logs/verifier/reward.txt"}
    assert {name for name, entry in second.files.items() if not entry.is_dir} == brought
    assert (done.rollout.verifier_level, done.rollout.verifier_image) == ("separate", "rlenv/t@sha256:0")
    assert (done.folder / "verifier/reward.txt").exists()
    assert (done.folder / "artifacts/elsewhere/a/b").exists()
    assert not any(ran.argv[-1] == "/tests/test.sh" for ran in first.ran)


@pytest.mark.parametrize("level", ["shared", "quiesce", "fresh"])
def test_a_level_does_not_touch_a_separate_verifier(run: Runner, tmp_path: Path, level: str) -> None:
    done = run(write_task(tmp_path / "task", config=SEPARATE, test=ONE), level=level)
    assert done.rollout.verifier_level == "separate"
    assert "quiesce" not in [ran.argv[0] for box in done.boxes for ran in box.ran]


def test_its_box_is_as_its_own_table_says(run: Runner, tmp_path: Path) -> None:
    config = """
[environment]
memory_mb = 100
env = {WHERE = "agent"}
[verifier]
user = "v"
timeout_sec = 12
env = {A = "${A}"}
network_mode = "no-network"
[verifier.environment]
docker_image = "judge"
cpus = 0.5
memory_mb = 64
workdir = "/tests"
env = {WHERE = "${WHERE:-judge}"}
"""
    task = write_task(tmp_path / "task", config=config, test=None)
    run.environ = {"A": "a"}
    done = run(task, Scripted("/tests/test.sh"))
    assert isinstance(done.error, BoxUnfit)
    assert done.error.message == "[verifier.environment] workdir = '/tests' does not exist in the image"
    (agents, own), (image, spec) = done.sandbox.started
    assert (own.memory_mb, own.network, dict(own.env)) == (100, "public", {"WHERE": "agent"})
    assert image.name == "judge"
    assert (spec.cpus, spec.memory_mb, spec.network, dict(spec.env), spec.workdir) == (
        0.5,
        64,
        "no-network",
        {"WHERE": "judge"},
        "/tests",
    )
    assert spec.lifetime == 12 + session.SLACK
    assert agents.name == "rlenv/t"


def test_variables_of_all_boxes_are_asked_for_before_the_start(run: Runner, tmp_path: Path) -> None:
    config = """
[verifier.env]
A = "${NO_A}"
[verifier.environment.env]
B = "${NO_B}"
[[steps]]
name = "s"
verifier = {env = {C = "${NO_C}"}}
"""
    task = write_steps(tmp_path / "task", config, {"s": {"tests/test.sh": ONE, "solution/solve.sh": ""}})
    done = run(task)
    assert isinstance(done.error, VariableMissing)
    for words in ("NO_A ([steps.s.verifier.env] A)", "NO_B ([verifier.environment.env] B)", "NO_C"):
        assert words in done.error.message
    assert done.boxes == []


@pytest.mark.parametrize("in_image", [True, False])
def test_bundled_tests(run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_image: bool) -> None:
    task = write_task(tmp_path / "task", config=SEPARATE, test="# scripted: reward=0")
    (task / "tests/Dockerfile").write_text("FROM scratch")
    if in_image:

        def start_with_tests(self: Any, image: Any, spec: Any, entries: Any = ()) -> Any:
            box = start(self, image, spec, entries)
            box.put([Entry("tests/test.sh", f"#!/bin/bash\n{ONE}".encode())])
            return box

        start = type(run(task).sandbox).start
        monkeypatch.setattr("support.scripted.ScriptedSandbox.start", start_with_tests)
    done = run(task)
    if in_image:
        assert done.rollout.rewards == {"reward": 1.0}
        assert ("chmod", "+x", "/tests/test.sh") in [ran.argv for ran in done.boxes[1].ran]
    else:
        assert isinstance(done.error, BoxUnfit)
        assert done.error.message == "the verifier's image rlenv/t has no /tests/test.sh"
        assert "COPY . /tests" in done.error.hint


def test_an_image_that_does_not_build_is_known_before_the_agent_acts(run: Runner, tmp_path: Path) -> None:
    task = write_task(tmp_path / "task", config=SEPARATE)
    (task / "tests/Dockerfile").write_text("RUN build-fails")
    agent = Scripted()
    done = run(task, agent)
    assert done.error is not None
    assert type(done.error).__name__ == "BuildFailed"
    assert agent.given == []


def test_a_reward_in_an_artifact_is_not_the_verifiers(run: Runner, tmp_path: Path) -> None:
    config = f'artifacts = ["/logs/verifier", "/tests"]\n{SEPARATE}'
    task = write_task(tmp_path / "task", config=config, test="# scripted: print=nothing")
    done = run(task, Scripted("/logs/verifier/reward.txt", "/logs/verifier/notes.txt", "/tests/test.sh"))
    assert done.error is not None
    assert type(done.error).__name__ == "RewardMissing"
    assert "/logs/verifier/notes.txt" in done.boxes[1].files
    assert done.boxes[1].files["/tests/test.sh"].content != b"made by the agent"


def test_steps_of_both_kinds(run: Runner, tmp_path: Path) -> None:
    config = """
artifacts = ["/app/all"]
[[steps]]
name = "apart"
artifacts = ["/app/first"]
verifier = {environment_mode = "separate"}
[[steps]]
name = "together"
[[steps]]
name = "last"
verifier = {environment_mode = "separate"}
"""
    test = {"tests/test.sh": "# scripted: reward-if=/app/first"}
    task = write_steps(tmp_path / "task", config, {"apart": test, "together": test, "last": test})
    agent = Scripted("/app/all", "/app/first")
    done = run(task, agent)
    assert done.error is None
    assert [step.rewards for step in done.rollout.steps] == [
        {"reward": 1.0},
        {"reward": 1.0},
        {"reward": 0.0},
    ]
    assert [step.verifier_level for step in done.rollout.steps] == ["separate", "shared", "separate"]
    assert done.rollout.verifier_level == "separate, shared"
    assert len(done.boxes) == 3
    assert not any("/tests/" in name for name in agent.seen[1])  # the first step's were never in this box
    assert not any("/tests/" in name for name in agent.seen[2])
    agents = done.boxes[0]
    wipes = [ran for ran in agents.ran if "rm -rf" in ran.argv[-1] and "/tests" in ran.argv[-1]]
    assert len(wipes) == 1  # after the second step's verifier; before it, they are replaced as they are put


def test_quiesce_kills_before_anything_is_brought(run: Runner, tmp_path: Path) -> None:
    done = run(write_task(tmp_path / "task"), level="quiesce")
    assert done.rollout.rewards == {"reward": 1.0}
    assert done.rollout.verifier_level == "quiesce"
    (box,) = done.boxes
    words = [ran.argv[0] for ran in box.ran]
    assert words == ["bash", "quiesce", "bash"]


def test_a_fresh_box_has_the_working_directory_and_the_agents_logs(run: Runner, tmp_path: Path) -> None:
    task = write_task(
        tmp_path / "task", config='artifacts = ["/out", "/app/x"]\n', test="# scripted: reward-if=/app/x/y"
    )
    agent = Scripted(
        "/app/x/y", "/usr/bin/bash", "/out/z", "/logs/agent/a", "/logs/artifacts/b", "/tests/conftest.py"
    )
    done = run(task, agent, level="fresh")
    assert done.error is None
    assert done.rollout.rewards == {"reward": 1.0}
    assert done.rollout.verifier_level == "fresh"
    assert done.rollout.verifier_image == done.rollout.image
    _, fresh = done.boxes
    found = {name for name, entry in fresh.files.items() if not entry.is_dir}
    assert found == {
        "/app/x/y",
        "/out/z",
        "/logs/agent/a",
        "/logs/agent/own.log",
        "/logs/artifacts/b",
        "/tests/test.sh",
        "/logs/verifier/reward.txt",
    }
    assert sorted(path.name for path in done.folder.iterdir()) == [
        "agent",
        "artifacts",
        "instruction.md",
        "verifier",
    ]


def test_a_fresh_box_for_each_step(run: Runner, tmp_path: Path) -> None:
    toml = '[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'
    test = {"tests/test.sh": "# scripted: reward-if=/app/made"}
    agent = Scripted("/app/made")
    done = run(write_steps(tmp_path / "task", toml, {"one": test, "two": test}), agent, level="fresh")
    assert done.rollout.rewards == {"reward": 1.0}
    assert len(done.boxes) == 3
    assert not any(name.startswith("/tests") for name in agent.seen[1])


@pytest.mark.parametrize("workdir", ["/", "/tests", "/logs", "/logs/verifier/x"])
def test_a_fresh_box_needs_a_working_directory(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workdir: str
) -> None:
    monkeypatch.setattr("support.scripted.WORKDIR", workdir)
    done = run(write_task(tmp_path / "task"), level="fresh")
    assert done.skipped.startswith(f"--rlenv-verifier fresh: the image's working directory is {workdir},")


@pytest.mark.parametrize(
    ("config", "level"), [("", "fresh"), (f'artifacts = ["/app"]\n{SEPARATE}', "shared")]
)
def test_what_is_too_large_to_carry_is_an_error_never_less(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str, level: str
) -> None:
    for module in (carrying, collecting):
        monkeypatch.setattr(module, "MAX_BYTES", 1)
    done = run(write_task(tmp_path / "task", config=config), Scripted("/app/a"), level=level)
    assert isinstance(done.error, ArtifactsTooLarge)
    assert "so the verifier cannot be given all" in done.error.message
    assert len(done.boxes) == 1


@pytest.mark.parametrize(
    ("path", "target", "kept"),
    [
        ("a", "b", True),
        ("a/b", "../c", True),
        ("a/b", "../../c", False),
        ("a", "..", False),
        ("a", "/etc/passwd", False),
        ("a/b", "./../a/../../a", False),
        ("a/b/c", "../../d/../e", True),
    ],
)
def test_links_that_leave_an_artifact_are_not_carried(path: str, target: str, kept: bool) -> None:
    found = Found("/app", [Entry("", mode=0o700, uid=5), Entry(path, link=target, uid=7)], is_dir=True)
    (carried,) = as_artifacts([found])
    assert [(entry.path, entry.uid, entry.mode) for entry in carried.entries[:1]] == [("", 0, 0o777)]
    assert [(entry.path, entry.link, entry.uid) for entry in carried.entries[1:]] == (
        [(path, target, 0)] if kept else []
    )


@pytest.mark.parametrize(("source", "opened"), [("/app/x", True), ("/x", False), ("/tmp/x", False)])
def test_the_folder_of_a_carried_file_is_open(source: str, opened: bool) -> None:
    (carried,) = as_artifacts([Found(source, [Entry("x", b"", 0o4755)], is_dir=False)])
    assert [(entry.path, entry.mode) for entry in carried.entries] == [
        *([("", 0o777)] if opened else []),
        ("x", 0o755),
    ]


def test_a_separate_verifier_needs_a_script_where_nothing_bundles_it(tmp_path: Path) -> None:
    task = write_task(tmp_path / "task", config=SEPARATE)
    (step,) = steps_of(load_task(task, "t"))
    assert step.verifier_definition is not None
    assert [entry.path for entry in step.tests_entries()] == ["test.sh"]
