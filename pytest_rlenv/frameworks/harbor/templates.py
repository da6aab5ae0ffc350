"""``${VAR}`` and ``${VAR:-default}`` in the env tables of a ``task.toml``, as whole values only.

``"x-${VAR}"`` is the literal text, as in Harbor 0.26. A set but empty variable counts as set.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from pytest_rlenv.errors import VariableMissing

_TEMPLATE = re.compile(r"\$\{([^}:]+)(?::-(.*))?\}")


def resolve_tables(
    tables: Mapping[str, Mapping[str, str]], environ: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """Return each table with its templates filled.

    Args:
        tables: by the name of the table that holds the ``env``, such as ``verifier`` for ``[verifier.env]``.
        environ: the caller's environment.

    Raises:
        VariableMissing: variables without a value and without a default; all of them, with the fields that
            ask for them, and no value of any other.
    """
    missing = missing_variables(tables, environ)
    if missing:
        raise VariableMissing(
            f"task.toml: not set in the environment: {_listed(missing)}",
            hint="Set them where pytest runs, or give the task defaults: ${VAR:-default}.",
        )
    return {
        name: {key: _resolved(value, environ) for key, value in table.items()}
        for name, table in tables.items()
    }


def missing_variables(
    tables: Mapping[str, Mapping[str, str]], environ: Mapping[str, str]
) -> dict[str, list[str]]:
    """Return the variables that :func:`resolve_tables` would miss, each with the fields that ask for it."""
    missing: dict[str, list[str]] = {}
    for name, table in tables.items():
        for key, value in table.items():
            match = _TEMPLATE.fullmatch(value)
            if match and match[2] is None and match[1] not in environ:
                missing.setdefault(match[1], []).append(f"[{name}.env] {key}")
    return missing


def _listed(missing: Mapping[str, list[str]]) -> str:
    return ", ".join(f"{_printable(var)} ({', '.join(fields)})" for var, fields in missing.items())


def _printable(name: str) -> str:
    return name if name.isprintable() else ascii(name)


def _resolved(value: str, environ: Mapping[str, str]) -> str:
    match = _TEMPLATE.fullmatch(value)
    return environ.get(match[1], match[2]) if match else value
