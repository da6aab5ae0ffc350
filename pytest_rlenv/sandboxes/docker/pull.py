"""Pulls an image: with the user's credentials, the registry's own words, and patience where it helps."""

from __future__ import annotations

import contextlib
import hashlib
import random
import time
from pathlib import Path

from pytest_rlenv.disk import says_full
from pytest_rlenv.errors import EngineUnavailable, RlenvError, Stage
from pytest_rlenv.sandboxes.docker.builds import build_timeout, json_lines, platform, remaining
from pytest_rlenv.sandboxes.docker.client import Engine, limited
from pytest_rlenv.sandboxes.docker.failures import EngineRefused, engine_full
from pytest_rlenv.sandboxes.docker.pullprogress import PullProgress
from pytest_rlenv.sandboxes.docker.registries import image_unavailable, is_rate_limit, may_pass, one_line
from pytest_rlenv.sandboxes.model import SandboxContext

TRIES = 4
FIRST_PAUSE = 2.0
"""Seconds before the second try; each further pause is three times as long, and never the same twice."""


class Pulls:
    """The pulls of one run through one engine.

    Args:
        engine: who pulls.
        context: whom to tell of progress, and where to remember a registry's rate limit (``run_dir``).
    """

    def __init__(self, engine: Engine, context: SandboxContext) -> None:
        self._engine = engine
        self._notify = context.notify
        self._limited = context.run_dir / "rate-limited"

    def pull(self, name: str, *, deadline: float | None) -> None:
        """Pull an image by its name, tag or digest.

        A registry whose rate limit outlasted all tries is not waited for again in this run: its limits last
        for hours, and every task that needs it would wait in vain.

        Raises:
            ImageUnavailable: the registry does not have it, does not give it or cannot be reached.
            StageTimeout: not in time. DiskFull. EngineUnavailable: the connection to the engine broke.
        """
        pause = FIRST_PAUSE
        progress = PullProgress(name, self._notify)
        tries = 1 if self._note(name).exists() else TRIES
        for attempt in range(1, tries + 1):
            reason = self._pull_once(name, deadline, progress)
            if not reason:
                progress.finish()
                return
            if says_full(reason):
                raise engine_full(f"pull {name}", reason, Stage.BUILD)
            wait = pause * random.uniform(0.8, 1.2)
            left = remaining(deadline)
            if attempt == tries or not may_pass(reason) or (left is not None and left < wait):
                self._remember(name, reason)
                raise image_unavailable(name, reason)
            progress.retry(one_line(reason), wait, attempt + 1, tries)
            time.sleep(wait)
            pause *= 3

    def _pull_once(self, name: str, deadline: float | None, progress: PullProgress) -> str:
        """Return why it failed, an empty string if it did not."""
        repository, tag = split_name(name)
        params = {"fromImage": repository, "tag": tag}
        if platform():
            params["platform"] = platform()
        try:
            response = self._engine.request(
                "POST",
                "/images/create",
                params=params,
                headers=_credentials(self._engine, name),
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
                for message in json_lines(self._engine, response.iter_lines(), f"pull {name}"):
                    progress.take(message)
                    if "error" in message:
                        reason = str((message.get("errorDetail") or {}).get("message") or message["error"])
            except EngineUnavailable:
                if not cut.happened:
                    raise
            if cut.happened:
                raise build_timeout()
        return reason

    def _note(self, name: str) -> Path:
        registry = full_name(name).partition("/")[0]
        return self._limited / hashlib.sha256(registry.encode()).hexdigest()[:16]

    def _remember(self, name: str, reason: str) -> None:
        if is_rate_limit(reason):
            with contextlib.suppress(OSError):  # then others wait, too
                self._limited.mkdir(parents=True, exist_ok=True)
                self._note(name).touch()


def split_name(name: str) -> tuple[str, str]:
    """Return repository and tag (or digest) of an image's name; no tag means ``latest``, as for docker."""
    from docker.utils import parse_repository_tag

    repository, tag = parse_repository_tag(name)
    return repository, tag or "latest"


def full_name(name: str) -> str:
    """Return an image's repository with its registry, which names for short leave out, as for docker."""
    from docker import auth

    registry, rest = auth.resolve_repository_name(split_name(name)[0])
    if registry == auth.INDEX_NAME and "/" not in rest:
        rest = f"library/{rest}"
    return f"{registry}/{rest}"


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
