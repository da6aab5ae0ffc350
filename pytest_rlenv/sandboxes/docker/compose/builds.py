"""The ``build`` of a service, as an image to prepare like every other: by its content, once for everybody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_rlenv.errors import Stage, TaskInvalid
from pytest_rlenv.sandboxes.build_context import DOCKERFILE
from pytest_rlenv.sandboxes.docker.compose.findings import Finding, is_inside
from pytest_rlenv.sandboxes.model import BuildOptions, ImageSpec

_HEEDED = frozenset(("context", "dockerfile", "dockerfile_inline", "args", "target"))
_WITHOUT_EFFECT = frozenset(
    ("cache_from", "cache_to", "labels", "no_cache", "provenance", "pull", "sbom", "tags")
)
"""They change how an image is come by, or what is written on it, but not what is in it."""


def check_build(where: str, build: Mapping[str, Any], root: Path) -> Iterator[Finding]:
    """Yield what of a ``build`` is refused.

    Args:
        where: its place in the file.
        build: as in a model.
        root: the folder that nothing of it may leave.
    """
    for field, value in build.items():
        if field not in _HEEDED | _WITHOUT_EFFECT and value not in (None, {}, [], "", False):
            yield Finding(f"{where}.{field}", "not supported", unsafe=False)
    context = str(build.get("context") or "")
    if "://" in context or context.startswith("git@") or not Path(context).is_absolute():
        yield Finding(f"{where}.context", f"{context!r} is not a folder of the task", unsafe=False)
    elif not is_inside(root, Path(context)):
        yield Finding(f"{where}.context", f"{context!r} is outside the task's folder", unsafe=False)
    elif not build.get("dockerfile_inline") and not is_inside(root, _path_of_dockerfile(build)):
        file = str(_path_of_dockerfile(build))
        yield Finding(f"{where}.dockerfile", f"{file!r} is outside the task's folder", unsafe=False)


def image_of(build: Mapping[str, Any], slug: str, environ: Mapping[str, str]) -> ImageSpec:
    """Return the image that a ``build`` describes.

    Args:
        build: as in a model, checked.
        slug: a readable word for the tag.
        environ: where build arguments without a value get theirs.
    """
    given = build.get("args") or {}
    args = {name: environ.get(name) if value is None else str(value) for name, value in given.items()}
    file, text = _dockerfile(build)
    options = BuildOptions(
        dockerfile=file,
        text=text,
        args=tuple(sorted((name, value) for name, value in args.items() if value is not None)),
        target=str(build.get("target") or ""),
    )
    return ImageSpec(context=Path(build["context"]), slug=slug, options=options)


def _dockerfile(build: Mapping[str, Any]) -> tuple[str, str]:
    """Return the Dockerfile's name in the context, empty for the usual one; or its text, if it is not there.

    Raises:
        TaskInvalid: it is outside the context, and cannot be read.
    """
    if build.get("dockerfile_inline"):
        return "", str(build["dockerfile_inline"])
    context, file = Path(build["context"]), _path_of_dockerfile(build)
    if file == context / DOCKERFILE:
        return "", ""
    if file.is_relative_to(context) and ".." not in file.relative_to(context).parts:
        return file.relative_to(context).as_posix(), ""
    try:
        return "", file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise TaskInvalid(f"cannot read {file}: {error.strerror}", stage=Stage.BUILD) from None


def _path_of_dockerfile(build: Mapping[str, Any]) -> Path:
    return Path(build["context"]) / str(build.get("dockerfile") or DOCKERFILE)
