"""Kinds and types of errors, as people name them in options."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from pytest_rlenv.errors import Kind, RlenvError

INTERNAL = "InternalError"
"""What records call a fault of this package itself; there is no class of it."""


def check_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return words for kinds and types of errors as they are.

    Raises:
        ValueError: one is neither.
    """
    kinds = [kind.value for kind in Kind]
    names = {INTERNAL, *_names(RlenvError)}
    for word in words:
        if word not in names and word not in kinds:
            near = difflib.get_close_matches(word, [*kinds, *names], n=2)
            meant = f"; did you mean {' or '.join(near)}?" if near else ""
            raise ValueError(
                f"{word!r} is neither a kind of error ({', '.join(kinds)}) nor a type such as "
                f"SandboxFailed{meant}"
            )
    return words


def _names(cls: type[RlenvError]) -> Iterator[str]:
    for each in cls.__subclasses__():
        yield each.__name__
        yield from _names(each)
