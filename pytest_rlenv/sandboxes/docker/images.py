"""Images ready to start: found, pulled, or built once however many processes ask."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from pytest_rlenv.disk import CACHE_CURE, disk_full, is_full
from pytest_rlenv.errors import BoxUnfit, BuildFailed, ImageUnavailable, SandboxFailed, SpecError, Stage
from pytest_rlenv.sandboxes.build_context import BuildContext
from pytest_rlenv.sandboxes.docker import fetch, labels
from pytest_rlenv.sandboxes.docker.builderrors import build_error, is_transient
from pytest_rlenv.sandboxes.docker.builds import build, build_timeout, name_image, platform, remaining
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.dockerfile import base_images, needs_buildkit
from pytest_rlenv.sandboxes.docker.failures import EngineRefused
from pytest_rlenv.sandboxes.docker.layers import layer_context
from pytest_rlenv.sandboxes.docker.postmortem import ImageFacts
from pytest_rlenv.sandboxes.docker.pull import Pulls, full_name, split_name
from pytest_rlenv.sandboxes.docker.registries import image_unavailable
from pytest_rlenv.sandboxes.docker.storage import require_space, roomy_root
from pytest_rlenv.sandboxes.docker.uses import ImageUses
from pytest_rlenv.sandboxes.model import BuildOptions, ImageLayer, ImageRef, ImageSpec, SandboxContext

KEY_SCHEMA = 1
"""Part of every content key: raise it when equal inputs would no longer give an equal image."""

NAMESPACE = "rlenv"
"""The repository of every image that we build."""

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
        self._pulls = Pulls(engine, context)
        self._uses = ImageUses(context.cache_dir, engine.fingerprint())
        self._min_free = context.min_free
        self._has_buildkit: bool | None = None
        self._made: dict[str, str] = {}
        """Ids of images by their content keys: tasks may differ in nothing but their names."""
        self._facts: dict[str, ImageFacts] = {}
        self._has: dict[tuple[str, str], bool] = {}

    def prepare(self, image: ImageSpec, *, timeout: float | None) -> ImageRef:
        """Find, pull or build an image; see :class:`~pytest_rlenv.sandboxes.protocol.Sandbox`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        if image.name is not None:
            found = self._ensure(image.name, deadline)
            return self._ref(image.name, found, digest=registry_digest(image.name, found))
        if image.context is None:
            raise SpecError("an image needs a name or a build context")
        return self._from_context(BuildContext.read(image.context, image.options), image.slug, deadline)

    def extend(self, image: ImageRef, layer: ImageLayer, *, timeout: float | None) -> ImageRef:
        """Put a layer on an image; see :class:`~pytest_rlenv.sandboxes.protocol.SandboxWithLayers`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        found = self._find(image.name)
        if str(found.get("Id")) != image.id:
            raise SandboxFailed(
                f"image {image.name!r} is not the one any more that this run has prepared ({image.id})",
                hint="was it built or pulled anew while the run was under way?",
            )
        user = str((found.get("Config") or {}).get("User") or "")
        context = layer_context(image.name, user, layer, cache=self._buildkit())
        return self._from_context(context, layer.name, deadline)

    def facts(self, image: ImageRef) -> ImageFacts:
        """Return what an image says about itself; asked once per image.

        Raises:
            ImageUnavailable: it is not in the engine any more. EngineUnavailable.
        """
        if image.id not in self._facts:
            found = self._find(image.id)
            if not found:
                raise ImageUnavailable(
                    f"image {image.name!r} ({image.id}) is not in the engine any more",
                    hint="was it removed while the run was under way?",
                )
            self._facts[image.id] = ImageFacts.of(found)
        return self._facts[image.id]

    def lacks(self, image: ImageRef, container: str, path: str) -> bool:
        """Return whether an image has nothing at a path, which is asked once per image of a container on it.

        Args:
            image: the image.
            container: one that nothing was put into yet.
            path: an absolute path.
        """
        for each in (*reversed(PurePosixPath(path).parents[:-1]), path):  # mostly the first folder is missing
            known = (image.id, str(each))
            if known not in self._has:
                self._has[known] = fetch.has(self._engine, container, str(each))
            if not self._has[known]:
                return True
        return False

    def close(self) -> None:
        """Let go of the images that were used; they may be pruned from now on."""
        self._uses.close()

    def _ensure(self, name: str, deadline: float | None) -> dict[str, Any]:
        """Return what the engine knows of a named image, pulled if it is not here."""
        found = self._find(name)
        if found:
            return found
        with self._lock(f"pull:{':'.join(split_name(name))}", deadline):
            found = self._find(name)
            if not found:
                require_space(self._engine, self._min_free, doing=f"pull {name}")
                self._pulls.pull(name, deadline=deadline)
                found = self._find(name)
        if not found:
            raise image_unavailable(name, "it was pulled, but the engine does not have it; not found")
        return found

    def _from_context(self, context: BuildContext, slug: str, deadline: float | None) -> ImageRef:
        if not self._buildkit():
            _refuse_for_old_builder(context)
        names = base_images(context.dockerfile, context.options.args, context.options.target)
        bases = {name: str(self._ensure(name, deadline)["Id"]) for name in names}
        key = self._key(context, bases)
        tag = f"{NAMESPACE}/{_slug(slug)}:{tag_of(key)}"
        self._uses.claim(key)
        found = self._find(tag)
        if found:
            return self._ref(tag, found, key=key)
        with self._lock(f"build:{key}", deadline):
            found = self._find(tag)
            if not found and key in self._made and name_image(self._engine, self._made[key], tag):
                found = self._find(tag)
            if found:
                return self._ref(tag, found, key=key)
            self._raise_known_failure(key)
            require_space(self._engine, self._min_free, doing=f"build {context.root}")
            image = self._build(context, tag, key, deadline)
            return self._ref(tag, self._find(image) or {"Id": image}, key=key, built=True)

    def _buildkit(self) -> bool:
        if self._has_buildkit is None:
            self._has_buildkit = self._engine.has_buildkit()
        return self._has_buildkit

    def _ref(
        self, name: str, found: dict[str, Any], *, digest: str = "", key: str = "", built: bool = False
    ) -> ImageRef:
        """Return an image that the engine has described, and keep what it says of itself."""
        known = "Config" in found
        facts = ImageFacts.of(found)
        image = str(found["Id"])
        if key:
            self._made[key] = image
        if known:
            self._facts[image] = facts
        return ImageRef(name, image, built, digest=digest, idle=known and facts.is_idle)

    def _build(self, context: BuildContext, tag: str, key: str, deadline: float | None) -> str:
        names = {labels.OURS: "1", labels.KEY: key}
        for retry in (False, True):
            built = build(
                self._engine, context, tag, names, buildkit=bool(self._has_buildkit), deadline=deadline
            )
            if built.image:
                return built.image
            transient = is_transient(built, context.passing)
            if retry or not transient:
                break
        roomy = roomy_root(self._engine)
        error = build_error(built, str(context.root), context.dockerfile, roomy=roomy)
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
        if context.options != BuildOptions():
            parts["options"] = asdict(context.options)
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def _find(self, name: str) -> dict[str, Any]:
        """Return what the engine knows of an image, nothing if it is not here."""
        path = f"/images/{quote(name, safe='/:@')}/json"
        try:
            found: dict[str, Any] | None = self._engine.find(path, doing=f"look for image {name}")
        except EngineRefused as refused:
            if "invalid reference format" not in refused.message:
                raise
            raise BoxUnfit(
                f"{name!r} is not a valid image name: {refused.message}",
                hint="an image's name is like `registry/group/name:tag`, in lower case",
            ) from refused
        return found or {}

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
            if is_full(error):
                raise disk_full("make a lock", self._locks, stage=Stage.BUILD, hint=CACHE_CURE) from error
            raise SandboxFailed(f"cannot make a lock in {self._locks}: {error.strerror}") from error
        try:
            yield
        finally:
            lock.release()

    def _remember_failure(self, key: str, error: BuildFailed) -> None:
        """Spare this run's other workers and attempts a build that is known to fail."""
        with contextlib.suppress(OSError):  # they are not spared it then
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


def tag_of(key: str) -> str:
    """Return the tag of a built image by its content key."""
    return key[:_KEY_LENGTH]


def registry_digest(name: str, found: Mapping[str, Any]) -> str:
    """Return the digest by which a registry knows a named image, empty for one that came from none.

    Args:
        name: its name as the task gives it.
        found: what the engine knows of it.
    """
    repository = full_name(name)
    for each in found.get("RepoDigests") or ():
        where, _, digest = str(each).partition("@")
        if full_name(where) == repository:
            return digest
    return ""


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
