"""Failures of builds and pulls, in the words of Docker 20.10 and 26.1, of BuildKit and of registries."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_rlenv.errors import BuildFailed, DiskFull, ImageUnavailable, SandboxFailed
from pytest_rlenv.sandboxes.docker.builderrors import build_error, is_transient
from pytest_rlenv.sandboxes.docker.builds import Built
from pytest_rlenv.sandboxes.docker.progress import Progress
from pytest_rlenv.sandboxes.docker.registries import image_unavailable, may_pass

NO_DNS = (
    'failed to do request: Head "https://registry-1.docker.io/v2/library/nope/manifests/1": '
    "dial tcp: lookup registry-1.docker.io on 10.0.0.1:53: no such host"
)
DENIED = (
    "pull access denied, repository does not exist or may require authorization: server message: "
    "insufficient_scope: authorization failed"
)


def failed(step: str, error: str, log: str = "", last: str = "") -> Built:
    progress = Progress(failed_step=step, error=error)
    progress.add_log("", log)
    return Built("", last or error, progress)


@pytest.mark.parametrize(
    ("built", "kind", "words"),
    [
        (
            failed(
                "[3/3] RUN no-such-command",
                "executor failed running [/bin/sh -c x]: exit code: 127",
                "sh: no",
            ),
            BuildFailed,
            "no-such-command",
        ),
        (
            failed("[2/2] COPY nofile /x", 'failed to compute cache key: "/nofile" not found'),
            BuildFailed,
            "nofile",
        ),
        (
            failed("", "", last="dockerfile parse error line 3: unknown instruction: BOGUS"),
            BuildFailed,
            "BOGUS",
        ),
        (
            failed("Step 2/2 : RUN false", "", last="The command returned a non-zero code: 1"),
            BuildFailed,
            "RUN false",
        ),
        (
            failed("[internal] load metadata for docker.io/library/nope:1", NO_DNS),
            ImageUnavailable,
            "'nope:1'",
        ),
        (failed("[internal] load metadata for docker.io/me/own:1", DENIED), ImageUnavailable, "'me/own:1'"),
        (
            failed("resolve image config for docker.io/docker/dockerfile:1", NO_DNS),
            ImageUnavailable,
            "dockerfile:1",
        ),
        (
            failed("resolve image config for docker-image://docker.io/docker/dockerfile:1", NO_DNS),
            ImageUnavailable,
            "'docker/dockerfile:1'",
        ),
        (
            failed(
                "Step 1/2 : FROM nope:1", "", last="pull access denied for nope, repository does not exist"
            ),
            ImageUnavailable,
            "'nope:1'",
        ),
        (failed("[2/2] RUN make", "exit code: 1", "cc: No space left on device"), DiskFull, "no space left"),
        (
            failed(
                "[2/2] RUN true",
                "failed to create endpoint x on network bridge: adding interface v to bridge docker0 failed: "
                "could not find bridge docker0: route ip+net: no such network interface",
            ),
            SandboxFailed,
            "could not find bridge docker0",
        ),
        (failed("", "", last="write /x: no space left on device"), DiskFull, "no space left"),
    ],
)
def test_build_error(built: Built, kind: type[Exception], words: str) -> None:
    error = build_error(built, "the-task", "FROM x")
    assert type(error) is kind
    assert words in error.message
    assert error.hint
    assert error.stage.value == "build"


def test_log_is_the_detail() -> None:
    error = build_error(failed("[1/1] RUN x", "exit code: 1", "one\ntwo\n"), "t", "FROM x")
    assert error.detail == "one\ntwo"


def test_heredoc_on_an_old_builder() -> None:
    built = failed("", "", last="dockerfile parse error line 3: unknown instruction: ECHO")
    assert "here-documents" in build_error(built, "t", "FROM x\nRUN <<EOF\necho hi\nEOF").hint
    assert "here-documents" not in build_error(built, "t", "FROM x\nECHO hi").hint


@pytest.mark.parametrize(
    ("log", "transient"),
    [
        (
            "E: Failed to fetch http://x  File has unexpected size (1 != 2). Mirror sync in progress?",
            True,
        ),
        ("Err: Connection reset by peer", True),
        ("W: Temporary failure resolving 'deb.debian.org'", True),
        ("ERROR: HTTP error 429 Too Many Requests", True),
        ("pip._vendor.urllib3.exceptions.ReadTimeoutError: Read timed out.", True),
        ("make: *** [all] Error 2", False),
        ("E: Unable to locate package nope", False),
        ("line 429 of too many", False),
    ],
)
def test_transient(log: str, transient: bool) -> None:
    assert is_transient(failed("[2/2] RUN x", "exit code: 100", log)) is transient


@pytest.mark.parametrize(
    ("reason", "hint"),
    [
        (DENIED, "docker login"),
        ("unauthorized: authentication required", "docker login"),
        ("no basic auth credentials", "docker login"),
        ("received unexpected HTTP status: 403 Forbidden", "docker login"),
        ("received unexpected HTTP status: 429 Too Many Requests", "rate limit"),
        (f"manifest for some/image@sha256:{'429' * 21}a not found", "spelled right"),
        ("manifest for debian:nope not found: manifest unknown: manifest unknown", "spelled right"),
        ("toomanyrequests: You have reached your pull rate limit.", "rate limit"),
        (NO_DNS, "cannot reach the registry"),
        (
            "Get https://registry-1.docker.io/v2/: net/http: TLS handshake timeout",
            "cannot reach the registry",
        ),
    ],
)
def test_image_unavailable(reason: str, hint: str) -> None:
    error = image_unavailable("some/image:1", reason)
    assert "'some/image:1'" in error.message
    assert hint in error.hint


@pytest.mark.parametrize(
    ("reason", "worth"),
    [
        ("toomanyrequests: You have reached your pull rate limit.", True),
        ("received unexpected HTTP status: 429 Too Many Requests", True),
        ("received unexpected HTTP status: 503 Service Unavailable", True),
        ("net/http: TLS handshake timeout", True),
        ("read tcp 10.0.0.1:4->10.0.0.2:443: read: connection reset by peer", True),
        ("unauthorized: authentication required", False),
        (f"manifest for some/image@sha256:{'5034290' * 9}a not found: manifest unknown", False),
        (NO_DNS, False),
    ],
)
def test_refusals_that_may_pass(reason: str, worth: bool) -> None:
    assert may_pass(reason) is worth


def test_a_step_that_fills_something_smaller_than_the_disk_is_the_dockerfiles() -> None:
    built = failed("[2/2] RUN dd of=/dev/shm/x", "exit code: 1", "dd: /dev/shm/x: No space left on device")
    assert isinstance(build_error(built, "x", ""), DiskFull)
    error = build_error(built, "x", "", roomy=Path("/var/lib/docker"))
    assert isinstance(error, BuildFailed)
    assert "/var/lib/docker, where images are, is not full" in error.hint
