"""Faults that a real engine cannot be brought to at will, injected through a small one of our own."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_engine import Answer, FakeEngine, connected, serving

from pytest_rlenv.errors import (
    BuildFailed,
    DiskFull,
    EngineUnavailable,
    ImageUnavailable,
    SandboxFailed,
    StageTimeout,
    Unsupported,
)
from pytest_rlenv.sandboxes.docker import client, pull
from pytest_rlenv.sandboxes.docker import exec as exec_module
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.sandbox import DockerSandbox
from pytest_rlenv.sandboxes.docker.sweep import sweep_stale
from pytest_rlenv.sandboxes.model import BoxSpec, Entry, ImageRef, ImageSpec, SandboxContext

RUNNING = {"State": {"Running": True, "ExitCode": 0}, "Config": {}}
ID = "sha256:" + "1" * 64
IMAGE = ImageRef("x", ID)


@pytest.fixture
def fake() -> FakeEngine:
    fake = FakeEngine()
    fake.answer("GET .*/images/.*/json", Answer({"Id": ID, "Config": {}}))
    fake.answer("POST .*/containers/create", Answer({"Id": "c1"}))
    fake.answer("PUT .*/archive", Answer({}))
    fake.answer("POST .*/start", Answer({}))
    fake.answer("POST .*/kill", Answer({}))
    fake.answer("GET .*/containers/c1/json", Answer(RUNNING))
    fake.answer("DELETE .*/containers/", Answer({}))
    return fake


@pytest.fixture
def engine(fake: FakeEngine) -> Iterator[Engine]:
    with connected(fake) as engine:
        yield engine


@pytest.fixture
def sandbox(engine: Engine, tmp_path: Path) -> DockerSandbox:
    return DockerSandbox(SandboxContext("s", "gw0", tmp_path / "c", tmp_path / "r"), engine)


def test_description(sandbox: DockerSandbox) -> None:
    assert sandbox.describe() == "docker 99.1.2"
    assert (sandbox.capabilities.cpus, sandbox.capabilities.memory_mb) == (4.0, 8192)


def test_gpus_are_not_promised(sandbox: DockerSandbox, fake: FakeEngine) -> None:
    from fake_engine import INFO

    fake.answer("GET .*/info$", Answer(INFO | {"Runtimes": {"runc": {}, "nvidia": {}}}))
    assert sandbox.capabilities.gpus == 0
    assert "GPUs are not used" in sandbox.describe()


def test_windows_engine(fake: FakeEngine) -> None:
    fake.answer("GET .*/version$", Answer({"ApiVersion": "1.41", "Os": "windows"}))
    with serving(fake) as endpoint, pytest.raises(EngineUnavailable, match="runs windows containers"):
        Engine(endpoint)


def test_something_else_answers(fake: FakeEngine) -> None:
    fake.answer("GET .*/version$", Answer({"hello": "world"}))
    with serving(fake) as endpoint, pytest.raises(EngineUnavailable, match="no Docker engine"):
        Engine(endpoint)


@pytest.mark.parametrize(
    ("spec", "warning", "refused"),
    [
        (
            {"memory_mb": 64},
            "Your kernel does not support memory limit capabilities. Limitation discarded.",
            True,
        ),
        ({"cpus": 1}, "Your kernel does not support CPU CFS scheduler. CPU limit discarded.", True),
        ({}, "Your kernel does not support memory limit capabilities. Limitation discarded.", False),
        ({"cpus": 1}, "Your kernel does not support pids limit capabilities. PIDs limit discarded.", False),
        ({"memory_mb": 64}, "Your kernel does not support swap limit. Memory limited without swap.", False),
    ],
)
def test_a_limit_that_does_not_hold(
    spec: dict[str, Any], warning: str, refused: bool, sandbox: DockerSandbox, fake: FakeEngine
) -> None:
    fake.answer("POST .*/containers/create", Answer({"Id": "c1", "Warnings": [warning]}))
    if not refused:
        assert sandbox.start(IMAGE, BoxSpec(**spec)).id == "c1"
        return
    with pytest.raises(Unsupported) as caught:
        sandbox.start(IMAGE, BoxSpec(**spec))
    assert warning in caught.value.reason
    assert fake.count("DELETE .*/containers/c1") == 1


TRANSIENT = Answer(
    {"message": "OCI runtime create failed: waiting for init preliminary setup: connection reset by peer"},
    status=500,
)


def test_a_transient_start_failure_is_retried_with_a_new_container(
    sandbox: DockerSandbox, fake: FakeEngine
) -> None:
    fake.answer("POST .*/c1/start", TRANSIENT, Answer({}))
    assert sandbox.start(IMAGE, BoxSpec(), [Entry("/a", b"x")]).id == "c1"
    assert fake.count("POST .*/containers/create") == 2
    assert fake.count("PUT .*/archive") == 2
    assert fake.count("DELETE .*/containers/c1") == 1


def test_a_start_failure_that_stays_is_an_error(sandbox: DockerSandbox, fake: FakeEngine) -> None:
    fake.answer("POST .*/c1/start", TRANSIENT)
    with pytest.raises(SandboxFailed, match="reset by peer"):
        sandbox.start(IMAGE, BoxSpec())
    assert fake.count("POST .*/containers/create") == 2
    assert fake.count("DELETE .*/containers/c1") == 2


@pytest.mark.parametrize("route", ["POST .*/containers/create", "PUT .*/archive", "POST .*/c1/start"])
def test_full_disk_of_the_engine(route: str, sandbox: DockerSandbox, fake: FakeEngine) -> None:
    fake.answer(route, Answer({"message": "mkdir /var/lib/docker/x: no space left on device"}, status=500))
    with pytest.raises(DiskFull) as caught:
        sandbox.start(IMAGE, BoxSpec(), [Entry("/a", b"x")])
    assert "docker system df" in caught.value.hint


@pytest.mark.parametrize("route", ["POST .*/containers/create", "PUT .*/archive", "POST .*/c1/start"])
def test_engine_that_hangs_up(route: str, sandbox: DockerSandbox, fake: FakeEngine) -> None:
    fake.answer(route, Answer(drop=True))
    with pytest.raises(EngineUnavailable, match="the connection to the Docker engine"):
        sandbox.start(IMAGE, BoxSpec(), [Entry("/a", b"x")])
    assert fake.count("DELETE .*/containers/") == 1, "the container may have been made all the same"


def test_engine_that_goes_silent(
    sandbox: DockerSandbox, fake: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        client.Engine.request, "__kwdefaults__", client.Engine.request.__kwdefaults__ | {"timeout": 0.3}
    )

    def silent() -> Answer:
        time.sleep(1.0)
        return Answer({})

    import re

    fake.routes.insert(0, (re.compile("POST .*/containers/create"), silent))
    with pytest.raises(EngineUnavailable, match="does not answer"):
        sandbox.start(IMAGE, BoxSpec())


OUTPUT = b"\x01\x00\x00\x00\x00\x00\x00\x05hello"


def exec_answers(fake: FakeEngine, start: Answer, *inspect: Answer) -> None:
    fake.answer("POST .*/containers/c1/exec", Answer({"Id": "e1"}))
    fake.answer("POST .*/exec/e1/start", start)
    fake.answer("GET .*/exec/e1/json", *inspect or [Answer({"Running": False, "ExitCode": 0, "Pid": 1})])


@pytest.mark.parametrize("start", [Answer(drop=True), Answer(upgrade=OUTPUT), Answer(upgrade=OUTPUT[:5])])
def test_engine_killed_under_a_command(start: Answer, sandbox: DockerSandbox, fake: FakeEngine) -> None:
    box = sandbox.start(IMAGE, BoxSpec())
    exec_answers(fake, start, Answer(drop=True))
    with pytest.raises(EngineUnavailable):
        box.run(["sleep", "1000"], timeout=60)


def test_engine_restarted_under_a_command(sandbox: DockerSandbox, fake: FakeEngine) -> None:
    box = sandbox.start(IMAGE, BoxSpec())
    exec_answers(fake, Answer(upgrade=OUTPUT), Answer({"message": "No such exec instance: e1"}, status=404))
    fake.answer("GET .*/containers/c1/json", Answer({"State": {"Running": False, "ExitCode": 255}}))
    with pytest.raises(SandboxFailed, match="the box died: PID 1 ended with exit code 255"):
        box.run(["sleep", "1000"], timeout=60)


def test_engine_that_does_not_end_a_command(
    sandbox: DockerSandbox, fake: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_module, "_END_LIMIT", 0.1)
    box = sandbox.start(IMAGE, BoxSpec())
    exec_answers(fake, Answer(upgrade=OUTPUT), Answer({"Running": True, "ExitCode": None, "Pid": 1}))
    with pytest.raises(EngineUnavailable, match="ended a command's output, but not the command"):
        box.run(["sleep", "1000"], timeout=60)


def test_output_that_comes_with_the_headers_is_kept(sandbox: DockerSandbox, fake: FakeEngine) -> None:
    box = sandbox.start(IMAGE, BoxSpec())
    exec_answers(fake, Answer(upgrade=OUTPUT * 100))
    for _ in range(20):
        assert box.run(["x"], timeout=60).stdout == b"hello" * 100


def test_output_that_is_no_frames(sandbox: DockerSandbox, fake: FakeEngine) -> None:
    box = sandbox.start(IMAGE, BoxSpec())
    exec_answers(fake, Answer(upgrade=b"not multiplexed at all"))
    with pytest.raises(SandboxFailed, match="cannot be read"):
        box.run(["x"], timeout=60)


def test_newer_engines_refuse_a_command_in_their_answer(sandbox: DockerSandbox, fake: FakeEngine) -> None:
    box = sandbox.start(IMAGE, BoxSpec())
    fake.answer("POST .*/containers/c1/exec", Answer({"Id": "e1"}))
    words = 'OCI runtime exec failed: exec failed: exec: "nope": executable file not found in $PATH: unknown'
    fake.answer("POST .*/exec/e1/start", Answer({"message": words}, status=400))
    with pytest.raises(SandboxFailed, match="command 'nope' is not in the image"):
        box.run(["nope"])


def test_destroy_never_raises(
    sandbox: DockerSandbox, fake: FakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    box = sandbox.start(IMAGE, BoxSpec())
    fake.answer("DELETE .*/containers/c1", Answer({"message": "driver failed"}, status=500))
    box.destroy()
    sandbox.close()
    assert fake.requests[-1].endswith("force=1"), "the second try forces"
    assert "driver failed" in caplog.text


def test_removal_by_somebody_else_is_fine(
    sandbox: DockerSandbox, fake: FakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    box = sandbox.start(IMAGE, BoxSpec())
    words = "removal of container c1 is already in progress"
    fake.answer("DELETE .*/containers/c1", Answer({"message": words}, status=409))
    box.destroy()
    sandbox.close()
    assert caplog.text == ""


def container(name: str, **labels: str) -> dict[str, Any]:
    return {"Id": name, "Labels": {key.replace("_", "."): value for key, value in labels.items()}}


def test_sweeps_ask_for_our_labels_only(fake: FakeEngine, engine: Engine) -> None:
    found = [
        container("late", rlenv="1", rlenv_deadline="1"),
        container("alive", rlenv="1", rlenv_deadline="99999999999"),
        container("foreign", rlenv_deadline="1"),
    ]
    fake.answer("GET .*/containers/json", Answer(found))
    fake.answer("GET .*/networks", Answer([{**each, "Name": each["Id"]} for each in found]))
    fake.answer("GET .*/volumes", Answer({"Volumes": [{**each, "Name": each["Id"]} for each in found]}))
    assert sweep_stale(engine=engine) == 1
    removed = [request.partition("?")[0] for request in fake.requests if request.startswith("DELETE")]
    assert [request.split("/")[-2:] for request in removed] == [
        [kind, "late"] for kind in ("containers", "networks", "volumes")
    ]
    listing = [request for request in fake.requests if "filters" in request]
    assert len(listing) == 3
    assert all("rlenv%3D1" in request for request in listing)


# Pulls

NO_IMAGE = Answer({"message": "No such image: some/image:1"}, status=404)
Pull = Callable[..., None]


@pytest.fixture
def missing(fake: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    monkeypatch.setattr(pull, "FIRST_PAUSE", 0.01)
    monkeypatch.setenv("DOCKER_CONFIG", "/nonexistent")
    fake.answer("GET .*/images/.*/json", NO_IMAGE, NO_IMAGE, Answer({"Id": ID, "Config": {}}))
    return fake


def pulled(*lines: Any) -> Answer:
    return Answer(lines=[{"status": "Pulling from some/image"}, *lines])


def test_pull(sandbox: DockerSandbox, missing: FakeEngine) -> None:
    missing.answer("POST .*/images/create", pulled({"status": "Downloaded"}))
    assert sandbox.prepare(ImageSpec(name="some/image:1")) == ImageRef("some/image:1", ID)
    assert missing.count("POST .*/images/create.fromImage=some%2Fimage&tag=1$") == 1


def test_pull_is_tried_again_where_that_helps(sandbox: DockerSandbox, missing: FakeEngine) -> None:
    limit = pulled({"error": "toomanyrequests: You have reached your pull rate limit"})
    broken = Answer({"message": "received unexpected HTTP status: 503 Service Unavailable"}, status=500)
    missing.answer("POST .*/images/create", limit, broken, pulled())
    assert sandbox.prepare(ImageSpec(name="some/image:1")).id == ID
    assert missing.count("POST .*/images/create") == 3


@pytest.mark.parametrize(
    ("reason", "tries", "hint"),
    [
        ("manifest for some/image:1 not found: manifest unknown", 1, "spelled right"),
        ("pull access denied for some/image, may require 'docker login': denied", 1, "docker login"),
        ("dial tcp: lookup registry-1.docker.io: no such host", 1, "cannot reach"),
        ("toomanyrequests: You have reached your pull rate limit", 4, "rate limit"),
        ("net/http: TLS handshake timeout", 4, "cannot reach"),
    ],
)
def test_pull_that_fails(
    reason: str, tries: int, hint: str, sandbox: DockerSandbox, missing: FakeEngine
) -> None:
    missing.answer("GET .*/images/.*/json", NO_IMAGE)
    missing.answer("POST .*/images/create", pulled({"error": reason, "errorDetail": {"message": reason}}))
    with pytest.raises(ImageUnavailable) as caught:
        sandbox.prepare(ImageSpec(name="some/image:1"))
    assert "'some/image:1'" in caught.value.message
    assert reason[:20] in caught.value.message
    assert hint in caught.value.hint
    assert missing.count("POST .*/images/create") == tries


def test_pull_with_a_full_disk(sandbox: DockerSandbox, missing: FakeEngine) -> None:
    missing.answer("POST .*/images/create", pulled({"error": "write /x: no space left on device"}))
    with pytest.raises(DiskFull):
        sandbox.prepare(ImageSpec(name="some/image:1"))


def test_pull_that_takes_too_long(sandbox: DockerSandbox, missing: FakeEngine) -> None:
    import re

    def slow() -> Answer:
        time.sleep(1.5)
        return pulled()

    missing.routes.insert(0, (re.compile("POST .*/images/create"), slow))
    with pytest.raises(StageTimeout) as caught:
        sandbox.prepare(ImageSpec(name="some/image:1"), timeout=0.4)
    assert caught.value.stage.value == "build"


def test_registry_credentials_are_sent(
    sandbox: DockerSandbox, missing: FakeEngine, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from docker.auth import AuthConfig

    logins = {"https://index.docker.io/v1/": {"username": "me", "password": "pw"}}
    engine.api._auth_configs = AuthConfig({"auths": logins})
    seen: list[dict[str, str]] = []
    request = engine.request

    def noting(*arguments: Any, **keywords: Any) -> Any:
        seen.append(keywords.get("headers") or {})
        return request(*arguments, **keywords)

    monkeypatch.setattr(engine, "request", noting)
    missing.answer("POST .*/images/create", pulled())
    sandbox.prepare(ImageSpec(name="some/image:1"))
    assert any("X-Registry-Auth" in headers for headers in seen)


# Builds

ABSENT = Answer({"message": "No such image"}, status=404)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ctx").mkdir()
    (tmp_path / "ctx" / "Dockerfile").write_text("FROM scratch\nRUN make\n")
    return tmp_path / "ctx"


def built(*lines: Any) -> Answer:
    return Answer(lines=list(lines))


DONE = built(
    {"stream": "Step 1/2 : FROM scratch\n"}, {"aux": {"ID": ID}}, {"stream": "Successfully tagged\n"}
)


def test_old_builder(sandbox: DockerSandbox, fake: FakeEngine, folder: Path) -> None:
    fake.answer("GET .*/images/.*/json", ABSENT)
    fake.answer("POST .*/build", DONE)
    image = sandbox.prepare(ImageSpec(context=folder, slug="My Task!"))
    assert (image.id, image.built) == (ID, True)
    assert image.name.startswith("rlenv/my-task:")
    assert fake.count("POST .*/build.*version=2") == 0


def test_old_builder_refuses_what_it_gets_wrong(
    sandbox: DockerSandbox, fake: FakeEngine, folder: Path
) -> None:
    (folder / "Dockerfile").write_text("FROM scratch\nRUN <<EOF\necho hi\nEOF\n")
    with pytest.raises(BuildFailed, match=r"uses a heredoc \(<<\), but this engine has no BuildKit"):
        sandbox.prepare(ImageSpec(context=folder))
    assert fake.count("POST .*/build") == 0


def test_buildkit_is_asked_for(sandbox: DockerSandbox, fake: FakeEngine, folder: Path) -> None:
    ping = Answer("OK")
    ping.headers["Builder-Version"] = "2"
    fake.answer("GET .*/_ping$", ping)
    fake.answer("GET .*/images/.*/json", ABSENT)
    fake.answer("POST .*/build", built({"id": "moby.image.id", "aux": {"ID": ID}}))
    assert sandbox.prepare(ImageSpec(context=folder)).id == ID
    assert fake.count("POST .*/build.*version=2") == 1


FLAKY = built(
    {"stream": "Step 2/2 : RUN make\n"},
    {"stream": "Err: Connection reset by peer\n"},
    {"error": "exit code 100", "errorDetail": {"message": "exit code 100"}},
)
BROKEN = built(
    {"stream": "Step 2/2 : RUN make\n"}, {"error": "no rule", "errorDetail": {"message": "no rule"}}
)


@pytest.mark.parametrize(
    ("answers", "builds", "cached"), [((FLAKY, DONE), 1, False), ((FLAKY,), 4, False), ((BROKEN,), 1, True)]
)
def test_failures_are_retried_or_remembered(
    answers: tuple[Answer, ...],
    builds: int,
    cached: bool,
    sandbox: DockerSandbox,
    fake: FakeEngine,
    folder: Path,
) -> None:
    """Flaky ones twice per call and never remembered, others once and for all workers."""
    fake.answer("GET .*/images/.*/json", ABSENT)
    fake.answer("POST .*/build", *answers)
    if answers == (FLAKY, DONE):
        assert sandbox.prepare(ImageSpec(context=folder)).built
        assert fake.count("POST .*/build") == 2
        return
    errors = []
    for _ in range(2):
        with pytest.raises(BuildFailed, match="RUN make") as caught:
            sandbox.prepare(ImageSpec(context=folder))
        errors.append((caught.value.message, caught.value.hint, caught.value.detail))
    assert errors[0] == errors[1]
    assert fake.count("POST .*/build") == builds
    remembered = list((folder.parent / "r" / "failed-builds").glob("*.json"))
    assert bool(remembered) is cached
    if cached:
        assert json.loads(remembered[0].read_text())["message"] == errors[0][0]


def test_builder_that_says_nothing(sandbox: DockerSandbox, fake: FakeEngine, folder: Path) -> None:
    fake.answer("GET .*/images/.*/json", ABSENT)
    fake.answer("POST .*/build", built())
    with pytest.raises(BuildFailed, match="without saying how"):
        sandbox.prepare(ImageSpec(context=folder))


def test_lock_that_cannot_be_made(
    sandbox: DockerSandbox, fake: FakeEngine, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "c").write_text("a file where the cache should be")
    fake.answer("GET .*/images/.*/json", ABSENT)
    with pytest.raises(SandboxFailed, match="cannot make a lock"):
        sandbox.prepare(ImageSpec(context=folder))
