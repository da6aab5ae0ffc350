"""Whose fault a failed build is: the Dockerfile's, a registry's, the network's or the disk's."""

from __future__ import annotations

import re

from pytest_rlenv.errors import BuildFailed, ImageUnavailable, RlenvError, SandboxFailed, Stage
from pytest_rlenv.sandboxes.docker.builds import Built
from pytest_rlenv.sandboxes.docker.dockerfile import uses_heredoc
from pytest_rlenv.sandboxes.docker.failures import disk_full, is_disk_full

_LOADS_IMAGE = re.compile(
    r"(?:load metadata for|resolve image config for|\bFROM)\s+(?:docker-image://)?(\S+)"
)
_OLD_STEP = re.compile(r"^Step \d+/\d+ : ")
_REGISTRY = (
    "pull access denied",
    "failed to do request",
    "failed to fetch",
    "manifest unknown",
    "failed to resolve source metadata",
    "unexpected status code",
    "failed to authorize",
    "get https://",
    "manifest for",
)
_TRANSIENT = (
    "429 too many requests",
    "toomanyrequests",
    "500 internal server error",
    "502 bad gateway",
    "503 service unavailable",
    "504 gateway time",
    "connection reset by peer",
    "connection timed out",
    "mirror sync in progress",
    "file has unexpected size",
    "hash sum mismatch",
    "temporary failure resolving",
    "temporary failure in name resolution",
    "tls handshake timeout",
    "i/o timeout",
    "unexpected eof",
    "read timed out",
    "net/http: request canceled",
    "remote end closed connection",
)
_ENGINE = (
    "failed to create endpoint",
    "could not find bridge",
    "iptables failed",
    "oci runtime create failed",
    "runc did not terminate",
    "failed to mount",
    "failed to create shim",
    "input/output error",
)
_WORDS = 300


def is_transient(built: Built) -> bool:
    """Return True for a failure that a second try may get past: a mirror, a reset, a rate limit."""
    text = _evidence(built).lower()
    return any(pattern in text for pattern in _TRANSIENT)


def build_error(built: Built, name: str, dockerfile: str) -> RlenvError:
    """Return the error for a failed build.

    Args:
        built: how it ended.
        name: what was being built, for the message.
        dockerfile: the Dockerfile's text.
    """
    progress = built.progress
    evidence = _evidence(built)
    if is_disk_full(evidence):
        return disk_full(f"build {name}", evidence, Stage.BUILD)
    step = _OLD_STEP.sub("", progress.failed_step)
    error = progress.error or built.error
    image = _LOADS_IMAGE.search(step)
    if image and any(pattern in error.lower() for pattern in _REGISTRY):
        return image_unavailable(_short_name(image[1]), error)
    if any(pattern in error.lower() for pattern in _ENGINE):
        return SandboxFailed(
            f"the engine cannot build {name}: {_cut(error)}",
            hint="this is not the Dockerfile's fault: `docker info`; restarting the engine may help",
            detail="\n".join(progress.lines),
            stage=Stage.BUILD,
        )
    what = f"at {_cut(step)}: {_cut(error)}" if step else f"with {_cut(error)}"
    return BuildFailed(
        f"building {name} failed {what}", hint=_hint(built, dockerfile), detail="\n".join(progress.lines)
    )


def image_unavailable(name: str, reason: str) -> ImageUnavailable:
    """Return the error for an image that a registry does not give us."""
    low = reason.lower()
    if "denied" in low or "unauthorized" in low or "authentication required" in low:
        hint = f"is {name!r} spelled right? A private image needs `docker login` first"
    elif "not found" in low or "manifest unknown" in low or "does not exist" in low:
        hint = f"is {name!r} spelled right, and is there such a tag for this machine's architecture?"
    elif "toomanyrequests" in low or "429" in low:
        hint = "the registry's rate limit is used up: `docker login`, a mirror, or pull it beforehand"
    else:
        hint = (
            "the engine cannot reach the registry: check its network and proxy, or load the image beforehand"
        )
    return ImageUnavailable(
        f"image {name!r} is not here and cannot be pulled: {_cut(reason)}", hint=hint, detail=reason
    )


def _evidence(built: Built) -> str:
    return "\n".join((built.error, built.progress.error, *built.progress.lines))


def _hint(built: Built, dockerfile: str) -> str:
    if "unknown instruction" in built.error and uses_heredoc(dockerfile):
        return (
            "this engine's builder does not know here-documents (<<): they need Docker 23 or newer, "
            "or a first line `# syntax=docker/dockerfile:1`"
        )
    if is_transient(built):
        return "this looks like a fault of the network or a mirror; it came twice"
    return "build it by hand to see all of the log: `docker build` in the folder of the Dockerfile"


def _short_name(name: str) -> str:
    return re.sub(r"@sha256:.*", "", name).removeprefix("docker.io/").removeprefix("library/")


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WORDS else f"{line[:_WORDS]} ..."
