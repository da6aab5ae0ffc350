"""The index of NeMo Gym's servers and agents, made in the interpreter that has the package."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pytest_rlenv.errors import SpecError
from pytest_rlenv.identity import cache_root
from pytest_rlenv.text import tail

CHILD = Path(__file__).with_name("_index_child.py")
OPTION = "--rlenv-nemo-python"
INSTALL = "pip install nemo-gym==0.4.0"
"""How the package is had: the newest version that Python 3.12 and 3.13.0 can install."""
_LIMIT = 120.0
_ASKING = threading.Lock()
"""One asks, and all others of this process have the answer."""
_EMPTY: dict[str, Any] = {"servers": {}, "agents": {}, "repos": {}, "files": {}, "folders": {}}


@dataclass(frozen=True)
class Index:
    """What an interpreter's NeMo Gym, and an environment's own servers, are made of.

    Attributes:
        python: the interpreter.
        python_version: its version.
        version: NeMo Gym's; ``None`` if it is not installed there.
        root: the folder that holds ``resources_servers`` and the rest; ``None`` likewise.
        installed: the tables of the package: ``servers`` and ``agents`` by instance, ``repos`` and ``files``
            (data sets) to agents, ``folders`` of servers by name.
        own: the same tables of the environment's own servers.
    """

    python: str
    python_version: str
    version: str | None
    root: Path | None
    installed: Mapping[str, Any]
    own: Mapping[str, Any]


def find_python(named: str | None) -> str | None:
    """Return the interpreter with NeMo Gym: the one that the user names, else this one if it has it.

    Raises:
        SpecError: there is no such program.
    """
    if named is None:
        return sys.executable if importlib.util.find_spec("nemo_gym") is not None else None
    found = shutil.which(str(Path(named).expanduser()))
    if found is None:
        raise SpecError(f"{OPTION} {named}: there is no such program", hint="name an interpreter's path")
    return found


def index_of(python: str, environment: Path | None) -> Index:
    """Return the index of an interpreter.

    Args:
        python: the interpreter.
        environment: the root of an environment with servers of its own.

    Raises:
        SpecError: it cannot be made, or a config is beyond reading.
    """
    roots = () if environment is None else (str(environment),)
    with _ASKING:
        found = _asked(python, roots)
    return Index(
        python=python,
        python_version=str(found["python"]),
        version=found["version"],
        root=None if found["root"] is None else Path(found["root"]),
        installed=found["installed"] or _EMPTY,
        own=next(iter(found["own"].values()), _EMPTY),
    )


@cache
def _asked(python: str, roots: Sequence[str]) -> dict[str, Any]:
    command = [python, "-I", str(CHILD), str(cache_root() / "nemo-gym"), *roots]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=_LIMIT,
            check=False,
            env={},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SpecError(f"{OPTION} {python}: cannot be run: {error}") from error
    try:
        answer = json.loads(done.stdout) if done.returncode == 0 else None
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        lines = done.stderr.strip().splitlines() or ["it said nothing"]
        raise SpecError(
            f"{OPTION} {python}: NeMo Gym's configs could not be listed: {lines[-1]}",
            hint=f"is it Python 3.9 or later, with PyYAML? {INSTALL} brings both",
            detail=tail(done.stderr),
        )
    return answer
