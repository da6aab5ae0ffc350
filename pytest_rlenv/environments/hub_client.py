"""The Hub's client as this package uses it: every request, its retries, its settings from the environment.

The one module that calls ``huggingface_hub``, which costs 0.7 s to import and is imported when first asked.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote

from pytest_rlenv._version import __version__
from pytest_rlenv.environments import hub_reference
from pytest_rlenv.environments.hub_reference import SPACES, kind_of
from pytest_rlenv.environments.hub_waits import RelayedWaits, pause_before_retry, without_no_match_warning

if TYPE_CHECKING:
    from huggingface_hub import HfApi

T = TypeVar("T")

README = "README.md"
_PATHS_PER_REQUEST = 500
_TIMEOUT_SEC = 30.0
_TRUE = {"1", "on", "yes", "true"}


@dataclass(frozen=True)
class RepoFacts:
    """What one request tells about a repository at a revision; ``repo_id`` is its present name."""

    repo_id: str
    sha: str
    gated: bool
    disabled: bool


class HubClient:
    """Requests to one Hub.

    The settings that ``huggingface_hub`` freezes when it is imported are read here when the object is made.

    Args:
        notify: called with one line when the Hub makes us wait.

    Attributes:
        endpoint: the Hub's address (``HF_ENDPOINT``).
        offline: no request may be made (``HF_HUB_OFFLINE``).
        cache_dir: the user's Hugging Face cache (``HF_HUB_CACHE``, ``HF_HOME``).
    """

    def __init__(self, notify: Callable[[str], None] | None = None) -> None:
        self.endpoint = hub_reference.endpoint()
        self.offline = (
            os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
        ).lower() in _TRUE
        self.cache_dir = _cache_dir()
        self._notify = notify or (lambda line: None)

    @property
    def has_token(self) -> bool:
        """Whether requests are made in a user's name."""
        from huggingface_hub import get_token

        return get_token() is not None

    def facts(self, repo_id: str, revision: str | None) -> RepoFacts:
        """Resolve a revision to its commit: one request."""
        kind, name = kind_of(repo_id)
        wanted: Any = ["sha", "private", "disabled", *(["gated"] if kind == "dataset" else [])]
        info: Any = self._patiently(
            lambda: self._api.repo_info(
                name, repo_type=kind, revision=revision, timeout=_TIMEOUT_SEC, expand=wanted
            )
        )
        if not info.sha:
            raise ValueError("the answer has no commit")
        present = f"{SPACES if kind == 'space' else ''}{info.id}"
        gated = bool(getattr(info, "gated", False))
        return RepoFacts(present, info.sha, gated=gated, disabled=bool(info.disabled))

    def entries(
        self, repo_id: str, sha: str, folder: str, *, recursive: bool = False
    ) -> Iterator[tuple[str, bool]]:
        """Yield (path, is a folder) for what a folder holds: one request per 1000."""
        where = f"/{quote(folder, safe='')}" if folder else ""
        url: str | None = (
            f"{self._address(repo_id)}/tree/{quote(sha, safe='')}{where}"
            f"?recursive={str(recursive).lower()}&expand=false"
        )
        while url is not None:
            response = self._patiently(partial(self._request, "GET", url))
            for entry in response.json():
                yield entry["path"], entry["type"] == "directory"
            url = response.links.get("next", {}).get("url")

    def existing(self, repo_id: str, sha: str, paths: list[str]) -> set[str]:
        """Return which of the paths there are: one request per 500."""
        found: set[str] = set()
        url = f"{self._address(repo_id)}/paths-info/{quote(sha, safe='')}"
        for start in range(0, len(paths), _PATHS_PER_REQUEST):
            form = {"paths": paths[start : start + _PATHS_PER_REQUEST], "expand": False}
            response = self._patiently(partial(self._request, "POST", url, data=form))
            found.update(entry["path"] for entry in response.json())
        return found

    def whole_tree(self, repo_id: str, sha: str) -> list[str]:
        """Return all files of a commit: one request per 1000 files and folders, and none the next time.

        The listing goes into the user's Hugging Face cache, where the other tools find it as well.
        """
        from huggingface_hub import snapshot_download

        kind, name = kind_of(repo_id)
        with self._relaying(), without_no_match_warning():
            self._patiently(
                partial(
                    snapshot_download,
                    name,
                    repo_type=kind,
                    revision=sha,
                    allow_patterns=[README],
                    cache_dir=self.cache_dir,
                    endpoint=self.endpoint,
                    tqdm_class=_quiet_bar(),
                    **_AGENT,
                )
            )
        tree = self.cached_tree(repo_id, sha)
        if tree is not None:
            return tree
        return [path for path, is_folder in self.entries(repo_id, sha, "", recursive=True) if not is_folder]

    def download(self, repo_id: str, sha: str, path: str) -> Path:
        """Return a file of a commit, in the Hugging Face cache: two requests if it is not there."""
        from huggingface_hub import hf_hub_download

        kind, name = kind_of(repo_id)
        with self._relaying():
            return Path(
                hf_hub_download(
                    name,
                    path,
                    repo_type=kind,
                    revision=sha,
                    cache_dir=self.cache_dir,
                    endpoint=self.endpoint,
                    local_files_only=self.offline,
                    tqdm_class=_quiet_bar(),
                    **_AGENT,
                )
            )

    def branches_and_tags(self, repo_id: str) -> list[str]:
        """Return the names that a revision can have."""
        kind, name = kind_of(repo_id)
        refs = self._api.list_repo_refs(name, repo_type=kind)
        return [ref.name for ref in (*refs.branches, *refs.tags)]

    def other_kind(self, repo_id: str) -> str | None:
        """Return ``a model`` or ``a Space`` if a repository of this name, and not of that kind, is one."""
        if kind_of(repo_id)[0] != "dataset":
            return None
        for repo_type, words in (("model", "a model"), ("space", "a Space")):
            with suppress(Exception):  # only words for a message: whatever goes wrong, there is none
                self._api.repo_info(repo_id, repo_type=repo_type, timeout=5)
                return words
        return None

    def cached_file(self, repo_id: str, sha: str, path: str) -> Path | None:
        """Return a file of a commit if the Hugging Face cache has it; no request."""
        from huggingface_hub import try_to_load_from_cache

        kind, name = kind_of(repo_id)
        found = try_to_load_from_cache(name, path, cache_dir=self.cache_dir, revision=sha, repo_type=kind)
        return Path(found) if isinstance(found, str) else None

    def cached_tree(self, repo_id: str, sha: str) -> list[str] | None:
        """Return all files of a commit if the Hugging Face cache has its listing; no request."""
        from huggingface_hub import get_cached_repo_tree
        from huggingface_hub.errors import CachedRepoTreeNotFoundError

        kind, name = kind_of(repo_id)
        try:
            tree = get_cached_repo_tree(name, repo_type=kind, revision=sha, cache_dir=self.cache_dir)
        except CachedRepoTreeNotFoundError:
            return None
        return [file.path for file in tree]

    def cached_snapshot(self, repo_id: str, sha: str) -> list[str]:
        """Return the files of a commit that the Hugging Face cache has, be they all or not; no request."""
        snapshot = self._storage(repo_id) / "snapshots" / sha
        return [path.relative_to(snapshot).as_posix() for path in snapshot.rglob("*") if path.is_file()]

    def cached_commit(self, repo_id: str, revision: str | None) -> str | None:
        """Return the commit that a revision had when the Hugging Face cache last saw it; no request."""
        with suppress(OSError, ValueError):
            return (
                (self._storage(repo_id) / "refs" / (revision or "main")).read_text(encoding="ascii").strip()
            )
        return None

    @cached_property
    def _api(self) -> HfApi:
        from huggingface_hub import HfApi

        return HfApi(endpoint=self.endpoint, **_AGENT)

    def _request(self, method: str, url: str, **content: Any) -> Any:
        """Make a request with a time limit, which the client's own listing has not, nor always a retry."""
        from huggingface_hub import utils

        client: Any = utils  # its names are exported lazily, which type checkers do not see
        headers = client.build_hf_headers(**_AGENT)
        response = client.get_session().request(method, url, headers=headers, timeout=_TIMEOUT_SEC, **content)
        client.hf_raise_for_status(response)
        return response

    def _storage(self, repo_id: str) -> Path:
        kind, name = kind_of(repo_id)
        return self.cache_dir / f"{kind}s--{name.replace('/', '--')}"

    def page(self, repo_id: str) -> str:
        """Return the address of a repository's page."""
        kind, name = kind_of(repo_id)
        return f"{self.endpoint}/{kind}s/{name}"

    def _address(self, repo_id: str) -> str:
        """Return the address by which programs ask for it."""
        kind, name = kind_of(repo_id)
        return f"{self.endpoint}/api/{kind}s/{name}"

    def _relaying(self) -> RelayedWaits:
        return RelayedWaits(self._notify)

    def _patiently(self, call: Callable[[], T]) -> T:
        """Make a request that the client itself does not retry."""
        for attempt in range(1, 5):
            try:
                return call()
            except Exception as error:
                pause = pause_before_retry(error, attempt)
                if pause is None:
                    raise
                self._notify(f"{self.endpoint} is busy: waiting {pause:.0f} s")
                time.sleep(pause)
        return call()


_AGENT: dict[str, Any] = {"library_name": "pytest-rlenv", "library_version": __version__}


def _cache_dir() -> Path:
    if own := os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE"):
        return Path(os.path.expandvars(own)).expanduser()
    if home := os.environ.get("HF_HOME"):
        return Path(os.path.expandvars(home)).expanduser() / "hub"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "huggingface" / "hub"


def _quiet_bar() -> Any:
    """Return a progress bar class that shows nothing: bars would tear pytest's own output."""
    from huggingface_hub import utils

    class QuietBar(cast(Any, utils).tqdm):  # type: ignore[misc]  # the client's bar is not typed
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **{**kwargs, "disable": True})

    return QuietBar
