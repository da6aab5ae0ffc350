"""A text around every instruction, in as much of Jinja as needs no Jinja: ``{{ instruction }}``."""

from __future__ import annotations

import re

_PLACE = re.compile(r"\{\{-?\s*instruction\s*-?\}\}")
_OTHERS = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)


def check_template(text: str) -> str:
    """Return a template that can be filled.

    Raises:
        ValueError: it has no place for the instruction, or asks for what is not known.
    """
    if not _PLACE.search(text):
        raise ValueError("there is no {{ instruction }} in it")
    other = _OTHERS.search(_PLACE.sub("", text))
    if other:
        raise ValueError(f"{other[0][:40]!r} is not known, only {{{{ instruction }}}}")
    return text


def fill_template(text: str, instruction: str) -> str:
    """Return the template with the instruction in its places, whatever that holds itself."""
    return _PLACE.sub(lambda _: instruction, text)
