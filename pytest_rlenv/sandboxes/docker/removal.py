"""The end of a container, and of what services have used."""

from __future__ import annotations

from pytest_rlenv.errors import EngineUnavailable
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.failures import EngineRefused


def kill_container(engine: Engine, container: str) -> None:
    """Kill all processes of a container; fine if it is not running.

    Raises:
        EngineRefused: there is no such container. EngineUnavailable.
    """
    try:
        engine.request("POST", f"/containers/{container}/kill", doing="stop the box")
    except EngineRefused as refused:
        if not refused.not_running:
            raise


def remove_container(engine: Engine, container: str, *, stopped: bool = False) -> str:
    """Kill and remove a container with its anonymous volumes; return what went wrong, empty for nothing.

    Two requests, as the engine's own forced removal takes longer than both; one for what is stopped already.
    """
    try:
        for forced in (False, True):
            try:
                if not (forced or stopped):
                    kill_container(engine, container)
                params = {"v": 1, "force": int(forced)}
                engine.request("DELETE", f"/containers/{container}", params=params, doing="remove the box")
                return ""
            except EngineRefused as refused:
                if refused.status == 404 or "is already in progress" in refused.message:
                    return ""
                if forced:
                    return str(refused)
    except EngineUnavailable as error:
        return str(error)
    return ""


def delete(engine: Engine, path: str) -> str:
    """Remove a network or a volume; return what went wrong, empty for nothing.

    Args:
        engine: whose.
        path: what the engine knows it by, such as ``/networks/ID``.

    Raises:
        EngineUnavailable: the connection broke.
    """
    try:
        engine.request("DELETE", path, doing="remove what services have used")
    except EngineRefused as refused:
        return "" if refused.status == 404 else str(refused)
    return ""
