from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rlenv.sandboxes.docker.dockerfile import base_images, instructions, needs_buildkit, uses_heredoc


@pytest.mark.parametrize(
    ("text", "images"),
    [
        ("FROM debian", ["debian"]),
        ("from debian:12 as x\nFROM x", ["debian:12"]),
        ("FROM --platform=linux/amd64 debian AS b", ["debian"]),
        ("FROM scratch\nCOPY a /", []),
        ("ARG TAG=3.11\nFROM python:${TAG}-slim", ["python:3.11-slim"]),
        ("ARG A=py\nARG B=${A}thon:3\nFROM $B", ["python:3"]),
        ("ARG TAG\nFROM python:${TAG:-3.12}", ["python:3.12"]),
        ("ARG TAG\nFROM python:${TAG}", []),
        ('ARG IMAGE="debian:12"\nFROM $IMAGE', ["debian:12"]),
        ("FROM python AS python\nRUN x", ["python"]),
        ("FROM a AS one\nFROM b AS unused\nFROM c\nCOPY --from=one /x /x", ["c", "a"]),
        ("FROM a\nFROM b\nCOPY --from=0 /x /x", ["b", "a"]),
        ("FROM a\nCOPY --chown=1:1 --from=busybox:1 /x /x", ["a", "busybox:1"]),
        ("FROM a\nRUN --mount=type=bind,from=tools:2,target=/t make", ["a", "tools:2"]),
        ("FROM a\nRUN echo --from=b", ["a"]),
        ("# escape=`\nFROM a `\n  AS x\nFROM x", ["a"]),
        ("FROM \\\n# a comment\n\n  debian:12", ["debian:12"]),
        ("FROM a\nRUN <<EOF\nFROM b\nEOF\nCOPY --from=c x y", ["a", "c"]),
        ("FROM a\nCOPY <<-'E1' <<E2 /d/\nFROM b\nE1\nFROM c\n\tE2\n", ["a"]),
        ("FROM example.org:5000/a/b@sha256:" + "0" * 64, ["example.org:5000/a/b@sha256:" + "0" * 64]),
        ("\ufeffFROM debian", ["debian"]),
        ("", []),
        ("RUN true", []),
    ],
)
def test_base_images(text: str, images: list[str]) -> None:
    assert base_images(text) == images


STAGES = "ARG TAG=1\nARG OTHER\nFROM a:$TAG AS one\nFROM b:$OTHER AS Two\nFROM c\n"


@pytest.mark.parametrize(
    ("args", "target", "images"),
    [
        ({}, "", ["c"]),
        ({}, "one", ["a:1"]),
        ({}, "0", ["a:1"]),
        ({"TAG": "2"}, "one", ["a:2"]),
        ({}, "two", []),
        ({"OTHER": "x", "NOT_DECLARED": "y"}, "TWO", ["b:x"]),
        ({}, "nowhere", ["c"]),
    ],
)
def test_base_images_of_a_stage_with_arguments(args: dict[str, str], target: str, images: list[str]) -> None:
    assert base_images(STAGES, args.items(), target) == images


@pytest.mark.parametrize(
    ("text", "feature"),
    [
        ("FROM a\nRUN make", None),
        ("FROM a\nRUN cat <<< x", None),
        ("FROM a\nRUN echo $((1<<2))", None),
        ("FROM a\nRUN <<EOF\nx\nEOF", "a heredoc (<<)"),
        ("FROM a\nCOPY <<'EOF' /x\nx\nEOF", "a heredoc (<<)"),
        ("FROM a\nRUN --network=none --mount=type=cache,target=/x make", "RUN --mount"),
        ("FROM a\nCOPY --chmod=755 a b", "--chmod"),
        ("FROM a\nADD --chown=1 --link a b", "--link"),
        ("FROM a\n# RUN <<EOF\nRUN true", None),
    ],
)
def test_needs_buildkit(text: str, feature: str | None) -> None:
    assert needs_buildkit(text) == feature
    assert uses_heredoc(text) == (feature == "a heredoc (<<)")


@given(st.text(alphabet="FROM ARGCOPY \\\n#<$EOF{}=:-\"'`x", max_size=120))
def test_never_breaks_on_any_text(text: str) -> None:
    assert all("\n" not in line for line in instructions(text))
    assert isinstance(base_images(text), list)
