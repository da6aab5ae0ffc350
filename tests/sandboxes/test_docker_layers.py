"""Layers on images, against a real engine."""

from __future__ import annotations

import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.engine import remove_image

from pytest_rlenv.errors import BuildFailed, SandboxFailed, Unsupported
from pytest_rlenv.sandboxes.docker.box import DockerBox
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.layers import layer_context
from pytest_rlenv.sandboxes.docker.sandbox import DockerSandbox
from pytest_rlenv.sandboxes.model import ImageLayer, ImageRef
from pytest_rlenv.sandboxes.protocol import SandboxWithLayers
from pytest_rlenv.text import decode

pytestmark = pytest.mark.docker

Build = Callable[..., ImageRef]
Start = Callable[..., DockerBox]
Extend = Callable[..., ImageRef]

EXTEND = """
import sys, pathlib
from pytest_rlenv.sandboxes.docker import DockerSandbox
from pytest_rlenv.sandboxes.model import ImageLayer, ImageRef, SandboxContext
name, image, base, script, worker = sys.argv[1:]
context = SandboxContext("concurrent", worker, pathlib.Path(base, "cache"), pathlib.Path(base, "run"))
sandbox = DockerSandbox(context)
print(sandbox.extend(ImageRef(name, image), ImageLayer("four", script)).built)
sandbox.close()
"""


@pytest.fixture
def extend(sandbox: DockerSandbox, engine: Engine, build: Build) -> Iterator[Extend]:
    """Put a layer on an image; both are removed with the test."""
    made: list[ImageRef] = []

    def extend(image: ImageRef, script: str, name: str = "agent-test") -> ImageRef:
        found = sandbox.extend(image, ImageLayer(name, script))
        made.append(found)
        return found

    yield extend
    sandbox._parts().disposal.close()
    for image in made:
        remove_image(engine, image.name)


def said(box: DockerBox, command: str) -> str:
    return decode(box.run(["sh", "-c", command]).output).strip()


def test_the_image_stays_what_it_is(build: Build, extend: Extend, start: Start) -> None:
    base = build(
        "FROM debian:bookworm-slim\n"
        "RUN useradd -m solver\n"
        "RUN printf '#!/bin/sh\\ntouch /tmp/entered\\nexec \"$@\"\\n' >/enter && chmod 755 /enter\n"
        'SHELL ["/bin/bash", "-c"]\nENV HELD="a b"\nWORKDIR /work\nUSER solver\nENTRYPOINT ["/enter"]'
    )
    script = "cat >/made <<'END'\nline \"1\" $HOME\nEND\npwd >/where; id -un >/who\n"
    image = extend(base, script)
    assert image.built
    assert image.name.startswith("rlenv/agent-test:")
    box = start(image)
    assert said(box, "cat /made /where /who") == 'line "1" $HOME\n/\nroot'
    assert said(box, 'id -un; pwd; echo "$HELD"; ls /tmp/entered') == "solver\n/work\na b\n/tmp/entered"
    # and the task's own image has not changed
    assert said(start(base), "ls /made 2>&1; true").endswith("No such file or directory")


def test_it_is_made_once(build: Build, extend: Extend, sandbox: DockerSandbox) -> None:
    base = build("FROM debian:bookworm-slim\nRUN true")
    first = extend(base, "date +%N >/made")
    assert sandbox.capabilities.extends_images
    assert isinstance(sandbox, SandboxWithLayers)
    again = extend(base, "date +%N >/made")
    assert (first.built, again.built, again.id) == (True, False, first.id)
    assert extend(base, "date +%N >/made # other").id != first.id


def test_another_image_another_layer(build: Build, extend: Extend) -> None:
    bases = [build(f"FROM debian:bookworm-slim\nRUN echo {n} >/base") for n in (1, 2)]
    assert len({extend(base, "cat /base >/made").id for base in bases}) == 2


def test_many_workers_make_one(build: Build, engine: Engine, tmp_path: Path) -> None:
    base = build("FROM debian:bookworm-slim\nRUN true")
    script = f"sleep 1; echo {uuid.uuid4()} >/made"
    arguments = [base.name, base.id, str(tmp_path), script]
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", EXTEND, *arguments, f"gw{n}"], stdout=subprocess.PIPE, text=True
        )
        for n in range(3)
    ]
    try:
        built = [worker.communicate(timeout=120)[0].strip() for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    for image in engine.get("/images/json", doing="look"):
        for name in image.get("RepoTags") or ():
            if name.startswith("rlenv/four:"):
                remove_image(engine, name)
    assert sorted(built) == ["False", "False", "True"]


def test_a_script_that_fails(build: Build, sandbox: DockerSandbox) -> None:
    base = build("FROM debian:bookworm-slim\nRUN true")
    layer = ImageLayer("agent-test", f"echo not today {uuid.uuid4()} >&2; exit 7")
    for _ in range(2):  # the second time it is known
        with pytest.raises(BuildFailed) as caught:
            sandbox.extend(base, layer)
        assert "not today" in caught.value.detail


def test_a_failure_that_may_pass_is_not_kept_in_mind(build: Build, sandbox: DockerSandbox) -> None:
    base = build("FROM debian:bookworm-slim\nRUN true")
    script = f"echo registry busy {uuid.uuid4()} $(date +%s%N) >&2; exit 7"
    layer = ImageLayer("agent-test", script, re.compile("registry busy"))
    said = set()
    for _ in range(2):
        with pytest.raises(BuildFailed) as caught:
            sandbox.extend(base, layer)
        said.add(caught.value.detail)
    assert len(said) == 2


def test_a_name_that_stands_for_another_image(build: Build, sandbox: DockerSandbox) -> None:
    base = build("FROM debian:bookworm-slim\nRUN true")
    with pytest.raises(SandboxFailed, match="is not the one any more"):
        sandbox.extend(replace(base, id="sha256:" + 64 * "0"), ImageLayer("agent-test", "true"))


def test_services_are_not_extended(sandbox: DockerSandbox) -> None:
    with pytest.raises(Unsupported, match="services"):
        sandbox.extend(ImageRef("a", "b", services=object()), ImageLayer("agent-test", "true"))


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ("", 'FROM a:1\nRUN ["/bin/sh", "-c", "cd /\\nx"]\n'),
        ("root", 'FROM a:1\nRUN ["/bin/sh", "-c", "cd /\\nx"]\n'),
        ("me:us", 'FROM a:1\nUSER root\nRUN ["/bin/sh", "-c", "cd /\\nx"]\nUSER me:us\n'),
    ],
)
def test_the_build(user: str, expected: str) -> None:
    assert layer_context("a:1", user, ImageLayer("l", "x"), cache=False).dockerfile == expected


def test_downloads_are_found_again_by_other_images(build: Build, extend: Extend, start: Start) -> None:
    name = uuid.uuid4().hex
    script = f'file="$RLENV_LAYER_CACHE/{name}"; cat "$file" >/found 2>&1; echo kept >"$file"; true'
    boxes = [start(extend(build(f"FROM debian:bookworm-slim\nRUN echo {n}"), script)) for n in (1, 2)]
    assert said(boxes[0], "cat /found").endswith("No such file or directory")
    assert said(boxes[1], "cat /found; find /run/rlenv-layers -type f") == "kept"
