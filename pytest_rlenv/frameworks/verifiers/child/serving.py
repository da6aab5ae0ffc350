"""Takes requests and answers them, one after another, until the pipe is closed."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from .failing import StageFailed, Stages, end_twin
from .texts import end_of, one_line

Request = dict[str, Any]

_HERE = str(Path(__file__).parent)
_DEEPEST = 20
"""Errors behind an error that are looked at."""


def main() -> None:
    """Take the standard streams for the messages; whatever prints goes to the error stream."""
    source, output = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", 0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    for line in source:
        said = answer(json.loads(line))
        end_twin()
        try:
            output.write(said + b"\n")
        except BrokenPipeError:
            return


def answer(request: Request) -> bytes:
    """Do what was asked for, and say what came of it; nothing that is raised ends this program."""
    Stages.current = ""
    try:
        found = _operation(request["do"])(request)
        return _line({"done": request["id"], "result": found})  # what JSON cannot hold is the taskset's, too
    except BaseException as error:  # a taskset may raise anything, SystemExit too
        return _line({"done": request["id"], "failed": _told(error)})


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, default=str).encode()


def _operation(name: str) -> Callable[[Request], dict[str, Any]]:
    if name not in _OPERATIONS:
        # not before it is asked for: this imports verifiers, which takes seconds
        from . import checks, episodes, tasksets

        _OPERATIONS.update(
            describe=tasksets.describe,
            list=tasksets.write_list,
            gold=checks.gold,
            noop=checks.noop,
            answer=checks.answer,
            run=episodes.run,
        )
    return _OPERATIONS[name]


def version(request: Request) -> dict[str, Any]:
    """Say which Verifiers and which Python this is, without importing either's weight.

    Args:
        request: ``paths`` are folders to import tasksets from, after all others.
    """
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as version_of

    sys.path.extend(path for path in request.get("paths", ()) if path not in sys.path)
    try:
        found = version_of("verifiers")
    except PackageNotFoundError:
        import verifiers

        found = verifiers.__version__
    return {"verifiers": found, "python": ".".join(map(str, sys.version_info[:3]))}


_OPERATIONS: dict[str, Callable[[Request], dict[str, Any]]] = {"version": version}


def _told(error: BaseException) -> dict[str, Any]:
    stage, late = Stages.current, False
    if isinstance(error, StageFailed):
        stage, late, error = error.stage, error.late, error.error
    return {
        "type": type(error).__name__,
        "kinds": [kind.__name__ for kind in type(error).__mro__],
        "message": one_line(str(error)),
        "detail": end_of("".join(traceback.format_exception(type(error), error, _frames(error)))),
        "stage": stage,
        "late": late,
        "missing": _missing(error),
    }


def _missing(error: BaseException | None) -> str | None:
    """Return the module whose absence is behind an error, the innermost: Verifiers wraps it."""
    found = None
    for _ in range(_DEEPEST):
        if error is None:
            break
        if isinstance(error, ModuleNotFoundError) and error.name:
            found = error.name
        error = error.__cause__ or error.__context__
    return found


def _frames(error: BaseException) -> TracebackType | None:
    """Return the traceback from the taskset's own code on: ours says nothing to its author."""
    frames = error.__traceback__
    while frames is not None and frames.tb_next is not None:
        file = frames.tb_frame.f_code.co_filename
        if not (file.startswith(_HERE) or "asyncio" in file):
            break
        frames = frames.tb_next
    return frames
