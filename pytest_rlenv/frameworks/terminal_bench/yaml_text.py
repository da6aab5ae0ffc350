"""From the bytes of a YAML file of a task to plain values, with a clear message for all that is not YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytest_rlenv import yaml_reader
from pytest_rlenv.errors import TaskInvalid

MAX_YAML_BYTES = 1024 * 1024
"""A YAML file above this size is refused: it holds data that belongs elsewhere."""


def parse_yaml(text: bytes | str, path: Path | str) -> Any:
    """Return the value that the file holds.

    Raises:
        TaskInvalid: too large, not UTF-8, not YAML, or more than one document; with line and column.
    """
    try:
        data = text.encode("utf-8") if isinstance(text, str) else text
    except UnicodeEncodeError:
        raise TaskInvalid(f"{path}: not valid Unicode text") from None
    if len(data) > MAX_YAML_BYTES:
        raise TaskInvalid(f"{path}: {len(data)} bytes; at most {MAX_YAML_BYTES} are read")
    try:
        return yaml_reader.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise TaskInvalid(
            f"{path}: not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}",
            hint="Save the file as UTF-8.",
        ) from None
    except yaml_reader.NotYaml as error:
        raise TaskInvalid(f"{path}: not valid YAML: {error}") from None
