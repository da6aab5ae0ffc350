"""Pulls an image: with the user's credentials, the registry's own words, and patience where it helps."""

from __future__ import annotations

import random
import time

from pytest_rlenv.errors import EngineUnavailable, RlenvError, Stage
from pytest_rlenv.sandboxes.docker.builderrors import image_unavailable
from pytest_rlenv.sandboxes.docker.builds import build_timeout, json_lines, platform, remaining
from pytest_rlenv.sandboxes.docker.client import Engine, limited
from pytest_rlenv.sandboxes.docker.failures import EngineRefused, disk_full, is_disk_full

TRIES = 4
FIRST_PAUSE = 2.0
"""Seconds before the second try; each further pause is three times as long, and never the same twice."""

_WORTH_RETRYING = (
    "toomanyrequests",
    "429",
    "500 internal",
    "502 bad",
    "503 service",
    "504 gateway",
    "timeout",
    "connection reset",
    "unexpected eof",
    "temporary failure",
)


def pull(engine: Engine, name: str, *, deadline: float | None) -> None:
    """Pull an image by its name, tag or digest.

    Raises:
        ImageUnavailable: the registry does not have it, does not give it or cannot be reached.
        StageTimeout: not in time. DiskFull. EngineUnavailable: the connection to the engine broke.
    """
    pause = FIRST_PAUSE
    for attempt in range(1, TRIES + 1):
        reason = _pull_once(engine, name, deadline)
        if not reason:
            return
        if is_disk_full(reason):
            raise disk_full(f"pull {name}", reason, Stage.BUILD)
        low = reason.lower()
        if attempt == TRIES or not any(pattern in low for pattern in _WORTH_RETRYING):
            raise image_unavailable(name, reason)
        left = remaining(deadline)
        wait = pause * random.uniform(0.8, 1.2)
        if left is not None and left < wait:
            raise image_unavailable(name, reason)
        time.sleep(wait)
        pause *= 3


def _pull_once(engine: Engine, name: str, deadline: float | None) -> str:
    """Return why it failed, an empty string if it did not."""
    repository, tag = split_name(name)
    params = {"fromImage": repository, "tag": tag}
    if platform():
        params["platform"] = platform()
    try:
        response = engine.request(
            "POST",
            "/images/create",
            params=params,
            headers=_credentials(engine, name),
            stream=True,
            timeout=remaining(deadline),
            doing=f"pull {name}",
        )
    except EngineRefused as refused:
        return refused.message
    except EngineUnavailable:
        remaining(deadline)
        raise
    with limited(response, remaining(deadline)) as cut:
        reason = ""
        try:
            for message in json_lines(engine, response.iter_lines(), f"pull {name}"):
                if "error" in message:
                    reason = str((message.get("errorDetail") or {}).get("message") or message["error"])
        except EngineUnavailable:
            if not cut.happened:
                raise
        if cut.happened:
            raise build_timeout()
    return reason


def split_name(name: str) -> tuple[str, str]:
    """Return repository and tag (or digest) of an image's name; no tag means ``latest``, as for docker."""
    from docker.utils import parse_repository_tag

    repository, tag = parse_repository_tag(name)
    return repository, tag or "latest"


def _credentials(engine: Engine, name: str) -> dict[str, str]:
    from docker import auth
    from docker.errors import DockerException

    try:
        registry, _ = auth.resolve_repository_name(split_name(name)[0])
        header = auth.get_config_header(engine.api, registry)
    except DockerException as error:
        raise _no_credentials(name, error) from error
    if not header:
        return {}
    return {"X-Registry-Auth": header.decode("ascii") if isinstance(header, bytes) else header}


def _no_credentials(name: str, error: Exception) -> RlenvError:
    found = image_unavailable(name, str(error))
    found.hint = "the credentials in docker's config.json cannot be used: `docker login` again"
    return found
