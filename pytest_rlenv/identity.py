"""Who a run is: what all its processes agree on. Light, since every xdist run asks for it."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

MAIN = "main"
"""Name of the process that is not an xdist worker."""


@dataclass(frozen=True)
class Identity:
    """What all processes of a run agree on.

    Attributes:
        session: a word that no other run has; every container carries it.
        run_dir: folder of results, logs and the run's own locks. Made when first needed.
        rootdir: pytest's rootdir if there is an ini file, else the folder it was called in; local
            environments are named by their path from here.
        base: folder against which relative paths of the user are meant.
    """

    session: str
    run_dir: Path
    rootdir: Path
    base: Path

    @classmethod
    def new(cls, *, rootdir: Path, base: Path, output: str | None) -> Identity:
        """Make the identity of a new run.

        Args:
            rootdir: pytest's rootdir.
            base: the folder that pytest was called in.
            output: the results folder that the user chose; ``.rlenv/<time>-<word>`` at the rootdir if none.
        """
        session = uuid.uuid4().hex[:12]
        stamp = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
        chosen = base / Path(output).expanduser() if output else rootdir / ".rlenv" / f"{stamp}-{session[:6]}"
        return cls(session, chosen, rootdir, base)


def cache_root() -> Path:
    """Return the folder of what outlives a run: fetched tasks, locks. ``RLENV_CACHE`` overrides it."""
    if own := os.environ.get("RLENV_CACHE"):
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pytest-rlenv"
