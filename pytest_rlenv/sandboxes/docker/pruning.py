"""Removes what runs have left in an engine: boxes of dead owners, and built images that nobody uses."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pytest_rlenv.sandboxes.docker import labels
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.diskusage import DiskUsage
from pytest_rlenv.sandboxes.docker.failures import EngineRefused, refusals_as_errors
from pytest_rlenv.sandboxes.docker.images import NAMESPACE, tag_of
from pytest_rlenv.sandboxes.docker.removal import delete, remove_container
from pytest_rlenv.sandboxes.docker.sweep import stale_containers, stale_surroundings
from pytest_rlenv.sandboxes.docker.uses import ImageUses
from pytest_rlenv.sandboxes.leftovers import CONTAINER, IMAGE, Leftover, Pruned

_CONFLICT = 409
_OURS = f"{labels.OURS}=1"


def prune(
    engine: Engine,
    cache_dir: Path,
    *,
    older_than: float = 0.0,
    dry_run: bool = False,
    wanted: Sequence[str] = (_OURS,),
) -> Pruned:
    """Remove boxes of dead owners, and the images that we built and nobody uses.

    Nothing is touched that lacks our label, and no image that a container or a live run of this user uses,
    or that carries a name which we have not given it. An image that another user's run has prepared, but not
    started yet, cannot be told from one that nobody uses.

    Args:
        engine: whose.
        cache_dir: where the uses of images are noted.
        older_than: seconds for which an image must not have been used.
        dry_run: only say what would be removed.
        wanted: labels that a thing must have.

    Raises:
        EngineUnavailable: there is no engine to ask.
    """
    with refusals_as_errors():
        return _Prune(engine, cache_dir, older_than, dry_run, wanted).run()


class _Prune:
    def __init__(
        self, engine: Engine, cache_dir: Path, older_than: float, dry_run: bool, wanted: Sequence[str]
    ) -> None:
        self._engine = engine
        self._uses = ImageUses(cache_dir, engine.fingerprint())
        self._older_than = older_than
        self._dry_run = dry_run
        self._wanted = list(wanted)
        self._done = Pruned()
        self._stale: set[str] = set()
        self._now = time.time()

    def run(self) -> Pruned:
        before = DiskUsage.of(self._engine)
        self._containers()
        used = {each["ImageID"] for each in self._list("containers", {}) if each["Id"] not in self._stale}
        images = self._list("images", {"label": self._wanted})
        for image in images:
            for name in _names(image):
                self._image(name, image, before.own_size(image), used)
        if self._dry_run:
            self._done.freed += sum(each.size for each in self._done.removed if each.kind == IMAGE)
        else:
            freed, self._done.held = before.freed_until(DiskUsage.of(self._engine))
            self._done.freed += freed
            if self._wanted == [_OURS]:
                self._uses.forget_all_but(frozenset(_key(image) for image in images))
        return self._done

    def _containers(self) -> None:
        for container in stale_containers(self._engine, self._wanted, sizes=True):
            self._stale.add(container["Id"])
            name = str((container.get("Names") or [container["Id"]])[0]).lstrip("/")
            size = int(container.get("SizeRw") or 0)
            problem = "" if self._dry_run else remove_container(self._engine, container["Id"])
            self._done.freed += 0 if problem else size
            self._book(CONTAINER, name, size, problem)
        for kind, name, path in stale_surroundings(self._engine, self._wanted):
            self._book(kind, name, 0, "" if self._dry_run else delete(self._engine, path))

    def _image(self, name: str, image: dict[str, Any], size: int, used: set[str]) -> None:
        key = _key(image)
        with self._uses.removing() as claimed:
            if image["Id"] in used or key in claimed:
                self._done.in_use += 1
            elif self._now - self._last_use(key, image) < self._older_than:
                self._done.recent += 1
            else:
                self._remove(name, key, size)

    def _last_use(self, key: str, image: dict[str, Any]) -> float:
        """Return when an image was used last; for another user's, when it was made."""
        noted = self._uses.last_use(key)
        return float(image.get("Created") or 0) if noted is None else noted

    def _remove(self, name: str, key: str, size: int) -> None:
        problem = ""
        try:
            if not self._dry_run:
                # not by force: the engine knows best whether a container or another image needs it
                path = f"/images/{quote(name, safe='/:@')}"
                self._engine.request("DELETE", path, doing=f"remove image {name}")
                self._uses.forget(key)
        except EngineRefused as refused:
            if refused.status == _CONFLICT:
                self._done.in_use += 1
                return
            problem = "" if refused.status == 404 else str(refused)
        self._book(IMAGE, name, size, problem)

    def _book(self, kind: str, name: str, size: int, problem: str) -> None:
        if problem:
            self._done.problems.append(f"{kind} {name}: {problem}")
        else:
            self._done.removed.append(Leftover(kind, name, size))

    def _list(self, what: str, filters: dict[str, list[str]]) -> list[dict[str, Any]]:
        params = {"filters": json.dumps(filters), "all": int(what == "containers")}
        found: list[dict[str, Any]] = self._engine.get(f"/{what}/json", params=params, doing=f"list {what}")
        return found


def _key(image: dict[str, Any]) -> str:
    return str((image.get("Labels") or {}).get(labels.KEY, ""))


def _names(image: dict[str, Any]) -> list[str]:
    """Return the names by which an image is ours to remove; its id if it has lost all names."""
    names = [name for name in image.get("RepoTags") or () if name != "<none>:<none>"]
    if not names:
        return [str(image["Id"])]
    # labels are inherited by what others build on an image of ours, our way to name it is not
    ending = f":{tag_of(_key(image))}"
    ours = (f"{NAMESPACE}/", f"localhost/{NAMESPACE}/")
    return [name for name in names if name.startswith(ours) and name.endswith(ending)]
