"""Values as TOML, for tests that make them up."""

from __future__ import annotations

from typing import Any


def as_toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = "".join(f"\\U{ord(c):08x}" if not c.isprintable() or c in '"\\' else c for c in value)
        return f'"{escaped}"'
    if isinstance(value, list):
        return f"[{', '.join(map(as_toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key} = {as_toml(item)}' for key, item in value.items())}}}"
    return repr(value)
