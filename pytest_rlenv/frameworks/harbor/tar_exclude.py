"""What ``exclude`` of an artifact leaves out: Harbor 0.26 hands the patterns to ``tar --exclude``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pytest_rlenv.frameworks.harbor.glob import match_part, whole_pattern


def excluder(patterns: Sequence[str]) -> Callable[[str], bool] | None:
    """Return what tells whether a path below the artifact is left out; ``None`` if nothing is.

    As for GNU tar: ``*`` takes slashes, too; a pattern may match from any part of the path on, or from
    ``./``; and with a folder goes all that is in it, which is left to the caller.
    """
    parts = [part for pattern in patterns if (part := whole_pattern(pattern)) is not None]
    if not parts:
        return None

    def excluded(name: str) -> bool:
        names = [".", f"./{name}", name]
        while "/" in name:
            name = name.partition("/")[2]
            names.append(name)
        return any(match_part(part, each) for part in parts for each in names)

    return excluded
