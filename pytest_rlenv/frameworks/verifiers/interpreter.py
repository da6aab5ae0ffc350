"""The interpreter that has Verifiers: which one, and what of the caller's variables it is given."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path, PurePath

from pytest_rlenv.errors import SpecError
from pytest_rlenv.identity import cache_root
from pytest_rlenv.secret_forms import is_personal
from pytest_rlenv.settings import Settings

PROGRAM = "vf-eval"
"""A program of the package's, whose first lines name an interpreter that has it."""
_SHELLS = ("sh", "bash", "dash")
_BESIDE = re.compile(r"""exec.*\$\(dirname .*/'?(python[\w.]*)'? "\$0\"""")
"""How uv names an interpreter beside a program, in folders that may be moved."""
INSTALL = "pip install 'verifiers>=0.4,<0.5', in the interpreter that --rlenv-verifiers-python names"


def find_python(settings: Settings, environ: Mapping[str, str]) -> str:
    """Return the interpreter that the user names, else this one if it has the package, else ``vf-eval``'s.

    Raises:
        SpecError: there is none.
    """
    if named := settings.verifiers_python:
        # not by Path, which makes python of ./python
        found = shutil.which(os.path.expanduser(named), path=environ.get("PATH"))  # noqa: PTH111
        if found is None:
            source = settings.sources.get("verifiers_python", "--rlenv-verifiers-python")
            hint = "one program: put a command of several words into a script" if " " in named else ""
            raise SpecError(f"{source} = {named!r}: there is no such program", hint=hint)
        return found
    found_here = find_spec("verifiers")  # this does not import it
    if found_here is not None and found_here.origin:  # a mere folder of that name has none
        return sys.executable
    program = shutil.which(PROGRAM, path=environ.get("PATH"))
    if program is not None and (python := _interpreter_of(Path(program), environ)):
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


def _interpreter_of(program: Path, environ: Mapping[str, str]) -> str | None:
    """Return the interpreter that a script starts with, as pip and uv write it; ``None`` if none is found."""
    try:
        with program.open("rb") as file:
            head = file.read(4096).decode("utf-8", "replace").splitlines()
    except OSError:
        return None
    if not head or not head[0].startswith("#!"):
        return None
    words = head[0][2:].split()
    name = PurePath(words[0]).name if words else ""
    if name == "env":
        words = [word for word in words[1:] if not word.startswith("-")]
    elif name in _SHELLS and len(head) > 1:
        words = _executed(head[1], program)  # its path is too long for a first line, or has a space in it
    return shutil.which(words[0], path=environ.get("PATH")) if words else None


def _executed(line: str, program: Path) -> list[str]:
    """Return what a shell hands over to: the words after ``exec``."""
    if beside := _BESIDE.search(line):
        return [str(program.resolve().parent / beside[1])]
    try:
        words = shlex.split(line)
    except ValueError:
        return []
    return words[1:] if words[:1] == ["exec"] else []
