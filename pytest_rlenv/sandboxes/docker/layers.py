"""A layer on an image, as a build: content-keyed, cached and locked like every other."""

from __future__ import annotations

import json
from pathlib import Path

from pytest_rlenv.sandboxes.build_context import BuildContext
from pytest_rlenv.sandboxes.docker.postmortem import is_root
from pytest_rlenv.sandboxes.model import BuildOptions, ImageLayer

_CACHE = "/run/rlenv-layers"
"""Where the engine's own folder for downloads is while a script runs; nothing of it is in the image."""


def layer_context(base: str, user: str, layer: ImageLayer, *, cache: bool) -> BuildContext:
    """Return the build that puts a layer on an image.

    Args:
        base: the image's name.
        user: the image's own user, whom a box on the new one has as well.
        layer: what is added.
        cache: whether the builder has a folder that outlives a build.
    """
    prepared = f"export RLENV_LAYER_CACHE={_CACHE}\n" if cache else ""
    mount = f"--mount=type=cache,id=rlenv-layers,target={_CACHE} " if cache else ""
    # In JSON form, since the image may have a SHELL of its own, and a script more than one line.
    run = json.dumps(["/bin/sh", "-c", f"cd /\n{prepared}{layer.script}"])
    lines = [f"FROM {base}", f"RUN {mount}{run}"]
    if not is_root(user):
        lines[1:] = ["USER root", *lines[1:], f"USER {user}"]
    text = "\n".join(lines) + "\n"
    return BuildContext(Path(f"the layer of {layer.name}"), text, (), BuildOptions(text=text), layer.passing)
