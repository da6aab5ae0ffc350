"""A scripted sandbox whose images are told of: who asks for which, and what becomes of it.

In a Dockerfile:

    # image: disk-full        (there is no space for it)
    # image: meet=/tmp/file   (its preparation counts as one that has come there)
    # image: hang             (it is never done)
    # image: notify=words     (who waits is told so)
"""

from __future__ import annotations

import os
import re
import threading
from dataclasses import replace
from pathlib import Path

from support.scripted import ScriptedSandbox

from pytest_rlenv.errors import DiskFull
from pytest_rlenv.sandboxes.model import ImageRef, ImageSpec

DIRECTIVE = re.compile(r"^# image: (?P<name>[\w-]+)(?:=(?P<value>.*))?$", re.MULTILINE)


class Making(ScriptedSandbox):
    """Notes in ``$SCRIPTED_DIR/images`` which image which thread asks for."""

    capabilities = replace(ScriptedSandbox.capabilities, prepares_ahead=True)

    def prepare(self, image: ImageSpec, *, timeout: float | None = None) -> ImageRef:
        name = image.name or image.slug
        _append(self.up.parent / "images", f"{name} {threading.current_thread().name}")
        text = (image.context / "Dockerfile").read_text() if image.context else ""
        for directive in DIRECTIVE.finditer(text):
            if directive["name"] == "disk-full":
                raise DiskFull(f"cannot build {name}: no space left on the engine's disk")
            if directive["name"] == "meet":
                _append(Path(directive["value"]), "x")
            elif directive["name"] == "notify" and self.context.notify is not None:
                self.context.notify(directive["value"])
            elif directive["name"] == "hang":
                threading.Event().wait()
        return replace(super().prepare(image, timeout=timeout), digest="sha256:d")


class OneByOne(Making):
    """The same, but nothing may be prepared ahead."""

    capabilities = ScriptedSandbox.capabilities


def images_asked_for(folder: Path) -> list[tuple[str, str]]:
    """Return image and thread of each request."""
    file = folder / "scripted" / "images"
    lines = file.read_text().splitlines() if file.exists() else []
    return [(line.split()[0], line.split()[1]) for line in lines]


def _append(file: Path, line: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, f"{line}\n".encode())
    os.close(fd)
