"""Images ready to start: found, pulled, or built once however many processes ask."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from pytest_rlenv.errors import BoxUnfit, BuildFailed, SandboxFailed, SpecError
from pytest_rlenv.sandboxes.build_context import BuildContext
from pytest_rlenv.sandboxes.docker import labels
from pytest_rlenv.sandboxes.docker.builderrors import build_error, image_unavailable, is_transient
from pytest_rlenv.sandboxes.docker.builds import build, build_timeout, platform, remaining
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.dockerfile import base_images, needs_buildkit
from pytest_rlenv.sandboxes.docker.failures import EngineRefused
from pytest_rlenv.sandboxes.docker.pull import pull, split_name
from pytest_rlenv.sandboxes.protocol import ImageRef, ImageSpec, SandboxContext

KEY_SCHEMA = 1
"""Part of every content key: raise it when equal inputs would no longer give an equal image."""

_KEY_LENGTH = 20


class ImageStore:
    """The images of one engine, shared by all processes of this machine.

    Args:
        engine: whose images.
        context: where locks are (``cache_dir``) and where failed builds are remembered (``run_dir``).
    """

    def __init__(self, engine: Engine, context: SandboxContext) -> None:
        self._engine = engine
        self._locks = context.cache_dir / "docker-locks"
        self._failures = context.run_dir / "failed-builds"
        self._has_buildkit: bool | None = None

    def prepare(self, image: ImageSpec, *, timeout: float | None) -> ImageRef:
        """Find, pull or build an image; see :class:`~pytest_rlenv.sandboxes.protocol.Sandbox`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        if image.name is not None:
            return ImageRef(image.name, self._ensure(image.name, deadline))
        if image.context is None:
            raise SpecError("an image needs a name or a build context")
        return self._from_context(image.context, image.slug, deadline)

    def _ensure(self, name: str, deadline: float | None) -> str:
        """Return the id of a named image, pulled if it is not here."""
        found = self._id(name)
        if found:
            return found
        with self._lock(f"pull:{':'.join(split_name(name))}", deadline):
            found = self._id(name)
            if not found:
                pull(self._engine, name, deadline=deadline)
                found = self._id(name)
        if not found:
            raise image_unavailable(name, "it was pulled, but the engine does not have it; not found")
        return found

    def _from_context(self, folder: Path, slug: str, deadline: float | None) -> ImageRef:
        context = BuildContext.read(folder)
        if self._has_buildkit is None:
            self._has_buildkit = self._engine.has_buildkit()
        if not self._has_buildkit:
            _refuse_for_old_builder(context)
        bases = {name: self._ensure(name, deadline) for name in base_images(context.dockerfile)}
        key = self._key(context, bases)
        tag = f"rlenv/{_slug(slug)}:{key[:_KEY_LENGTH]}"
        found = self._id(tag)
        if found:
            return ImageRef(tag, found)
        with self._lock(f"build:{key}", deadline):
            found = self._id(tag)
            if found:
                return ImageRef(tag, found)
            self._raise_known_failure(key)
            return ImageRef(tag, self._build(context, tag, key, deadline), built=True)

    def _build(self, context: BuildContext, tag: str, key: str, deadline: float | None) -> str:
        names = {labels.OURS: "1", labels.KEY: key}
        for retry in (False, True):
            built = build(
                self._engine, context, tag, names, buildkit=bool(self._has_buildkit), deadline=deadline
            )
            if built.image:
                return built.image
            transient = is_transient(built)
            if retry or not transient:
                break
        error = build_error(built, str(context.root), context.dockerfile)
        if isinstance(error, BuildFailed) and not transient:
            self._remember_failure(key, error)
        raise error

    def _key(self, context: BuildContext, bases: dict[str, str]) -> str:
        """Return the name of what would be built; the ids of the bases keep it true when their tags move."""
        parts = {
            "schema": KEY_SCHEMA,
            "builder": "buildkit" if self._has_buildkit else "legacy",
            "platform": platform() or self._engine.info().get("Architecture", ""),
            "bases": bases,
            "context": context.digest(),
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def _id(self, name: str) -> str:
        try:
            found = self._engine.find(
                f"/images/{quote(name, safe='/:@')}/json", doing=f"look for image {name}"
            )
        except EngineRefused as refused:
            if "invalid reference format" not in refused.message:
                raise
            raise BoxUnfit(
                f"{name!r} is not a valid image name: {refused.message}",
                hint="an image's name is like `registry/group/name:tag`, in lower case",
            ) from refused
        return str(found["Id"]) if found else ""

    @contextmanager
    def _lock(self, what: str, deadline: float | None) -> Iterator[None]:
        from filelock import FileLock, Timeout

        name = hashlib.sha256(f"{self._engine.info().get('ID')}\0{what}".encode()).hexdigest()[:32]
        left = remaining(deadline)
        try:
            self._locks.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self._locks / f"{name}.lock", timeout=-1 if left is None else left)
            lock.acquire()
        except Timeout:
            raise build_timeout() from None
        except OSError as error:
            raise SandboxFailed(f"cannot make a lock in {self._locks}: {error.strerror}") from error
        try:
            yield
        finally:
            lock.release()

    def _remember_failure(self, key: str, error: BuildFailed) -> None:
        """Spare this run's other workers and attempts a build that is known to fail."""
        self._failures.mkdir(parents=True, exist_ok=True)
        record = {"message": error.message, "hint": error.hint, "detail": error.detail}
        (self._failures / f"{key}.json").write_text(json.dumps(record), encoding="utf-8")

    def _raise_known_failure(self, key: str) -> None:
        try:
            record = json.loads((self._failures / f"{key}.json").read_text(encoding="utf-8"))
            error = BuildFailed(record["message"], hint=record["hint"], detail=record["detail"])
        except (OSError, ValueError, KeyError, TypeError):
            return
        raise error


def _refuse_for_old_builder(context: BuildContext) -> None:
    feature = needs_buildkit(context.dockerfile)
    if feature:
        raise BuildFailed(
            f"{context.root / 'Dockerfile'} uses {feature}, but this engine has no BuildKit",
            hint="use an engine with BuildKit (Docker 18.09 or newer); the old builder gets this wrong",
        )


def _slug(text: str) -> str:
    """Return a text as part of an image's name: lower case, with single separators inside only."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60].strip("-") or "task"
