"""One build: by BuildKit over the engine's API, or by the old builder where there is no other."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

from pytest_rlenv.disk import full_as_error
from pytest_rlenv.errors import EngineUnavailable, Stage, StageTimeout
from pytest_rlenv.sandboxes.build_context import BuildContext
from pytest_rlenv.sandboxes.docker.client import Engine, limited
from pytest_rlenv.sandboxes.docker.failures import EngineRefused, connection_errors
from pytest_rlenv.sandboxes.docker.progress import Progress

_SPOOL = 16 * 1024 * 1024
_STEP = "Step "


@dataclass
class Built:
    """How a build ended.

    Attributes:
        image: id of the image; empty if it failed.
        error: the builder's last word.
        progress: steps and log.
    """

    image: str
    error: str
    progress: Progress


def platform() -> str:
    """Return the platform that the user asks docker for by its variable, empty for the engine's own."""
    return os.environ.get("DOCKER_DEFAULT_PLATFORM", "")


def build(
    engine: Engine,
    context: BuildContext,
    tag: str,
    labels: Mapping[str, str],
    *,
    buildkit: bool,
    deadline: float | None,
) -> Built:
    """Build an image, and tag and label it.

    Args:
        engine: who builds.
        context: what from.
        tag: the image's name.
        labels: labels of the image.
        buildkit: False for the old builder.
        deadline: a time of :func:`time.monotonic`, at which the build is cancelled.

    Raises:
        StageTimeout: cancelled. EngineUnavailable: the connection broke. TaskInvalid: an unreadable context.
        DiskFull: no space left to pack the context.
    """
    build_id = uuid.uuid4().hex
    params = {
        "t": tag,
        "labels": json.dumps(dict(labels)),
        "dockerfile": context.dockerfile_name,
        "buildargs": json.dumps(dict(context.options.args)),
        "target": context.options.target,
        "rm": "1",
        "forcerm": "1",
        "buildid": build_id,
    }
    if buildkit:
        params["version"] = "2"
    if platform():
        params["platform"] = platform()
    with tempfile.SpooledTemporaryFile(max_size=_SPOOL) as file:
        with full_as_error("pack the build context", tempfile.gettempdir(), stage=Stage.BUILD):
            context.write_to(file)
        file.seek(0)
        try:
            return _send(engine, params, file, deadline)
        except StageTimeout:
            _cancel(engine, build_id)
            raise


def remaining(deadline: float | None) -> float | None:
    """Return the seconds that are left, ``None`` for no limit.

    Raises:
        StageTimeout: none are.
    """
    if deadline is None:
        return None
    left = deadline - time.monotonic()
    if left <= 0:
        raise build_timeout()
    return left


def build_timeout() -> StageTimeout:
    """Return the error for an image that was not ready in time."""
    return StageTimeout(
        "the image was not ready within the build's time limit",
        hint="raise the task's build timeout, or build or pull the image beforehand",
        stage=Stage.BUILD,
    )


def json_lines(engine: Engine, lines: Iterator[bytes], doing: str) -> Iterator[dict[str, Any]]:
    """Yield the messages that the engine streams.

    Raises:
        EngineUnavailable: the connection broke.
    """
    with connection_errors(engine.endpoint, doing):
        for line in lines:
            if not line.strip():
                continue
            try:
                message = json.loads(line)
            except ValueError:
                continue  # the cut line of a connection that ends is told by what does not follow
            if isinstance(message, dict):
                yield message


def _send(engine: Engine, params: dict[str, str], file: IO[bytes], deadline: float | None) -> Built:
    response = None
    try:
        response = engine.request(
            "POST",
            "/build",
            params=params,
            data=file,
            headers={"Content-Type": "application/x-tar"},
            stream=True,
            timeout=remaining(deadline),
            doing="build the image",
        )
    except EngineRefused as refused:
        # the old builder finds fault with a Dockerfile before it starts to stream
        return Built("", refused.message, Progress())
    except EngineUnavailable:
        remaining(deadline)
        raise
    with limited(response, remaining(deadline)) as cut:
        try:
            built = _follow(json_lines(engine, response.iter_lines(), "build the image"))
        except EngineUnavailable:
            if cut.happened:
                raise build_timeout() from None
            raise
        if cut.happened:
            raise build_timeout()
    return built


def _follow(messages: Iterator[dict[str, Any]]) -> Built:
    built = Built("", "", Progress())
    step = ""
    for message in messages:
        aux = message.get("aux")
        if message.get("id") == "moby.buildkit.trace":
            built.progress.add_trace(str(aux))
        elif isinstance(aux, dict) and aux.get("ID"):
            built.image = str(aux["ID"])
        elif "error" in message:
            built.error = str((message.get("errorDetail") or {}).get("message") or message["error"])
            built.progress.failed_step = built.progress.failed_step or step
        elif "stream" in message:
            text = str(message["stream"])
            step = text.strip() if text.startswith(_STEP) else step
            built.progress.add_log("", text)
    if built.error:
        built.image = ""
    elif not built.image:
        built.error = "the builder ended without saying how"
    return built


def _cancel(engine: Engine, build_id: str) -> None:
    """Tell the engine too: closing the connection is enough for BuildKit, but a proxy may keep it open."""
    with contextlib.suppress(EngineRefused, EngineUnavailable):
        engine.request("POST", "/build/cancel", params={"id": build_id}, doing="cancel a build")


def name_image(engine: Engine, image: str, name: str) -> bool:
    """Give an image one more name; return False if it is not there any more.

    Args:
        engine: whose.
        image: its id.
        name: with a tag.

    Raises:
        EngineRefused, EngineUnavailable: the engine does not do it.
    """
    repository, _, tag = name.rpartition(":")
    try:
        engine.request(
            "POST", f"/images/{image}/tag", params={"repo": repository, "tag": tag}, doing="name an image"
        )
    except EngineRefused as refused:
        if refused.status != 404:
            raise
        return False
    return True
