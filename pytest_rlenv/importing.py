"""Import what a user named as ``module:Class``, with one clear message when that fails."""

from __future__ import annotations

import importlib

from pytest_rlenv.errors import SpecError
from pytest_rlenv.text import text_of


def load_object(path: str, *, option: str) -> object:
    """Return the object at ``module:Name`` (dots in the name reach into it).

    Args:
        path: the import path.
        option: who named it, for messages.

    Raises:
        SpecError: the module cannot be imported, or has no such name.
    """
    module_name, _, name = path.partition(":")
    try:
        found: object = importlib.import_module(module_name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module of the user's may raise anything, SystemExit too
        raise SpecError(
            f"{option} {path}: cannot import {module_name!r}: {type(error).__name__}: {text_of(error)}",
            hint="is it installed, or on pytest's pythonpath?",
        ) from error
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise SpecError(f"{option} {path}: module {module_name!r} has no {name!r}") from None
    return found
