"""Download many files of a commit at once, and go on where only one of them is at fault."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from pytest_rlenv.environments.hub_client import HubClient
from pytest_rlenv.environments.hub_errors import Asked, Refusal, explain, is_xet
from pytest_rlenv.environments.hub_reference import download_command

_WORKERS = 32
"""More than the client's own 8: the files are small, and each costs two round trips."""


@dataclass
class Downloads:
    """What came of it.

    Attributes:
        files: where each file is, in the Hugging Face cache.
        refused: why a file is not there.
    """

    files: dict[str, Path] = field(default_factory=dict)
    refused: dict[str, Refusal] = field(default_factory=dict)


def download_all(hub: HubClient, repo_id: str, sha: str, paths: Sequence[str]) -> Downloads:
    """Bring files into the Hugging Face cache; what it has costs no request.

    One call per file, which is what ``snapshot_download`` does inside. That one needs the whole tree first,
    matches each of its files with each pattern, and its first error hides which tasks are complete.

    Args:
        hub: where from.
        repo_id: the dataset.
        sha: the commit.
        paths: the files.
    """
    done = Downloads()
    missing = []
    for path in paths:
        cached = hub.cached_file(repo_id, sha, path)
        if cached is None:
            missing.append(path)
        else:
            done.files[path] = cached
    if hub.offline:
        done.refused.update(dict.fromkeys(missing, _offline(repo_id, sha)))
    elif missing:
        _download(hub, repo_id, sha, missing, done)
    return done


def _download(hub: HubClient, repo_id: str, sha: str, paths: list[str], done: Downloads) -> None:
    pool = ThreadPoolExecutor(min(_WORKERS, len(paths)), thread_name_prefix="rlenv-fetch")
    futures = {pool.submit(_twice, hub, repo_id, sha, path): path for path in paths}
    stopped: Refusal | None = None
    try:
        for future in as_completed(futures):
            refusal = _book(future, futures[future], done, hub, Asked(repo_id, sha, folder=futures[future]))
            if refusal is not None and not refusal.one_file:
                stopped = refusal
                break
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    if stopped is not None:
        _book_rest(futures, done, stopped)


def _book(future: Future[Path], path: str, done: Downloads, hub: HubClient, asked: Asked) -> Refusal | None:
    """Book one finished download; return why it failed, if it did."""
    try:
        done.files[path] = future.result()
        return None
    except Exception as error:  # sorted by explain(), which raises again what it does not know
        refusal = done.refused[path] = explain(error, hub, asked)
        return refusal


def _book_rest(futures: dict[Future[Path], str], done: Downloads, stopped: Refusal) -> None:
    """After a failure that concerns all: take what is under way, and give the rest the same reason."""
    for future, path in futures.items():
        if path in done.files or path in done.refused:
            continue
        if future.cancelled() or future.exception() is not None:
            done.refused[path] = stopped
        else:
            done.files[path] = future.result()


def _twice(hub: HubClient, repo_id: str, sha: str, path: str) -> Path:
    """Download a file, and once more if it was cut off: the client does not retry all that can break."""
    try:
        return hub.download(repo_id, sha, path)
    except Exception as error:
        if not _worth_again(error):
            raise
    return hub.download(repo_id, sha, path)


def _worth_again(error: Exception) -> bool:
    from huggingface_hub import errors

    if isinstance(error, errors.HfHubHTTPError):
        return error.response.status_code >= 500
    if isinstance(error, (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled)):
        return False  # the client has tried five times, or may not
    # An OSError without a number is the client's "size differs from what was announced".
    return is_xet(error) or (isinstance(error, OSError) and error.errno is None)


def _offline(repo_id: str, sha: str) -> Refusal:
    return Refusal(
        "offline (HF_HUB_OFFLINE) and not cached",
        f"run once online, or: {download_command(repo_id, sha)}",
        passing=True,
        one_file=True,
    )
