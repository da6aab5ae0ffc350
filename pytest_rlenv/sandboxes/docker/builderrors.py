"""Whose fault a failed build is: the Dockerfile's, a registry's, the network's or the disk's."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_rlenv.disk import says_full
from pytest_rlenv.errors import BuildFailed, RlenvError, SandboxFailed, Stage
from pytest_rlenv.sandboxes.docker.builds import Built
from pytest_rlenv.sandboxes.docker.dockerfile import uses_heredoc
from pytest_rlenv.sandboxes.docker.failures import engine_full
from pytest_rlenv.sandboxes.docker.registries import image_unavailable, one_line

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


def is_transient(built: Built, more: re.Pattern[str] | None = None) -> bool:
    """Return True for a failure that a second try may get past: a mirror, a reset, a rate limit.

    Args:
        built: how it ended.
        more: says so as well, where it is found in the output.
    """
    text = _evidence(built)
    low = text.lower()
    return any(pattern in low for pattern in _TRANSIENT) or bool(more and more.search(text))


def build_error(built: Built, name: str, dockerfile: str, *, roomy: Path | None = None) -> RlenvError:
    """Return the error for a failed build.

    Args:
        built: how it ended.
        name: what was being built, for the message.
        dockerfile: the Dockerfile's text.
        roomy: the engine's folder, if it is known that its disk is not full.
    """
    progress = built.progress
    evidence = _evidence(built)
    if says_full(evidence) and roomy is None:
        return engine_full(f"build {name}", evidence, Stage.BUILD)
    step = _OLD_STEP.sub("", progress.failed_step)
    error = progress.error or built.error
    image = _LOADS_IMAGE.search(step)
    if image and any(pattern in error.lower() for pattern in _REGISTRY):
        return image_unavailable(_short_name(image[1]), error)
    if any(pattern in error.lower() for pattern in _ENGINE):
        return SandboxFailed(
            f"the engine cannot build {name}: {one_line(error)}",
            hint="this is not the Dockerfile's fault: `docker info`; restarting the engine may help",
            detail="\n".join(progress.lines),
            stage=Stage.BUILD,
        )
    what = f"at {one_line(step)}: {one_line(error)}" if step else f"with {one_line(error)}"
    return BuildFailed(
        f"building {name} failed {what}",
        hint=_hint(built, dockerfile, roomy),
        detail="\n".join(progress.lines),
    )


def _evidence(built: Built) -> str:
    return "\n".join((built.error, built.progress.error, *built.progress.lines))


def _hint(built: Built, dockerfile: str, roomy: Path | None) -> str:
    if says_full(_evidence(built)):
        return f"a step needs more space than there is; {roomy}, where images are, is not full without it"
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
