"""Where an engine keeps images and boxes, and whether there is space, if that can be seen from here."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_rlenv.disk import has_room, require_free
from pytest_rlenv.errors import BoxUnfit, RlenvError, Stage
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.failures import EngineRefused


def data_root(engine: Engine) -> Path | None:
    """Return the folder in which an engine keeps everything, ``None`` unless it is one of this machine's.

    A socket may lead to an engine in a virtual machine, or to that of a container's host.
    """
    info, here = engine.info(), os.uname()
    same = (info.get("KernelVersion"), info.get("Name")) == (here.release, here.nodename)
    if not (engine.endpoint.socket_path and same and info.get("DockerRootDir")):
        return None
    root = Path(str(info["DockerRootDir"]))
    try:
        return root if root.is_dir() else None
    except OSError:
        return None


def require_space(engine: Engine, needed: int, *, doing: str) -> None:
    """Refuse to make an image where the engine's disk has less space than ``needed`` bytes.

    Raises:
        DiskFull: naming the place, what is free there and what is needed.
    """
    root = data_root(engine)
    if root is not None:
        require_free(root, needed, doing=doing, stage=Stage.BUILD)


def roomy_root(engine: Engine) -> Path | None:
    """Return the folder of :func:`data_root` if its disk is certainly not full, whatever an error says.

    Something smaller was full then: a limit of one box, or a file system within it.
    """
    root = data_root(engine)
    return root if root is not None and has_room(root) else None


def box_refused(engine: Engine, refused: EngineRefused) -> RlenvError:
    """Return the error for a box in which the engine could not do something."""
    root = roomy_root(engine) if refused.disk_full else None
    if root is not None:
        return BoxUnfit(
            f"cannot {refused.doing}: the box is full, though {root} is not",
            hint="what was done in the box has used up its own limit",
            detail=refused.message,
        )
    return refused.as_error()
