"""The ways to write a dataset repository of the Hub: ``org/repo@rev/folder``, ``hf://`` and page URLs.

``huggingface_hub`` has a parser too, but it costs some 300 ms to import, refuses the bare ``org/repo`` and
takes ``..`` in paths.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import NoReturn
from urllib.parse import unquote, urlsplit

from pytest_rlenv.environments.layouts import MANIFEST, OLDER_MANIFEST
from pytest_rlenv.errors import SpecError

DEFAULT_ENDPOINT = "https://huggingface.co"
FORMS = "write org/repo[@revision][/folder], hf://datasets/org/repo, or the URL of the dataset's page"

_HOSTS = ("huggingface.co", "www.huggingface.co", "hf.co")
_PART = re.compile(r"\b[\w\-.]{1,96}\b", re.ASCII)
# Such refs hold slashes of their own, so they are matched before the slash that starts a folder.
_SPECIAL_REF = re.compile(r"refs/(?:convert/[\w.-]+|pr/\d+)(?=/|$)", re.ASCII)
_NOT_IN_A_REF = re.compile(r"[\s~^:?*\[\]\\\x00-\x1f\x7f]|\.\.|@\{|^[/-]|/$|//")
_REPO_KINDS = {"models": "a model", "kernels": "a kernel", "buckets": "a bucket"}
_OTHER_PAGES = {"api", "blog", "collections", "docs", "join", "learn", "organizations", "papers", "settings"}
_FILE_VIEWS = ("blob", "resolve", "raw", "blame")
_CODE_HOSTS = ("github.com", "gitlab.com", "bitbucket.org")


SPACES = "spaces/"
"""In front of the name of a Space, where one stands beside the names of datasets."""


@dataclass(frozen=True)
class HubReference:
    """A dataset repository or a Space, with the revision and folder that were asked for.

    Attributes:
        repo_id: ``org/repo``; of a Space ``spaces/org/repo``.
        revision: branch, tag or commit.
        subpath: the folder.
    """

    repo_id: str
    revision: str | None = None
    subpath: str = ""


def endpoint() -> str:
    """Return the Hub's address without a trailing slash: ``HF_ENDPOINT``, or the public Hub."""
    return (os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")


def kind_of(repo_id: str) -> tuple[str, str]:
    """Return the kind of repository, as the Hub's client calls it, and its name there."""
    if repo_id.startswith(SPACES):
        return "space", repo_id.removeprefix(SPACES)
    return "dataset", repo_id


def download_command(repo_id: str, revision: str | None = None) -> str:
    """Return the command that brings a repository into the Hugging Face cache."""
    kind, name = kind_of(repo_id)
    return f"hf download {name} --repo-type {kind}{f' --revision {revision}' if revision else ''}"


def looks_like_url(text: str) -> bool:
    """Whether a text without a scheme starts with the Hub's host name."""
    host, slash, _ = text.lower().partition("/")
    return bool(slash) and host in (*_HOSTS, _endpoint_parts()[0])


def parse_bare(text: str) -> HubReference:
    """Read ``org/repo[@revision][/folder]``, also with ``datasets/`` or, for a Space, ``spaces/`` in front.

    Raises:
        SpecError: if it is not of this form.
    """
    first, _, rest = text.partition("/")
    if first.lower() in _CODE_HOSTS:
        _refuse(
            text,
            f"is a repository on {first}",
            "clone it and name the folder, or name a Hub dataset as org/repo",
        )
    if first == "datasets" and "/" in rest:
        return _location(text, rest)
    if first == "spaces" and "/" in rest:
        return _space(text, rest)
    if first in _REPO_KINDS and "/" in rest:
        _refuse_kind(text, _REPO_KINDS[first], rest)
    return _location(text, text)


def parse_uri_or_url(text: str) -> HubReference:
    """Read ``hf://datasets/org/repo[@revision][/folder]``, or the URL of a dataset's page, folder or file.

    Likewise with ``spaces`` in the place of ``datasets``.

    Raises:
        SpecError: if it is neither, or names a model or a page that holds no files.
    """
    if text.startswith("hf://"):
        return _uri(text, text[len("hf://") :])
    return _url(text)


def _uri(text: str, body: str) -> HubReference:
    kind, _, rest = body.partition("/")
    if kind == "datasets":
        return _location(text, rest)
    if kind == "spaces":
        return _space(text, rest)
    if kind in _REPO_KINDS:
        _refuse_kind(text, _REPO_KINDS[kind], rest)
    if "/" not in body.strip("/"):
        _refuse(text, "names no repository: a dataset is org/repo")
    return _refuse_kind(text, "a model", body)


def _url(text: str) -> HubReference:
    try:
        parts = urlsplit(text if "://" in text else f"//{text}")
    except ValueError as error:
        _refuse(text, f"is not a URL ({error})")
    host, prefix = _endpoint_parts()
    netloc = parts.netloc.lower()
    if parts.scheme not in ("", "http", "https") or netloc not in (*_HOSTS, host):
        _refuse(
            text,
            "is not an address on the Hub",
            f"{FORMS}; a clone of another repository is given as a folder",
        )
    path = parts.path
    if netloc == host and prefix and path.startswith(f"{prefix}/"):
        path = path[len(prefix) :]
    # Split before decoding: %2F inside a segment belongs to the name of a branch.
    segments = [unquote(segment) for segment in path.split("/") if segment]
    return _page(text, segments)


def _page(text: str, segments: list[str]) -> HubReference:
    kind = segments[0] if segments else ""
    if kind in _REPO_KINDS and len(segments) >= 3:
        _refuse_kind(text, _REPO_KINDS[kind], "/".join(segments[1:3]))
    if kind not in ("datasets", "spaces"):
        if kind in _OTHER_PAGES or len(segments) < 2:
            _refuse(text, "is not the page of a dataset")
        _refuse_kind(text, "a model", "/".join(segments[:2]))
    if len(segments) < 3:
        _refuse(text, "names no repository: a dataset is org/repo")
    org, name, *rest = segments[1:]
    where_is = _space if kind == "spaces" else _location
    named = where_is(text, f"{org}/{name.removesuffix('.git')}")
    if not rest:
        return named
    view, *where = rest
    if view not in ("tree", *_FILE_VIEWS):
        _refuse(text, f"is the {view!r} page of a dataset, which holds no files", f"write {named.repo_id}")
    if not where:
        return named
    revision, folder = _split_revision(where)
    if view != "tree":
        folder = folder[:-1]  # these pages show a file; its folder is meant
    return HubReference(named.repo_id, _checked_revision(text, revision), _checked_subpath(text, folder))


def _space(text: str, location: str) -> HubReference:
    found = _location(text, location)
    return replace(found, repo_id=f"{SPACES}{found.repo_id}")


def _split_revision(segments: list[str]) -> tuple[str, list[str]]:
    special = _SPECIAL_REF.match("/".join(segments))
    if special:
        return special.group(), segments[3:] if "/" not in segments[0] else segments[1:]
    return segments[0], segments[1:]


def _location(text: str, location: str) -> HubReference:
    """Read ``org/name[@revision][/folder]``."""
    org, _, rest = location.partition("/")
    name = re.split(r"[@/]", rest, maxsplit=1)[0]
    tail = rest[len(name) :]
    repo_id = _checked_repo_id(text, org, name)
    if not tail.startswith("@"):
        return HubReference(repo_id, None, _checked_subpath(text, tail.split("/")))
    special = _SPECIAL_REF.match(tail, 1)
    revision = special.group() if special else tail[1:].partition("/")[0]
    folder = tail[1 + len(revision) :]
    return HubReference(
        repo_id, _checked_revision(text, unquote(revision)), _checked_subpath(text, folder.split("/"))
    )


def _checked_repo_id(text: str, org: str, name: str) -> str:
    repo_id = f"{org}/{name}"
    if not (_PART.fullmatch(org) and _PART.fullmatch(name)):
        _refuse(text, "is neither a folder nor a Hub dataset (org/repo)")
    if len(repo_id) > 96 or "--" in repo_id or ".." in repo_id or name.endswith(".git"):
        _refuse(
            text,
            f"is no folder, and {repo_id!r} cannot be the name of a repository",
            "such names have at most 96 characters, no '--' or '..', and do not end in '.git'",
        )
    return repo_id


def _checked_revision(text: str, revision: str) -> str:
    if not revision or _NOT_IN_A_REF.search(revision):
        _refuse(text, f"asks for {revision!r}, which cannot be a branch, tag or commit")
    return revision.lower() if re.fullmatch(r"[0-9a-fA-F]{40}", revision) else revision


def _checked_subpath(text: str, parts: list[str]) -> str:
    kept = [part for part in parts if part not in ("", ".")]
    if any(part == ".." or "\\" in part or "\0" in part or "/" in part for part in kept):
        _refuse(
            text,
            "has a folder that leaves the repository or is no path",
            "name a folder below the repository",
        )
    if kept and kept[-1] in (MANIFEST, OLDER_MANIFEST):
        kept.pop()  # the file of a task was named; the task is its folder
    return "/".join(kept)


def _endpoint_parts() -> tuple[str, str]:
    try:
        parts = urlsplit(endpoint())
    except ValueError:
        return "", ""
    return parts.netloc.lower(), parts.path.rstrip("/")


def _refuse_kind(text: str, kind: str, repo_id: str) -> NoReturn:
    _refuse(
        text,
        f"is {kind} on the Hub, and tasks are read from datasets",
        f"did you mean hf://datasets/{repo_id}?" if repo_id.strip("/") else FORMS,
    )


def _refuse(text: str, why: str, hint: str = FORMS) -> NoReturn:
    raise SpecError(f"{text!r} {why}", hint=hint)
