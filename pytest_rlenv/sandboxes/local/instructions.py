"""The instructions of a Dockerfile, each with the line it starts on."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_DIRECTIVE = re.compile(r"#\s*(\w+)\s*=\s*(\S+)\s*$")
_OPTION = re.compile(r"--([a-z-]+)(?:=(\S*))?$")

_VARIABLE = r"(?P<variable>\$(?:(?P<plain>\w+)|\{(?P<braced>\w+)(?:(?P<operator>:?[-+])(?P<other>[^}]*))?\}))"
_TOKEN = re.compile(
    r"'(?P<single>[^']*)'|\"(?P<double>(?:\\.|[^\"\\])*)\"|\\(?P<escaped>.)|" + _VARIABLE + r"|[^'\"\\]"
)
_IN_DOUBLE = re.compile(r"\\(?P<escaped>.)|" + _VARIABLE + r"|.", re.S)
_WORD = re.compile(r"""(?:[^\s"'\\]|\\.|"(?:\\.|[^"\\])*"|'[^']*')+""")
_SPACE_OUTSIDE = r"""((?:\\.|"(?:\\.|[^"\\])*"|'[^']*'|[^\s])*)\s*"""


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        line: the number of its first line, from 1.
        word: such as ``COPY``, in capitals.
        rest: all that follows on its lines, joined.
    """

    line: int
    word: str
    rest: str

    def options(self) -> tuple[dict[str, str], str]:
        """Return the leading ``--name=value`` options, and what follows them."""
        options: dict[str, str] = {}
        rest = self.rest
        while rest.startswith("--"):
            first, _, rest = rest.partition(" ")
            found = _OPTION.match(first)
            if not found:
                break
            options[found[1]] = found[2] or ""
            rest = rest.strip()
        return options, rest

    def __str__(self) -> str:
        text = f"{self.word} {self.rest}".strip()
        return text if len(text) <= 60 else f"{text[:57]}..."


def parse(text: str) -> Iterator[Instruction]:
    """Yield the instructions of a Dockerfile without here-documents."""
    escape = "\\"
    directives = True
    pending, first = "", 0
    for number, raw in enumerate(text.lstrip("\ufeff").splitlines(), 1):
        line = raw.strip()
        if directives:
            found = _DIRECTIVE.match(line)
            directives = found is not None
            if found and found[1].lower() == "escape" and found[2] in ("\\", "`"):
                escape = found[2]
        if not line or line.startswith("#"):
            continue  # within an instruction too, where it does not end it
        first = first or number
        line = raw.rstrip()
        if line.endswith(escape):
            pending += line[: -len(escape)]
            continue
        yield _instruction(first, pending + line)
        pending, first = "", 0
    if pending.strip():
        yield _instruction(first, pending)


def _instruction(line: int, text: str) -> Instruction:
    word, _, rest = text.strip().partition(" ")
    return Instruction(line, word.upper(), rest.strip())


def assignments(rest: str) -> list[tuple[str, str]]:
    """Return the pairs of an ENV instruction, in either of its forms; values are still to be expanded.

    Raises:
        ValueError: a quote is not closed, or there is no value.
    """
    name, _, value = rest.partition(" ")
    if "=" not in name:
        if not value.strip():
            raise ValueError(f"{name} has no value")
        return [(name, value.strip())]
    pairs = [word.partition("=") for word in split(rest)]
    if not all(equals and name for name, equals, _ in pairs):
        raise ValueError("expected NAME=value")
    return [(name, value) for name, _, value in pairs]


def split(text: str) -> list[str]:
    """Return the words of a text as they stand, quotes and all; space within quotes ends none.

    Raises:
        ValueError: a quote is not closed.
    """
    words = _WORD.findall(text)
    if "".join(words) != re.sub(_SPACE_OUTSIDE, r"\1", text):
        raise ValueError("a quote is not closed")
    return words


def words(text: str) -> list[str]:
    """Return the words of a text, which may be a JSON array; what is no proper array is a pattern, say."""
    if text.startswith("["):
        import json

        with contextlib.suppress(ValueError):
            found = json.loads(text)
            if isinstance(found, list) and all(isinstance(each, str) for each in found):
                return found
    return text.split()


def expand(text: str, values: Mapping[str, str]) -> str:
    """Return what a word or value stands for: quotes resolved, and variables filled in where they count.

    ``$NAME``, ``${NAME}``, ``${NAME:-other}`` and ``${NAME:+other}`` are known; unknown names are empty.

    Raises:
        ValueError: a quote is not closed.
    """
    return "".join(_token(found, values) for found in _tokens(text, _TOKEN))


def _token(found: re.Match[str], values: Mapping[str, str]) -> str:
    single, double, escaped, variable = found.group("single", "double", "escaped", "variable")
    if single is not None:
        return single
    if double is not None:
        return "".join(_in_quotes(part, values) for part in _tokens(double, _IN_DOUBLE))
    if escaped is not None:
        return escaped
    return _value(found, values) if variable is not None else found[0]


def _in_quotes(found: re.Match[str], values: Mapping[str, str]) -> str:
    if found["escaped"] is not None:
        return found["escaped"] if found["escaped"] in '"$\\' else found[0]
    return _value(found, values) if found["variable"] is not None else found[0]


def _tokens(text: str, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
    at = 0
    while at < len(text):
        found = pattern.match(text, at)
        if found is None:
            raise ValueError("a quote is not closed")
        yield found
        at = found.end()


def _value(found: re.Match[str], values: Mapping[str, str]) -> str:
    known = values.get(found["plain"] or found["braced"])
    operator, other = found["operator"] or "", found["other"] or ""
    there = bool(known) if operator.startswith(":") else known is not None
    if operator.endswith("-"):
        return known or "" if there else expand(other, values)
    if operator.endswith("+"):
        return expand(other, values) if there else ""
    return known or ""
