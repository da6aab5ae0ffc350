"""Builds, against a real engine."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.engine import BASE, remove_image, write_context

from pytest_rlenv.errors import BoxUnfit, BuildFailed, ImageUnavailable, StageTimeout, TaskInvalid
from pytest_rlenv.sandboxes.docker.box import DockerBox
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.sandbox import DockerSandbox
from pytest_rlenv.sandboxes.model import NO_NETWORK, BoxSpec, ImageRef, ImageSpec, SandboxContext

pytestmark = pytest.mark.docker

Build = Callable[..., ImageRef]
Start = Callable[..., DockerBox]

PREPARE = """
import sys, pathlib
from pytest_rlenv.sandboxes.docker import DockerSandbox
from pytest_rlenv.sandboxes.model import ImageSpec, SandboxContext
folder, base, worker = sys.argv[1:]
context = SandboxContext("concurrent", worker, pathlib.Path(base, "cache"), pathlib.Path(base, "run"))
try:
    image = DockerSandbox(context).prepare(ImageSpec(context=pathlib.Path(folder), slug="four"))
    print(image.name, image.id, image.built)
except Exception as error:
    print(type(error).__name__, error)
"""


def in_four_processes(folder: Path, base: Path) -> list[str]:
    argv = [sys.executable, "-c", PREPARE, str(folder), str(base)]
    processes = [subprocess.Popen([*argv, f"gw{n}"], stdout=subprocess.PIPE, text=True) for n in range(4)]
    return [process.communicate(timeout=120)[0].strip() for process in processes]


def test_local_name(sandbox: DockerSandbox, engine: Engine) -> None:
    image = sandbox.prepare(ImageSpec(name=BASE))
    assert image.id == engine.get(f"/images/{BASE}/json", doing="look")["Id"]
    assert (image.name, image.built) == (BASE, False)


def test_name_that_no_registry_gives(sandbox: DockerSandbox) -> None:
    with pytest.raises(ImageUnavailable, match="'localhost:1/nope:1' is not here and cannot be pulled"):
        sandbox.prepare(ImageSpec(name="localhost:1/nope:1"))


@pytest.mark.parametrize("name", ["Not A Name!", "UPPER/case", "a::b"])
def test_name_that_is_none(name: str, sandbox: DockerSandbox) -> None:
    with pytest.raises(BoxUnfit, match="not a valid image name"):
        sandbox.prepare(ImageSpec(name=name))


def test_build_and_find_again(build: Build, sandbox: DockerSandbox, engine: Engine, tmp_path: Path) -> None:
    folder = write_context(
        tmp_path / "c", f"FROM {BASE}\nRUN echo made >/made\nCOPY data /data", {"data": "d"}
    )
    first = sandbox.prepare(ImageSpec(context=folder, slug="Build & find"))
    try:
        assert first.built
        assert first.name.startswith("rlenv/build-find:")
        assert sandbox.prepare(ImageSpec(context=folder, slug="Build & find")) == ImageRef(
            first.name, first.id
        )
        labels = engine.get(f"/images/{first.id}/json", doing="look")["Config"]["Labels"]
        assert labels["rlenv"] == "1"
        assert labels["rlenv.key"].startswith(first.name.rpartition(":")[2])
        (folder / "data").write_text("changed")
        second = sandbox.prepare(ImageSpec(context=folder, slug="Build & find"))
        assert second.built
        assert second.id != first.id
        remove_image(engine, second.name)
    finally:
        remove_image(engine, first.name)


def test_what_differs_in_its_name_only_is_built_once(
    sandbox: DockerSandbox, engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = write_context(tmp_path / "c", f"FROM {BASE}\nRUN echo {uuid.uuid4()} >/made\n")
    builds = []
    request = engine.request

    def noting(method: str, path: str, **keywords: Any) -> Any:
        if path == "/build":
            builds.append(path)
        return request(method, path, **keywords)

    monkeypatch.setattr(engine, "request", noting)
    names = ["one name", "another", "a third"]
    images = [sandbox.prepare(ImageSpec(context=folder, slug=name)) for name in names[:2]]
    try:
        assert len({image.name for image in images}) == 2
        assert len({image.id for image in images}) == 1
        assert len(builds) == 1
        for image in images:
            remove_image(engine, image.name)
        images = [sandbox.prepare(ImageSpec(context=folder, slug=names[2]))]
        assert len(builds) == 2, "an image that somebody removed meanwhile is built again"
    finally:
        for image in images:
            remove_image(engine, image.name)


def test_key_follows_the_base_image(
    build: Build, sandbox: DockerSandbox, engine: Engine, tmp_path: Path
) -> None:
    """A tag that moves must not leave a stale image behind."""
    base = f"rlenv-test-base-{uuid.uuid4().hex[:8]}:1"
    folder = write_context(tmp_path / "c", f"FROM {base}\nRUN cat /version >/seen")
    images = []
    try:
        for version in ("one", "two"):
            made = build(f"FROM {BASE}\nRUN echo {version} >/version")
            params = {"repo": base.split(":")[0], "tag": "1"}
            engine.request("POST", f"/images/{made.id}/tag", params=params, doing="tag")
            images.append(sandbox.prepare(ImageSpec(context=folder)))
    finally:
        for image in images:
            remove_image(engine, image.name)
        remove_image(engine, base)
    assert len({image.name for image in images}) == 2


def test_file_of_the_build(build: Build, start: Start) -> None:
    files = {"keep/a": "kept", "skip/b": "x", "keep/c.log": "x", ".dockerignore": "skip\n**/*.log\n"}
    image = build(f"FROM {BASE}\nARG WHO=me\nWORKDIR /ctx\nCOPY . .\nRUN echo $WHO >/who\nENV X=y", files)
    box = start(image)
    done = box.run(["sh", "-c", "pwd; ls -A . keep; cat /who; echo $X"])
    assert done.stdout.decode().split("\n")[:10] == [
        "/ctx", ".:", ".dockerignore", "Dockerfile", "keep", "", "keep:", "a", "me", "y",
    ]  # fmt: skip


def test_buildkit_features(build: Build, start: Start) -> None:
    """Unused stages are skipped (this one cannot be built), and mounts work."""
    image = build(
        f"FROM localhost:1/not/there AS unused\nRUN false\n"
        f"FROM {BASE} AS tools\nRUN echo tool >/tool\n"
        f"FROM {BASE}\nCOPY --from=tools /tool /tool\n"
        "RUN --mount=type=bind,from=tools,source=/tool,target=/mnt/tool cat /mnt/tool >/seen"
    )
    assert start(image).run(["cat", "/tool", "/seen"]).stdout == b"tool\ntool\n"


def test_heredoc_works_or_is_an_error(build: Build, start: Start, engine: Engine) -> None:
    """Never a build that succeeds and has done nothing."""
    dockerfile = f"FROM {BASE}\nRUN <<EOF\necho hi >/one\nEOF"
    if int(engine.version().split(".")[0]) >= 23:
        assert start(build(dockerfile)).run(["cat", "/one"]).stdout == b"hi\n"
        return
    with pytest.raises(BuildFailed, match="unknown instruction") as caught:
        build(dockerfile)
    assert "here-documents" in caught.value.hint


def test_failed_step_is_named_and_remembered(
    sandbox: DockerSandbox, context: SandboxContext, tmp_path: Path
) -> None:
    dockerfile = f"FROM {BASE}\nRUN echo before\nRUN echo evidence; no-such-command"
    folder = write_context(tmp_path / "c", dockerfile)
    errors = []
    for _ in range(2):
        begin = time.monotonic()
        with pytest.raises(BuildFailed) as caught:
            sandbox.prepare(ImageSpec(context=folder))
        errors.append((caught.value, time.monotonic() - begin))
    error = errors[0][0]
    assert "RUN echo evidence; no-such-command" in error.message
    assert "127" in error.message
    assert "evidence" in error.detail.splitlines()
    assert "no-such-command: not found" in error.detail
    assert "before" not in error.detail
    assert (errors[1][0].message, errors[1][0].detail) == (error.message, error.detail)
    other = DockerSandbox(SandboxContext("other", "gw0", context.cache_dir, tmp_path / "another-run"))
    with pytest.raises(BuildFailed):
        other.prepare(ImageSpec(context=folder))
    assert list((tmp_path / "another-run").rglob("*.json")), "another run tries for itself"


def test_missing_base_image(sandbox: DockerSandbox, tmp_path: Path) -> None:
    folder = write_context(tmp_path / "c", "FROM localhost:1/no/such/base:2\nRUN true")
    with pytest.raises(ImageUnavailable, match="'localhost:1/no/such/base:2'"):
        sandbox.prepare(ImageSpec(context=folder))


def test_missing_frontend(sandbox: DockerSandbox, tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "Dockerfile").write_text(f"# syntax=localhost:1/no/frontend:1\nFROM {BASE}\n")
    with pytest.raises(ImageUnavailable, match="'localhost:1/no/frontend:1'"):
        sandbox.prepare(ImageSpec(context=tmp_path / "c"))


def test_no_dockerfile(sandbox: DockerSandbox, tmp_path: Path) -> None:
    with pytest.raises(TaskInvalid, match=f"no Dockerfile in {tmp_path}"):
        sandbox.prepare(ImageSpec(context=tmp_path))


def test_copy_of_what_is_not_there(sandbox: DockerSandbox, tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match="nofile"):
        sandbox.prepare(ImageSpec(context=write_context(tmp_path / "c", f"FROM {BASE}\nCOPY nofile /x")))


def test_time_limit_ends_the_build(sandbox: DockerSandbox, tmp_path: Path) -> None:
    mark = f"9{uuid.uuid4().int % 10**6:06d}"
    folder = write_context(tmp_path / "c", f"FROM {BASE}\nRUN sleep {mark}")
    begin = time.monotonic()
    with pytest.raises(StageTimeout) as caught:
        sandbox.prepare(ImageSpec(context=folder), timeout=2.0)
    assert caught.value.stage.value == "build"
    assert time.monotonic() - begin < 30
    assert gone_within(20, lambda: f"sleep {mark}" not in command_lines()), "the engine builds on"


def gone_within(seconds: float, gone: Callable[[], bool]) -> bool:
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        if gone():
            return True
        time.sleep(0.1)
    return False


def command_lines() -> str:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue
    return "\n".join(found)


def test_time_limit_holds_while_another_builds(sandbox: DockerSandbox, tmp_path: Path) -> None:
    folder = write_context(tmp_path / "c", f"FROM {BASE}\nRUN sleep 9999")
    ended: list[str] = []

    def prepare(timeout: float) -> None:
        sandbox.prepare(ImageSpec(context=folder), timeout=timeout)

    def build() -> None:
        try:
            prepare(4.0)
        except StageTimeout:
            ended.append("timed out")

    first = threading.Thread(target=build)
    first.start()
    time.sleep(0.5)
    begin = time.monotonic()
    with pytest.raises(StageTimeout):
        prepare(1.0)
    assert time.monotonic() - begin < 3.0, "waited for the other's build"
    first.join()
    assert ended == ["timed out"]


def test_old_builder(engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where there is no BuildKit."""
    monkeypatch.setattr(Engine, "has_buildkit", lambda _: False)
    sandbox = DockerSandbox(SandboxContext("old", "gw0", tmp_path / "cache", tmp_path / "run"))
    image = sandbox.prepare(ImageSpec(context=write_context(tmp_path / "c", f"FROM {BASE}\nENV BUILT=old")))
    try:
        assert image.built
        box = sandbox.start(image, BoxSpec(network=NO_NETWORK, lifetime=300))
        assert box.run(["env"]).stdout.splitlines().count(b"BUILT=old") == 1
    finally:
        sandbox.close()
        remove_image(engine, image.name)
    folder = write_context(tmp_path / "d", f"FROM {BASE}\nRUN echo evidence; no-such-command")
    with pytest.raises(BuildFailed, match=r"RUN echo evidence; no-such-command.*127") as caught:
        sandbox.prepare(ImageSpec(context=folder))
    assert "evidence" in caught.value.detail


def test_one_build_however_many_ask(engine: Engine, tmp_path: Path) -> None:
    folder = write_context(tmp_path / "c", f"FROM {BASE}\nRUN sleep 1; head -c 9 /dev/urandom >/r")
    results = [line.split() for line in in_four_processes(folder, tmp_path)]
    try:
        assert len({(name, image) for name, image, _ in results}) == 1
        assert sorted(built for _, _, built in results) == ["False", "False", "False", "True"]
    finally:
        remove_image(engine, results[0][0])


def test_one_failure_however_many_ask(tmp_path: Path) -> None:
    folder = write_context(tmp_path / "c", f"FROM {BASE}\nRUN head -c 6 /dev/urandom | base64; exit 9")
    results = in_four_processes(folder, tmp_path)
    assert len(set(results)) == 1, "each has an error of its own"
    assert results[0].startswith("BuildFailed building")
    assert len(list((tmp_path / "run" / "failed-builds").iterdir())) == 1
