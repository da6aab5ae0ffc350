"""The earlier trajectory that a task may give its agent: an ATIF document."""

from __future__ import annotations

import json
from pathlib import Path

from pytest_rlenv.errors import TaskInvalid
from pytest_rlenv.frameworks.harbor.inside import read_inside, relative_name

MAX_TRAJECTORY_BYTES = 64 * 1024 * 1024


def check_trajectory(root: Path, path: Path) -> None:
    """See that a file can be what it should be. Only an agent that uses it can tell whether it is all right.

    Args:
        root: the task's folder, resolved.
        path: the file.

    Raises:
        TaskInvalid: not a regular file inside the task, too large, or no ATIF document.
    """
    name = relative_name(root, path)
    data = read_inside(root, name, cap=MAX_TRAJECTORY_BYTES)
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise TaskInvalid(f"{name}: not JSON: {error}") from None
    version = found.get("schema_version") if isinstance(found, dict) else None
    if not (isinstance(version, str) and version.startswith("ATIF-") and found.get("steps")):
        raise TaskInvalid(
            f'{name}: not an ATIF document: it needs a `schema_version` such as "ATIF-v1.6", and `steps`'
        )
