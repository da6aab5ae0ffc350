"""PyYAML's safe reader with one kind of error. PyYAML is imported at first use: few runs need it."""

from __future__ import annotations

from functools import cache
from typing import Any


class NotYaml(ValueError):
    """The text is not YAML, or a value in it cannot be read; the message says why, in one line."""


def loads(text: str) -> Any:
    """Return the value that a YAML text holds; of a key that is given twice, the last.

    Raises:
        NotYaml: with line and column where they are known.
    """
    import yaml

    try:
        return yaml.load(text, Loader=_loader())
    except yaml.YAMLError as error:
        raise NotYaml(_told(error)) from None
    except RecursionError:
        raise NotYaml("nested too deeply") from None
    except Exception as error:  # conversions, such as of 2024-13-45 or !!timestamp x, raise whatever comes
        raise NotYaml(f"a value cannot be read: {_one_line(error)}") from None


@cache
def _loader() -> Any:
    """Return PyYAML's safe loader: the one in C, which is several times as fast, if it works.

    Where PyYAML was imported a second time, as in tests of plugins that share a process, the part in C still
    belongs to the first import, and its nodes mean nothing to the second.
    """
    import yaml

    fast = getattr(yaml, "CSafeLoader", None)
    if fast is not None and isinstance(yaml.compose("x", Loader=fast), yaml.ScalarNode):
        return fast
    return yaml.SafeLoader


def _told(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or error
    where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark is not None else ""
    return f"{_one_line(problem)}{where}"


def _one_line(value: object) -> str:
    text = (str(value).splitlines() or [""])[0] or type(value).__name__
    return text if text.isprintable() else ascii(text)
