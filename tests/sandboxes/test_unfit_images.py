"""Images that no box can be made of, and commands that none can run: whose fault it is, in both sandboxes."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest
from support.engine import BASE, remove_image, write_context

from pytest_rlenv.errors import BoxUnfit, EngineUnavailable, EntrypointExited, Kind, SandboxFailed, Stage
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.sandbox import DockerSandbox
from pytest_rlenv.sandboxes.local import LocalSandbox
from pytest_rlenv.sandboxes.local.bwrap import is_privileged
from pytest_rlenv.sandboxes.protocol import NO_NETWORK, BoxSpec, ImageRef, ImageSpec, Sandbox, SandboxContext

pytestmark = pytest.mark.docker

SANDBOXES = {"docker": DockerSandbox, "local": LocalSandbox}


@pytest.fixture(scope="module", params=SANDBOXES)
def either(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, engine: Engine
) -> Iterator[Sandbox]:
    base = tmp_path_factory.mktemp("unfit")
    sandbox: Sandbox = SANDBOXES[request.param](
        SandboxContext(f"t{uuid.uuid4().hex[:12]}", "gw0", base / "cache", base / "run")
    )
    try:
        description = sandbox.describe()
    except EngineUnavailable as error:
        pytest.skip(str(error))
    if request.param == "local" and ("image root file systems" not in description or not is_privileged()):
        pytest.skip(f"no images, or no users, in local boxes here: {description}")
    yield sandbox
    sandbox.close()


@pytest.fixture(scope="module")
def built(
    either: Sandbox, engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], ImageRef]]:
    images: list[ImageRef] = []

    def build(dockerfile: str) -> ImageRef:
        dockerfile = dockerfile.replace("REMOVE", "true")
        folder = write_context(tmp_path_factory.mktemp("c") / "context", dockerfile, {"x": "x"})
        images.append(either.prepare(ImageSpec(context=folder, slug="unfit")))
        return images[-1]

    yield build
    either.close()
    for image in images:
        remove_image(engine, image.name)


def start_and_act(sandbox: Sandbox, image: ImageRef, *argv: str, **options: object) -> None:
    box = sandbox.start(image, BoxSpec(network=NO_NETWORK, lifetime=300))
    try:
        box.run(list(argv) or ["true"], timeout=60, **options)  # type: ignore[arg-type]  # as the table says
    finally:
        box.destroy()


PROGRAMS = "sh sleep true false dd"
SMALL = f"""FROM {BASE} AS all
RUN mkdir /small && for p in {PROGRAMS}; do \\
      cp --parents -L /bin/$p $(ldd /bin/$p | grep -o '/lib[^ ]*') /small; done; \\
    cp --parents /etc/passwd /etc/group /small; cd /small; touch mode; \\
    printf '#!/no/such\\n' >odd; chmod +x odd; REMOVE
FROM scratch
COPY --from=all /small /
"""
"""A few megabytes, since the local sandbox extracts each image."""


@pytest.mark.parametrize(
    ("dockerfile", "kind", "words"),
    [
        ("FROM scratch\nCOPY x /x", BoxUnfit, r"the image has no shell \(`sh`\)"),
        (SMALL.replace("REMOVE", "rm bin/sleep"), BoxUnfit, "the image has no `sleep`"),
        (f"{SMALL}USER ghost", BoxUnfit, "does not exist in"),
        (f'{SMALL}COPY x /x\nENTRYPOINT ["/x"]', BoxUnfit, "the image's ENTRYPOINT cannot be executed"),
        (f'{SMALL}ENTRYPOINT ["/gone"]', BoxUnfit, "the image's ENTRYPOINT cannot be executed"),
        (f'{SMALL}ENTRYPOINT ["true"]', EntrypointExited, "ENTRYPOINT ended instead"),
    ],
    ids=["no-sh", "no-sleep", "unknown-user", "entrypoint-mode", "entrypoint-gone", "entrypoint-exits"],
)
def test_an_image_that_cannot_be_started_is_the_tasks_fault(
    dockerfile: str,
    kind: type[SandboxFailed],
    words: str,
    either: Sandbox,
    built: Callable[[str], ImageRef],
) -> None:
    image = built(dockerfile)
    with pytest.raises(SandboxFailed, match=words) as caught:
        start_and_act(either, image)
    assert type(caught.value) is kind
    assert caught.value.kind is Kind.TASK


def test_an_image_that_never_gets_healthy_is_the_tasks_fault(
    either: Sandbox, built: Callable[[str], ImageRef]
) -> None:
    image = built(f"{SMALL}HEALTHCHECK --interval=100ms --retries=1 CMD false")
    with pytest.raises(BoxUnfit, match="HEALTHCHECK failed") as caught:
        start_and_act(either, image)
    assert caught.value.stage is Stage.HEALTHCHECK


@pytest.fixture(scope="module")
def plain(built: Callable[[str], ImageRef]) -> ImageRef:
    return built(SMALL)


@pytest.mark.parametrize(
    ("argv", "options", "words"),
    [
        (["no-such"], {}, "command 'no-such' is not in the image"),
        (["/mode"], {}, "'/mode' is not executable"),
        (["/odd"], {}, "interpreter|cannot be executed|not in the image"),
        (["true"], {"cwd": "/nowhere"}, "workdir '/nowhere' does not exist in the image"),
        (["true"], {"user": "ghost"}, "user 'ghost' does not exist in the image"),
        (["true"], {"env": {"A": "x\0y"}}, "NUL"),
        (["true", "x" * 200_000], {}, "longer than the kernel allows"),
    ],
    ids=["command", "mode", "interpreter", "workdir", "user", "nul", "too-long"],
)
def test_a_command_that_cannot_be_started_is_the_tasks_fault(
    argv: list[str], options: dict[str, object], words: str, either: Sandbox, plain: ImageRef
) -> None:
    with pytest.raises(SandboxFailed, match=words) as caught:
        start_and_act(either, plain, *argv, **options)
    assert type(caught.value) is BoxUnfit
    assert caught.value.kind is Kind.TASK


def test_a_box_whose_memory_disk_is_full_is_the_tasks_fault(either: Sandbox, plain: ImageRef) -> None:
    """And no reason to think that this machine's disk is."""
    from pytest_rlenv.sandboxes.protocol import Entry

    if either.name == "docker":
        pytest.skip("an engine writes below a mount of the box, where nobody sees it")
    box = either.start(plain, BoxSpec(network=NO_NETWORK, lifetime=300))
    try:
        box.run(["dd", "if=/dev/zero", "of=/dev/shm/full", "bs=1M"], timeout=60)
        with pytest.raises(BoxUnfit, match="cannot write /dev/shm/a/b in the box: it is full there"):
            box.put([Entry("/dev/shm/a/b", b"x" * 10_000)])
    finally:
        box.destroy()
