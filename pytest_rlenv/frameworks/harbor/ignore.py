"""Rules of ``.gitignore`` syntax, matched without regular expressions.

A pattern is split at its slashes once; matching is then at most (parts of the pattern) x (parts of the path)
comparisons of linear cost, whatever the pattern.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_rlenv.frameworks.harbor.glob import ANY_NAME, ANY_PARTS, Part, match_part, split_pattern


@dataclass(frozen=True)
class Rule:
    """One line of an ignore file.

    Attributes:
        parts: the pattern, split at slashes.
        include: True for a line that starts with ``!``: what it matches is not ignored.
        folders_only: the line ends with ``/``.
        anchored: the pattern counts from the ignore file's folder; otherwise it is about a name at any depth.
    """

    parts: tuple[Part, ...]
    include: bool
    folders_only: bool
    anchored: bool

    def matches(self, path: Sequence[str], *, is_dir: bool) -> bool:
        """True if the rule is about this very path, given in parts from the ignore file's folder."""
        if not path or (self.folders_only and not is_dir):
            return False
        if not self.anchored:
            return match_part(self.parts[0], path[-1])
        return _match_parts(self.parts, path)

    @property
    def takes_all(self) -> bool:
        """True for ``*``, ``**``, ``**/*`` and ``a/**``."""
        bare = self.parts in ((ANY_NAME,), (ANY_PARTS,)) and not self.anchored
        below = self.parts[-1] is ANY_PARTS or self.parts == (ANY_PARTS, ANY_NAME)
        return (bare or below) and not self.folders_only


class IgnoreRules:
    """The rules of one ignore file; the last one that matches a path decides.

    Args:
        lines: the file's lines.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._rules = [rule for line in lines if (rule := parse_rule(line)) is not None]

    def __bool__(self) -> bool:
        return bool(self._rules)

    def ignored(self, path: str, *, is_dir: bool = False) -> bool | None:
        """Return what the rules say of this very path, ``None`` if nothing.

        As in git, nothing below an ignored folder can be included again: the caller asks for folders first.
        """
        parts = path.split("/")
        return next(
            (not rule.include for rule in reversed(self._rules) if rule.matches(parts, is_dir=is_dir)), None
        )

    def ignored_in_harbor(self, path: str, *, is_dir: bool) -> bool | None:
        """Return what Harbor 0.26 says of this very path, which is not quite what git says of a folder.

        There a rule ``a/**`` is about ``a`` itself too, and it, or ``*``, beats every other rule in the file;
        so ``!*/`` after ``*`` includes no folder again.
        """
        if is_dir:
            inside = [*path.split("/"), "any"]
            for rule in reversed(self._rules):
                if rule.takes_all and rule.matches(inside, is_dir=True):
                    return not rule.include
        return self.ignored(path, is_dir=is_dir)

    def ignored_in_digest(self, path: str) -> bool:
        """Return what Harbor 0.26 says of a file when it hashes a task, which is not quite what git says.

        There the last rule about a file or any of its folders decides, so that a file below an ignored folder
        can be included again; and ``a/*`` is about what is directly in ``a`` only.
        """
        parts = path.split("/")
        for rule in reversed(self._rules):
            flat = rule.anchored and rule.parts[-1] == ANY_NAME and not rule.folders_only
            ends = [len(parts)] if flat else range(len(parts), 0, -1)
            if any(rule.matches(parts[:end], is_dir=end < len(parts)) for end in ends):
                return not rule.include
        return False


def parse_rule(line: str) -> Rule | None:
    """Return the rule of a line; ``None`` for a comment, a blank line, and a pattern that cannot match."""
    line = _without_trailing_spaces(line.rstrip("\r\n"))
    if not line or line.startswith("#"):
        return None
    include = line.startswith("!")
    pattern = line[1:] if include else line
    folders_only = pattern.endswith("/")
    pattern = pattern[:-1] if folders_only else pattern
    anchored = "/" in pattern
    parts = split_pattern(pattern[1:] if pattern.startswith("/") else pattern, anchored=anchored)
    return Rule(parts, include, folders_only, anchored) if parts else None


def _without_trailing_spaces(line: str) -> str:
    end = len(line)
    while end and line[end - 1] == " ":
        backslashes = len(line[: end - 1]) - len(line[: end - 1].rstrip("\\"))
        if backslashes % 2:
            break
        end -= 1
    return line[:end]


def _match_parts(parts: tuple[Part, ...], path: Sequence[str]) -> bool:
    """Match pattern parts against path parts; a part ``**`` takes any number of them."""
    reached = {0}  # how many path parts the pattern parts so far can have taken
    for index, part in enumerate(parts):
        if part is not ANY_PARTS:
            reached = {n + 1 for n in reached if n < len(path) and match_part(part, path[n])}
        elif index == len(parts) - 1:
            return min(reached) < len(path)  # "a/**" is about what is in a, not about a
        else:
            reached = set(range(min(reached), len(path)))
        if not reached:
            return False
    return len(path) in reached
