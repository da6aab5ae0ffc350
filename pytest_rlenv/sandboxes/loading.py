"""Makes the sandbox that the user named: one of ours, or a class of their own by its import path."""

from __future__ import annotations

import inspect
from typing import cast

from pytest_rlenv.errors import RlenvError, SpecError
from pytest_rlenv.importing import load_object
from pytest_rlenv.sandboxes.model import SandboxContext
from pytest_rlenv.sandboxes.protocol import Sandbox

AUTO = "auto"
"""No sandbox, but the wish that one be chosen: see :mod:`pytest_rlenv.sandboxes.auto`."""
DOCKER = "docker"
LOCAL = "local"
LOCAL_HOST = "local-host"
NONE = "none"

BUILT_IN = {
    DOCKER: "pytest_rlenv.sandboxes.docker.sandbox:DockerSandbox",
    LOCAL: "pytest_rlenv.sandboxes.local.sandbox:LocalSandbox",
    LOCAL_HOST: "pytest_rlenv.sandboxes.local.sandbox:HostSandbox",
    NONE: "pytest_rlenv.sandboxes.none:NoSandbox",
}


def create(name: str, context: SandboxContext) -> Sandbox:
    """Return a new sandbox.

    Args:
        name: ``docker``, ``local``, ``local-host``, ``none``, or ``module:Class`` for a class called with the
            context.
        context: what it is told of the run.

    Raises:
        SpecError: no such sandbox, it cannot be imported or made, or it is not a sandbox.
    """
    path = BUILT_IN.get(name, name)
    module_name, _, class_name = path.partition(":")
    if not module_name or not class_name:
        known = ", ".join(sorted([AUTO, *BUILT_IN]))
        raise SpecError(f"unknown sandbox {name!r}", hint=f"use {known}, or module:Class for your own")
    maker = load_object(path, option="--rlenv-sandbox")
    if not callable(maker):
        raise SpecError(f"sandbox {name!r} is not a class")
    try:
        sandbox = maker(context)
    except RlenvError:
        raise
    except Exception as error:
        raise SpecError(f"sandbox {name!r} could not be made: {type(error).__name__}: {error}") from error
    missing = _missing(sandbox)
    if missing:
        raise SpecError(
            f"{name!r} is not a sandbox: it lacks {', '.join(missing)}",
            hint="the Sandbox protocol in pytest_rlenv.sandboxes.protocol says what it must have",
        )
    return cast("Sandbox", sandbox)


def _missing(sandbox: object) -> list[str]:
    """Return what a sandbox lacks; looks without touching, as a property may connect to an engine."""
    nothing = object()
    wanted = sorted(name for name in dir(Sandbox) if not name.startswith("_"))
    return [name for name in wanted if inspect.getattr_static(sandbox, name, nothing) is nothing]
