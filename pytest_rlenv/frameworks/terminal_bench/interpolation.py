"""``$NAME`` and ``${NAME:-default}`` in a compose file, as Docker Compose fills them in."""

from __future__ import annotations

import re
from collections.abc import Mapping

_VARIABLE = re.compile(
    r"\$(?:(?P<escaped>\$)"
    r"|(?P<plain>[A-Za-z_][A-Za-z0-9_]*)"
    r"|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:(?P<colon>:?)(?P<sign>[-?+])(?P<word>[^{}]*))?\}"
    r"|(?P<wrong>))"
)


def interpolate(text: str, variables: Mapping[str, str], missing: list[str]) -> str:
    """Return the text with its variables filled in; ``$$`` is a dollar sign.

    Args:
        text: as it stands in the file.
        variables: the values.
        missing: gets the names that have neither a value nor a default; they become empty, as in Compose.

    Raises:
        ValueError: a dollar sign that begins no variable.
    """

    def fill(match: re.Match[str]) -> str:
        if match["escaped"]:
            return "$"
        name = match["plain"] or match["name"]
        if name is None:
            raise ValueError(f"{text!a} has a $ that begins no variable; write $$ for a dollar sign")
        value = variables.get(name)
        unset = value is None or (match["colon"] == ":" and not value)
        if match["sign"] == "+":
            return "" if unset else str(match["word"])
        if not unset:
            return str(value)
        if match["sign"] == "-":
            return str(match["word"])
        if value is None or match["sign"] == "?":
            missing.append(name)
        return ""

    return _VARIABLE.sub(fill, text)
