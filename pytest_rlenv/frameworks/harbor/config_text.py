"""From the bytes of a ``task.toml`` to a TOML table, with a clear message for everything that is not one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytest_rlenv import toml
from pytest_rlenv.errors import TaskInvalid

MAX_CONFIG_BYTES = 1024 * 1024
"""A ``task.toml`` above this size is refused: it holds data that belongs elsewhere."""

_BOM = b"\xef\xbb\xbf"


def parse_toml(text: bytes | str, path: Path | str) -> dict[str, Any]:
    """Return the table.

    Raises:
        TaskInvalid: too large, not UTF-8, or not TOML; with line and column where there is one.
    """
    try:
        data = text.encode("utf-8") if isinstance(text, str) else text
    except UnicodeEncodeError:
        raise TaskInvalid(f"{path}: not valid Unicode text") from None
    if len(data) > MAX_CONFIG_BYTES:
        raise TaskInvalid(f"{path}: {len(data)} bytes; at most {MAX_CONFIG_BYTES} are read")
    if data.startswith(_BOM):
        raise TaskInvalid(
            f"{path}: starts with a byte order mark, which TOML does not allow",
            hint="Save the file as UTF-8 without a byte order mark.",
        )
    try:
        source = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TaskInvalid(
            f"{path}: not UTF-8: byte 0x{data[error.start]:02x} in {_position(data, error.start)}",
            hint="Save the file as UTF-8.",
        ) from None
    if "\0" in source:
        raise TaskInvalid(f"{path}: not TOML: a NUL byte in {_position(data, data.index(0))}")
    return _loads(source.replace("\r\n", "\n").replace("\r", "\n"), path)


def _loads(source: str, path: Path | str) -> dict[str, Any]:
    try:
        return toml.loads(source)
    except toml.TOMLDecodeError as error:
        raise TaskInvalid(f"{path}: not valid TOML: {error}") from None
    except RecursionError:
        raise TaskInvalid(f"{path}: not valid TOML: nested too deeply") from None
    except ValueError:  # Python converts no integer of more than 4300 digits
        raise TaskInvalid(f"{path}: not valid TOML: a number has too many digits") from None


def _position(data: bytes, offset: int) -> str:
    line = data.count(b"\n", 0, offset) + 1
    column = offset - (data.rfind(b"\n", 0, offset) + 1) + 1
    return f"line {line}, column {column}"
