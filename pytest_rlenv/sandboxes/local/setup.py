"""What this machine allows: which bubblewrap, with overlays or without, and where boxes keep their files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_rlenv.errors import EngineUnavailable
from pytest_rlenv.sandboxes.local._removal import remove_tree
from pytest_rlenv.sandboxes.local.bwrap import (
    EXTRA,
    Bubblewrap,
    candidates,
    is_privileged,
    probe,
    refused,
)
from pytest_rlenv.sandboxes.local.places import bases, sweep
from pytest_rlenv.sandboxes.owners import Owner


@dataclass(frozen=True)
class Setup:
    """What was tried out and works.

    Attributes:
        binary: the bubblewrap to use.
        privileged: True for a root that needs no user namespace.
        base: the folder for boxes.
        no_overlay: why images cannot be used, empty if they can.
    """

    binary: Bubblewrap
    privileged: bool
    base: Path
    no_overlay: str


def find_setup(cache_dir: Path) -> Setup:
    """Return the best that works here; leftovers of dead processes are removed on the way.

    Raises:
        EngineUnavailable: no box can be started at all, with the reason and the cure.
    """
    binaries = candidates()
    places = list(bases(cache_dir))
    if not places:
        raise EngineUnavailable(
            f"there is no folder for boxes: neither {cache_dir} nor the temporary folder can be written to",
            hint="put the cache elsewhere with RLENV_CACHE",
        )
    for place in places:
        sweep(place)
    privileged = is_privileged()
    overlay_problem = ""
    for binary in binaries:
        if not binary.overlay:
            continue
        for place in places:
            problem = _probe_overlay(binary, place)
            if not problem:
                return Setup(binary, privileged, place, "")
            overlay_problem = overlay_problem or f"overlays are refused here: {problem}"
    if not overlay_problem:
        have = ", ".join(f"{binary.path} {binary.version}" for binary in binaries)
        overlay_problem = f"bubblewrap 0.11 or newer is needed for images, there is {have} ({EXTRA} has it)"
    problems = []
    for binary in binaries:
        problem = probe(binary, ())
        if not problem:
            return Setup(binary, privileged, places[0], overlay_problem)
        problems.append(f"{binary.path} {binary.version}: {problem}")
    raise refused("; ".join(problems))


def _probe_overlay(binary: Bubblewrap, place: Path) -> str:
    """Return why an overlay with its changes in ``place`` does not work; empty if it does."""
    folder = place / Owner.me().new_name()
    lower, upper, work = folder / "lower", folder / "upper", folder / "work"
    try:
        for path in (folder, lower, upper, work):
            path.mkdir(mode=0o700)
        arguments = ("--overlay-src", str(lower), "--overlay", str(upper), str(work), "/tmp")
        return probe(binary, arguments)
    finally:
        remove_tree(folder)
