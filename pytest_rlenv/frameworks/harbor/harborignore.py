"""``.harborignore``: files of ``tests/`` and ``solution/`` that stay out of the box.

The rules apply in these folders only, also those of steps; a file in a subfolder adds to the ones above it.
The ignore files themselves never go into a box. A link is ignored when what it points to is.
"""

from __future__ import annotations

import os
from pathlib import Path

from pytest_rlenv.errors import TaskInvalid
from pytest_rlenv.frameworks.harbor.ignore import IgnoreRules
from pytest_rlenv.frameworks.harbor.inside import is_free_of_links, parts_below, read_inside, relative_name

IGNORE_FILE = ".harborignore"
MAX_IGNORE_BYTES = 1024 * 1024

_SCOPES = ("tests", "solution")
_NO_RULES = IgnoreRules(())


class HarborIgnore:
    """The rules of one task.

    Args:
        root: the task's folder, resolved.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._rules: dict[Path, IgnoreRules] = {}

    def excludes(self, path: Path) -> bool:
        """True if a path of the task stays out of the box.

        Raises:
            TaskInvalid: an ignore file is not a regular UTF-8 file inside the task.
        """
        path = Path(os.path.abspath(path))  # noqa: PTH100 - drops "..", but follows no link
        if self._named(path):
            return True
        if is_free_of_links(self._root, path):
            return False
        try:
            real = path.resolve()
        except (OSError, RuntimeError):
            return False
        return real != path and self._named(real)

    def _named(self, path: Path) -> bool:
        parts = parts_below(self._root, path)
        if parts is None:
            return False
        if parts and parts[-1] == IGNORE_FILE:
            return True
        start = _scope_depth(parts)
        return start is not None and any(
            self._ignored(parts[:end], start, is_dir=end < len(parts) or path.is_dir())
            for end in range(start + 1, len(parts) + 1)
        )

    def _ignored(self, parts: tuple[str, ...], start: int, *, is_dir: bool) -> bool:
        """Return the last word of all rules, outermost file first, on this very path."""
        ignored = False
        for depth in range(start, len(parts)):
            rules = self._rules_in(self._root.joinpath(*parts[:depth]))
            said = rules.ignored_in_harbor("/".join(parts[depth:]), is_dir=is_dir)
            ignored = ignored if said is None else said
        return ignored

    def _rules_in(self, folder: Path) -> IgnoreRules:
        if folder not in self._rules:
            self._rules[folder] = self._read(folder / IGNORE_FILE)
        return self._rules[folder]

    def _read(self, path: Path) -> IgnoreRules:
        if not os.path.lexists(path):
            return _NO_RULES
        name = relative_name(self._root, path)
        data = read_inside(self._root, path.relative_to(self._root).as_posix(), cap=MAX_IGNORE_BYTES)
        try:
            return IgnoreRules(data.decode("utf-8-sig").splitlines())
        except UnicodeDecodeError:
            raise TaskInvalid(f"{name}: not UTF-8") from None


def _scope_depth(parts: tuple[str, ...]) -> int | None:
    """Return how many parts lead to the folder in which rules apply, ``None`` outside of such folders."""
    if parts and parts[0] in _SCOPES:
        return 1
    if len(parts) > 2 and parts[0] == "steps" and parts[2] in _SCOPES:
        return 3
    return None
