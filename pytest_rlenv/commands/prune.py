"""``prune``: removes what runs have left on this machine and in its engine, and nothing else."""

from __future__ import annotations

import argparse

from pytest_rlenv.amounts import parse_duration, show_size
from pytest_rlenv.commands.protocol import FAILED, OK, readable
from pytest_rlenv.errors import EngineUnavailable
from pytest_rlenv.identity import cache_root
from pytest_rlenv.sandboxes.leftovers import BOX, CONTAINER, IMAGE, NETWORK, ROOTFS, VOLUME, Pruned

_PLURALS = {
    IMAGE: "images",
    CONTAINER: "containers",
    NETWORK: "networks",
    VOLUME: "volumes",
    ROOTFS: "root file systems",
    BOX: "boxes",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--older-than",
        metavar="DURATION",
        type=readable(parse_duration),
        default=0.0,
        help="keep images that were used within this time, such as 12h or 7d (default: remove all that "
        "nothing uses now)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    parser.add_argument(
        "--images",
        action="store_true",
        help="only the engine's: images that runs have built, dead containers",
    )
    parser.add_argument(
        "--rootfs", action="store_true", help="only the local sandbox's: extracted images, dead boxes"
    )


def run(arguments: argparse.Namespace) -> int:
    """Prune, and say what became of everything.

    Raises:
        EngineUnavailable: only the engine's things are to be removed, and there is no engine.
    """
    both = arguments.images == arguments.rootfs
    results: list[Pruned] = []
    if arguments.images or both:
        try:
            results.append(_prune_engine(arguments))
        except EngineUnavailable as error:
            if not both:
                raise
            print(f"no engine, so only root file systems: {error.message}")
    if arguments.rootfs or both:
        from pytest_rlenv.sandboxes.local.pruning import prune

        results.append(prune(cache_root(), arguments.older_than, dry_run=arguments.dry_run))
    _tell(results, dry_run=arguments.dry_run)
    return FAILED if any(each.problems for each in results) else OK


def _prune_engine(arguments: argparse.Namespace) -> Pruned:
    from pytest_rlenv.sandboxes.docker.client import shared_engine
    from pytest_rlenv.sandboxes.docker.pruning import prune

    engine = shared_engine()
    return prune(engine, cache_root(), older_than=arguments.older_than, dry_run=arguments.dry_run)


def _tell(results: list[Pruned], *, dry_run: bool) -> None:
    removed = [each for result in results for each in result.removed]
    for each in removed:
        print(f"{'would remove' if dry_run else 'removed'} {each.kind} {each.name}  {show_size(each.size)}")
    for result in results:
        for problem in result.problems:
            print(f"NOT removed: {problem}")
    counts = [_count(kind, sum(each.kind == kind for each in removed)) for kind in _PLURALS]
    what = ", ".join(filter(None, counts)) or "nothing"
    freed = show_size(sum(result.freed for result in results))
    print(f"{'would free at least' if dry_run else 'freed'} {freed} ({what}){_kept(results)}")
    held = sum(result.held for result in results)
    if held:
        print(
            f"{show_size(held)} more are held by the engine's build cache, which may be others', too: "
            "`docker builder prune` empties it"
        )


def _kept(results: list[Pruned]) -> str:
    in_use = sum(result.in_use for result in results)
    recent = sum(result.recent for result in results)
    words = [f"{in_use} in use" if in_use else "", f"{recent} used too lately" if recent else ""]
    return f"; kept {', '.join(filter(None, words))}" if in_use or recent else ""


def _count(kind: str, count: int) -> str:
    return f"{count} {kind if count == 1 else _PLURALS[kind]}" if count else ""
