"""Glob patterns of one path part, as git matches them: ``*``, ``?``, ``[a-z]``, ``[[:alpha:]]``, escapes."""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import TypeAlias

_CLASSES: dict[str, Callable[[str], bool]] = {
    "alnum": lambda c: c.isascii() and c.isalnum(),
    "alpha": lambda c: c.isascii() and c.isalpha(),
    "blank": lambda c: c in " \t",
    "cntrl": lambda c: c < " " or c == "\x7f",
    "digit": lambda c: c in string.digits,
    "graph": lambda c: "!" <= c <= "~",
    "lower": lambda c: c in string.ascii_lowercase,
    "print": lambda c: " " <= c <= "~",
    "punct": lambda c: c in string.punctuation,
    "space": lambda c: c in string.whitespace,
    "upper": lambda c: c in string.ascii_uppercase,
    "xdigit": lambda c: c in string.hexdigits,
}


class Special(Enum):
    """Pattern tokens that are no character."""

    STAR = "*"
    SLASH = "/"


@dataclass(frozen=True)
class CharSet:
    """One character out of ranges and classes, or out of none of them."""

    ranges: tuple[tuple[str, str], ...] = ()
    classes: tuple[str, ...] = ()
    negated: bool = False

    def __contains__(self, char: str) -> bool:
        found = any(low <= char <= high for low, high in self.ranges)
        return (found or any(_CLASSES[name](char) for name in self.classes)) != self.negated


ANY_CHAR = CharSet(negated=True)

Token: TypeAlias = CharSet | Special
Part: TypeAlias = tuple[Token, ...]

ANY_NAME: Part = (Special.STAR,)
"""The pattern part that takes any one path part."""

ANY_PARTS: Part = (Special.STAR, Special.STAR)
"""The pattern part that takes any number of path parts; compared by identity."""


def split_pattern(pattern: str, *, anchored: bool) -> tuple[Part, ...]:
    """Return a pattern's parts between slashes; empty for a malformed pattern, which matches nothing.

    Args:
        pattern: without a leading ``/`` or ``!`` and without a trailing ``/``.
        anchored: False for a pattern without a slash, where ``**`` is no more than ``*``.
    """
    try:
        tokens = _tokens(pattern)
    except _Malformed:
        return ()
    if Special.SLASH in (tokens[:1] + tokens[-1:]):
        return ()  # no path begins or ends with a slash
    parts: list[Part] = []
    for special, group in groupby(tokens, key=lambda token: token is Special.SLASH):
        if not special:
            parts.append(_part(tuple(group), anchored=anchored))
        elif len(list(group)) > 1:
            return ()  # two slashes in a row: no path has them
    repeated = {at for at, part in enumerate(parts) if at and part is ANY_PARTS is parts[at - 1]}
    return tuple(part for at, part in enumerate(parts) if at not in repeated)


def match_part(part: Part, name: str) -> bool:
    """True if a pattern part matches the whole of a path part; it costs ``len(part) * len(name)`` at most."""
    at, star, taken, position = 0, -1, 0, 0
    while position < len(name):
        token = part[at] if at < len(part) else None
        if token is Special.STAR:
            star, taken = at, position
            at += 1
        elif isinstance(token, CharSet) and name[position] in token:
            at += 1
            position += 1
        elif star >= 0:  # let the last star take one more
            taken += 1
            at, position = star + 1, taken
        else:
            return False
    return all(token is Special.STAR for token in part[at:])


def whole_pattern(pattern: str) -> Part | None:
    """Return a pattern for :func:`match_part` in which ``*`` takes slashes, too; ``None`` if malformed."""
    slash = CharSet((("/", "/"),))
    try:
        return tuple(slash if token is Special.SLASH else token for token in _tokens(pattern))
    except _Malformed:
        return None


class _Malformed(Exception):
    """A pattern that matches nothing."""


def _part(tokens: Part, *, anchored: bool) -> Part:
    stars = len(tokens) > 1 and all(token is Special.STAR for token in tokens)
    return ANY_PARTS if stars and anchored else tokens


def _tokens(pattern: str) -> list[Token]:
    tokens: list[Token] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "[":
            char_set, at = _bracket(pattern, at + 1)
            tokens.append(char_set)
            continue
        if char == "*":
            tokens.append(Special.STAR)
        elif char == "?":
            tokens.append(ANY_CHAR)
        else:
            if char == "\\":
                at += 1
                char = _char(pattern, at)
            tokens.append(Special.SLASH if char == "/" else CharSet(((char, char),)))
        at += 1
    return tokens


def _bracket(pattern: str, at: int) -> tuple[CharSet, int]:
    """Return the set that begins after ``[`` at ``at``, and where the pattern goes on."""
    negated = _char(pattern, at) in "!^"
    at += negated
    ranges: list[tuple[str, str]] = []
    classes: list[str] = []
    low = ""  # the character that a "-" would make a range from
    first = True
    while (char := _char(pattern, at)) != "]" or first:
        first = False
        if char == "-" and low and _char(pattern, at + 1) != "]":
            at += 1 + (_char(pattern, at + 1) == "\\")
            ranges.append((low, _char(pattern, at)))
            low = ""
        elif name := _class_name(pattern, at):
            classes.append(name)
            at += len(name) + 3
            low = ""
        else:
            at += char == "\\"
            low = _char(pattern, at)
            ranges.append((low, low))
        at += 1
    return CharSet(tuple(ranges), tuple(classes), negated), at + 1


def _class_name(pattern: str, at: int) -> str:
    """Return the name in ``[:name:]`` at ``at``, empty if there is no such thing there."""
    if not pattern.startswith("[:", at):
        return ""
    end = pattern.find("]", at + 2)
    if end < 0:
        raise _Malformed
    if end == at + 2 or pattern[end - 1] != ":":
        return ""
    name = pattern[at + 2 : end - 1]
    if name not in _CLASSES:
        raise _Malformed
    return name


def _char(pattern: str, at: int) -> str:
    if at >= len(pattern):
        raise _Malformed
    return pattern[at]
