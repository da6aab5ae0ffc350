"""Images as a sandbox is asked for them, and as it has them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class BuildOptions:
    """How to build from a context, where it is not simply by its ``Dockerfile``.

    Attributes:
        dockerfile: another file of the context, relative to it.
        text: the Dockerfile itself; then none is read from the context.
        args: build arguments.
        target: the stage to build; empty is the last.
    """

    dockerfile: str = ""
    text: str = ""
    args: tuple[tuple[str, str], ...] = ()
    target: str = ""


LEFT_OUT = Path("/.rlenv-left-out")
"""A folder of no machine: what a Compose file would mount from it is not mounted."""


@dataclass(frozen=True)
class ComposeSpec:
    """Services beside a box, as a Compose file describes them.

    Attributes:
        file: the Compose file; its folder is the project's.
        root: the folder that nothing of it may leave.
        env: variables that it is filled in with.
        main: the service that is the box.
    """

    file: Path
    root: Path
    env: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    main: str = "main"


@dataclass(frozen=True)
class ImageSpec:
    """An image to prepare: either the name of a prebuilt one, or a folder to build.

    Attributes:
        name: a prebuilt image's reference; then nothing is built.
        context: the build context, with a ``Dockerfile`` in it.
        slug: a readable word for the tag of a built image.
        options: how it is built.
        compose: the services to prepare with it; the image is what their box is made from where their file
            does not say so.
    """

    name: str | None = None
    context: Path | None = None
    slug: str = "task"
    options: BuildOptions = BuildOptions()
    compose: ComposeSpec | None = None


@dataclass(frozen=True)
class ImageLayer:
    """What is added to an image by running a script in it, once for all boxes that are to have it.

    Attributes:
        name: a readable word for the tag, such as an agent's name.
        script: for ``sh``, run as root, in ``/``, with the engine's own network. The same text on the same
            image is taken to make the same, so it names the versions of what it fetches. Where the variable
            ``RLENV_LAYER_CACHE`` is set, it is a folder for downloads that layers of other images find again.
        passing: found in the output of a script that failed, it says that another try may succeed. Any other
            failure is kept in mind for the run.
    """

    name: str
    script: str
    passing: re.Pattern[str] | None = None


@dataclass(frozen=True)
class ImageRef:
    """An image that is here and can be started.

    Attributes:
        name: how people know it: the prebuilt reference or our tag.
        id: the engine's content id, ``sha256:...``.
        built: True when this call built it, False when it was there or pulled.
        sandbox: what records call the sandbox of boxes on it, where its own name would be wrong.
        digest: the registry's digest of a prebuilt image, ``sha256:...``, by which anyone can pull it;
            empty where there is none.
        services: what the sandbox keeps of the services that it has prepared with it; ``None`` for none.
        notes: what was left out of these, one line each.
        idle: True where it is known that nothing of the image's own (an ENTRYPOINT, a HEALTHCHECK) runs in a
            box on it: what is put there before the first command may as well be there from the start.
    """

    name: str
    id: str
    built: bool = False
    sandbox: str = ""
    digest: str = ""
    services: object | None = field(default=None, compare=False, repr=False)
    notes: tuple[str, ...] = ()
    idle: bool = field(default=False, compare=False)

    @property
    def pinned(self) -> str:
        """The name with what it stood for: the registry's digest where there is one, else the engine's id."""
        return self.name if "@" in self.name else f"{self.name}@{self.digest or self.id}"
