"""A Docker configuration whose engine is nowhere: to everybody who asks, this machine has none.

No variable names the engine, so that nobody can tell it from a machine on which Docker was never installed.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

NOWHERE = "unix:///nowhere/docker.sock"


def no_engine_config(folder: Path) -> Path:
    """Write it, for ``DOCKER_CONFIG``."""
    meta = folder / "contexts" / "meta" / hashlib.sha256(b"nowhere").hexdigest()
    meta.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"currentContext": "nowhere"}))
    context = {"Name": "nowhere", "Endpoints": {"docker": {"Host": NOWHERE}}}
    (meta / "meta.json").write_text(json.dumps(context))
    return folder


def hide_engine(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Have no engine for this process and its children."""
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(no_engine_config(folder)))
