"""The interpreter that has Verifiers: which one, and what of the caller's variables it is given."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from pytest_rlenv.errors import SpecError
from pytest_rlenv.identity import cache_root
from pytest_rlenv.secret_forms import is_personal
from pytest_rlenv.settings import Settings

PROGRAM = "vf-eval"
"""A program of the package's, whose first line names an interpreter that has it."""
INSTALL = "pip install 'verifiers>=0.4,<0.5', in the interpreter that --rlenv-verifiers-python names"


def find_python(settings: Settings, environ: Mapping[str, str]) -> str:
    """Return the interpreter that the user names, else this one if it has the package, else ``vf-eval``'s.

    Raises:
        SpecError: there is none.
    """
    if named := settings.verifiers_python:
        found = shutil.which(str(Path(named).expanduser()), path=environ.get("PATH"))
        if found is None:
            source = settings.sources.get("verifiers_python", "--rlenv-verifiers-python")
            raise SpecError(f"{source} = {named!r}: there is no such program")
        return found
    found_here = find_spec("verifiers")  # this does not import it
    if found_here is not None and found_here.origin:  # a mere folder of that name has none
        return sys.executable
    program = shutil.which(PROGRAM, path=environ.get("PATH"))
    if program is not None and (python := _first_line(Path(program))) and shutil.which(python):
        return python
    raise SpecError(
        "tasksets need the package verifiers, and no interpreter that has it was found", hint=INSTALL
    )


def variables(environ: Mapping[str, str], passed: Sequence[str], run: str) -> dict[str, str]:
    """Return the interpreter's variables: the caller's without its secrets, and with a home of its own.

    Caches of downloads stay where they are, or each run would fetch everything again.

    Args:
        environ: the caller's.
        passed: names that are kept though they are secret.
        run: the word that containers are labelled with.
    """
    kept = {name: value for name, value in environ.items() if name in passed or not is_personal(name, value)}
    home = cache_root() / "verifiers" / "home"
    home.mkdir(parents=True, exist_ok=True)
    caches = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    hub = Path(environ.get("HF_HOME") or caches / "huggingface")
    found = {
        "HF_HUB_CACHE": str(hub / "hub"),
        "HF_DATASETS_CACHE": str(hub / "datasets"),
        "UV_CACHE_DIR": str(caches / "uv"),
        **kept,
        "HOME": str(home),
        "HF_HOME": str(home / ".cache" / "huggingface"),  # the user's has the token in it
        "VF_RUN_ID": run,
    }
    found.pop("HF_TOKEN_PATH", None)
    return found


def absent(python: str, detail: str) -> SpecError:
    """Return the error for an interpreter without the package."""
    last = (detail.strip().splitlines() or [""])[-1]
    return SpecError(f"{python} cannot import verifiers: {last}", hint=INSTALL, detail=detail)


def _first_line(program: Path) -> str:
    try:
        with program.open("rb") as file:
            line = file.readline(4096).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    return line.removeprefix("#!").strip() if line.startswith("#!") else ""
