"""An environment in a dataset repository of the Hub: pin its commit, find its tasks, fetch none of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_rlenv.environments import registry
from pytest_rlenv.environments.card import read_card
from pytest_rlenv.environments.discovery import INSTRUCTION, find_tasks, outside_of
from pytest_rlenv.environments.finders import FOLDERS_ONLY, Finding, Others, Place
from pytest_rlenv.environments.hub_cache import Found, RepoCache
from pytest_rlenv.environments.hub_client import README, HubClient, RepoFacts
from pytest_rlenv.environments.hub_errors import Asked, Refusal, explain, explaining
from pytest_rlenv.environments.hub_fetch import fetch_files
from pytest_rlenv.environments.hub_listing import list_for_discovery
from pytest_rlenv.environments.hub_reference import download_command
from pytest_rlenv.environments.layouts import manifest_of
from pytest_rlenv.environments.model import HUB, Environment, TaskRef
from pytest_rlenv.environments.nothing_found import nothing_found
from pytest_rlenv.environments.spec import Spec
from pytest_rlenv.errors import SpecError

_SHA = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class _Pin:
    """A repository at a commit, and whether the Hub was reached to learn it."""

    repo_id: str
    sha: str
    gated: bool = False
    offline: bool = False
    warnings: tuple[str, ...] = ()


def resolve_hub(
    spec: Spec,
    *,
    cache_dir: Path,
    hub: HubClient,
    dataset: str | None = None,
    others: Others = FOLDERS_ONLY,
) -> Environment:
    """Pin a dataset repository to a commit and find its tasks.

    A first run takes some ten requests, a later one with a branch one, with a commit's 40 digits none. When
    the Hub is silent the last known commit is used, with a warning.

    Args:
        spec: one of the Hub. Its folder narrows down the tasks; their ids stay what they are in all of it.
        cache_dir: the package's cache.
        hub: where to ask.
        dataset: ``name[@version]`` in the repository's ``registry.json``, whose tasks are folders.
        others: where tasks that are no folders are looked for.

    Raises:
        SpecError: for whatever stands in the way, with the cure, before anything was started.
    """
    assert spec.repo_id is not None
    pin = _pin(spec, cache_dir, hub)
    finding = Finding()
    if dataset is None:
        found = _found(pin, spec.subpath, cache_dir, hub)
        tasks, finding = others.join(found.tasks, _place(pin, found, cache_dir, hub))
        if not tasks:
            raise _nothing(pin, spec.subpath, hub, others, finding)
    else:
        pin, found, tasks = _dataset(dataset, pin, spec, cache_dir, hub)
    return Environment(
        name=pin.repo_id,
        source=HUB,
        root=RepoCache(cache_dir, pin.repo_id).root(pin.sha),
        repo_id=pin.repo_id,
        revision=pin.sha,
        requested_revision=spec.revision,
        tags=found.tags,
        tasks=tasks,
        found=len(tasks),
        folders=(spec.subpath,) if spec.subpath else (),
        warnings=(*pin.warnings, *found.warnings, *finding.warnings),
    )


def _place(pin: _Pin, found: Found, cache_dir: Path, hub: HubClient) -> Place:
    def bring(paths: Sequence[str]) -> None:
        fetch_files(pin.repo_id, pin.sha, paths, cache_dir=cache_dir, hub=hub)

    return Place(
        title=f"{pin.repo_id}@{pin.sha[:12]}",
        name=pin.repo_id,
        root=RepoCache(cache_dir, pin.repo_id).root(pin.sha),
        files=found.others,
        base=found.base,
        tags=found.tags,
        repo_id=pin.repo_id,
        revision=pin.sha,
        bring=bring,
    )


def _nothing(pin: _Pin, base: str, hub: HubClient, others: Others, finding: Finding) -> SpecError:
    if pin.offline:
        files = _files(pin, base, hub)
    else:
        with explaining(hub, Asked(pin.repo_id, pin.sha)):
            files = hub.whole_tree(pin.repo_id, pin.sha)
    where = f"{pin.repo_id}@{pin.sha[:12]}"
    return nothing_found(where, files, base=base, looked_for=others.looked_for, reason=finding.reason)


def _pin(spec: Spec, cache_dir: Path, hub: HubClient) -> _Pin:
    assert spec.repo_id is not None
    repo_id = RepoCache(cache_dir, spec.repo_id).renamed() or spec.repo_id
    cache = RepoCache(cache_dir, repo_id)
    if spec.revision and _SHA.fullmatch(spec.revision) and cache.knows(spec.revision, spec.subpath):
        return _Pin(repo_id, spec.revision)
    asked = Asked(spec.repo_id, spec.revision or "", text=spec.text)
    if hub.offline:
        return _last_known(spec, repo_id, cache, hub)
    try:
        facts = hub.facts(spec.repo_id, spec.revision)
    except Exception as error:  # sorted by explain(), which raises again what it does not know
        refusal = explain(error, hub, asked)
        if not refusal.passing:
            raise refusal.error() from error
        return _last_known(spec, repo_id, cache, hub, refusal)
    return _pinned(spec, facts, cache_dir)


def _pinned(spec: Spec, facts: RepoFacts, cache_dir: Path) -> _Pin:
    assert spec.repo_id is not None
    if facts.disabled:
        raise SpecError(f"{facts.repo_id} is disabled by the Hub", hint="name another dataset")
    RepoCache(cache_dir, facts.repo_id).remember(spec.revision, facts.sha)
    if facts.repo_id == spec.repo_id:
        return _Pin(facts.repo_id, facts.sha, facts.gated)
    RepoCache(cache_dir, spec.repo_id).remember_renamed(facts.repo_id)
    warning = f"{spec.repo_id} was renamed to {facts.repo_id}: use the new name"
    return _Pin(facts.repo_id, facts.sha, facts.gated, warnings=(warning,))


def _last_known(
    spec: Spec, repo_id: str, cache: RepoCache, hub: HubClient, refusal: Refusal | None = None
) -> _Pin:
    """Return the commit that was last seen, when the Hub cannot be asked."""
    is_commit = spec.revision and _SHA.fullmatch(spec.revision)
    sha = (
        spec.revision
        if is_commit
        else cache.commit(spec.revision) or hub.cached_commit(repo_id, spec.revision)
    )
    if sha and (
        cache.knows(sha, spec.subpath) or hub.cached_tree(repo_id, sha) or hub.cached_snapshot(repo_id, sha)
    ):
        why = refusal.message if refusal else "HF_HUB_OFFLINE is set"
        return _Pin(
            repo_id, sha, offline=True, warnings=(f"{repo_id}: {why}; using the cached commit {sha[:12]}",)
        )
    if refusal:
        raise refusal.error()
    wanted = f"{repo_id}@{spec.revision}" if spec.revision else repo_id
    raise SpecError(
        f"offline (HF_HUB_OFFLINE), and {wanted} is not cached",
        hint=f"run once online, or: {download_command(repo_id, spec.revision)}",
    )


def _found(pin: _Pin, base: str, cache_dir: Path, hub: HubClient) -> Found:
    cache = RepoCache(cache_dir, pin.repo_id)
    known = cache.found(pin.sha, base)
    if known is not None and (known.tasks or known.others):
        return known
    files = _files(pin, base, hub)
    tasks = find_tasks(files, root_name=pin.repo_id.rpartition("/")[2], base=base)
    outside = outside_of(tasks, (path for path in files if not base or path.startswith(f"{base}/")))
    telling = _first_file(tasks[0]) if tasks else next(iter(outside), None)
    card = read_card(_readme(pin, telling, hub), pin.repo_id, published=True)
    found = Found(pin.sha, base, tasks, card.tags, card.warnings, outside)
    if not pin.offline:  # what the Hugging Face cache holds may be a part only
        cache.store(found)
    return found


def _files(pin: _Pin, base: str, hub: HubClient) -> Sequence[str]:
    if pin.offline:
        tree = hub.cached_tree(pin.repo_id, pin.sha)
        return hub.cached_snapshot(pin.repo_id, pin.sha) if tree is None else tree
    with explaining(hub, Asked(pin.repo_id, pin.sha, folder=base)):
        return list_for_discovery(hub, pin.repo_id, pin.sha, base)


def _first_file(task: TaskRef) -> str:
    name = INSTRUCTION if task.problem else manifest_of(task.framework)
    return name if task.path == "." else f"{task.path}/{name}"


def _readme(pin: _Pin, telling: str | None, hub: HubClient) -> str | None:
    """Return the card, having made sure that the repository's files may be read.

    Names are public even where contents are not, so only a file tells; and where a repository is gated, the
    card tells nothing about the rest.
    """
    path = _file(pin, README, hub)
    if telling is not None and not pin.offline and (path is None or pin.gated):
        _file(pin, telling, hub)
    return path.read_text(encoding="utf-8", errors="replace") if path else None


def _file(pin: _Pin, path: str, hub: HubClient) -> Path | None:
    """Return a file of the commit, ``None`` if there is none of this name."""
    from huggingface_hub.errors import RemoteEntryNotFoundError

    cached = hub.cached_file(pin.repo_id, pin.sha, path)
    if cached or pin.offline:
        return cached
    with explaining(hub, Asked(pin.repo_id, pin.sha, folder=path)):
        try:
            return hub.download(pin.repo_id, pin.sha, path)
        except RemoteEntryNotFoundError:
            return None


def _dataset(
    wanted: str, pin: _Pin, spec: Spec, cache_dir: Path, hub: HubClient
) -> tuple[_Pin, Found, tuple[TaskRef, ...]]:
    """Choose a dataset in ``registry.json``, and move to the commit that it pins, if it does."""
    path = _file(pin, registry.FILE, hub)
    if path is None:
        raise SpecError(
            f"{pin.repo_id}@{pin.sha[:12]} has no {registry.FILE}, which --rlenv-dataset {wanted!r} needs",
            hint="leave --rlenv-dataset out to get all tasks of the repository",
        )
    text = path.read_text(encoding="utf-8", errors="replace")
    dataset = registry.choose_dataset(registry.read_registry(text, pin.repo_id), wanted, pin.repo_id)
    commit = registry.commit_of(dataset, pin.repo_id)
    if commit and commit != pin.sha:
        moved = _pin(Spec(spec.text, HUB, repo_id=pin.repo_id, revision=commit), cache_dir, hub)
        pin = _Pin(moved.repo_id, moved.sha, moved.gated, moved.offline, (*pin.warnings, *moved.warnings))
    found = _found(pin, spec.subpath, cache_dir, hub)
    if not found.tasks:
        raise _nothing(pin, spec.subpath, hub, FOLDERS_ONLY, Finding())
    tasks = registry.dataset_tasks(dataset, found.tasks, repo_id=pin.repo_id, revision=commit)
    if spec.subpath:
        tasks = tuple(t for t in tasks if f"{t.path}/".startswith(f"{spec.subpath}/"))
    if not tasks:
        raise SpecError(f"{registry.FILE} of {pin.repo_id} lists no tasks for {wanted!r}")
    return pin, found, tasks
