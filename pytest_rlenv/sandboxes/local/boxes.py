"""The boxes of one process: their folders, control groups and start."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pytest_rlenv.disk import CACHE_CURE, disk_full, is_full
from pytest_rlenv.errors import SandboxFailed, Unsupported
from pytest_rlenv.sandboxes.local import namespace
from pytest_rlenv.sandboxes.local._removal import remove_tree
from pytest_rlenv.sandboxes.local.box import LocalBox
from pytest_rlenv.sandboxes.local.cgroups import find_cgroups
from pytest_rlenv.sandboxes.local.command import box_command
from pytest_rlenv.sandboxes.local.disposal import Disposal
from pytest_rlenv.sandboxes.local.health import wait_healthy
from pytest_rlenv.sandboxes.local.imageconfig import ImageConfig
from pytest_rlenv.sandboxes.local.launcher import Launcher
from pytest_rlenv.sandboxes.local.limits import Limits
from pytest_rlenv.sandboxes.local.network import network_files
from pytest_rlenv.sandboxes.local.places import CGROUP_PREFIX, sweep_cgroups
from pytest_rlenv.sandboxes.local.setup import Setup
from pytest_rlenv.sandboxes.local.users import is_root
from pytest_rlenv.sandboxes.model import BoxSpec, Entry
from pytest_rlenv.sandboxes.owners import Owner
from pytest_rlenv.sandboxes.starts import Starts

_LOG = "entrypoint.log"


@dataclass(frozen=True)
class Source:
    """What a box is made from.

    Attributes:
        config: environment, working directory and so on.
        mounts: given the box's own folder, returns bubblewrap's arguments for the root.
        entries: further files of the "image".
    """

    config: ImageConfig
    mounts: Callable[[Path], tuple[str, ...]]
    entries: tuple[Entry, ...] = ()


class Boxes:
    """Starts boxes and knows those that are up.

    Args:
        setup: what this machine allows.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        owner = Owner.me().new_name()
        self._folder = setup.base / owner
        self._prefix = f"{CGROUP_PREFIX}{owner}"
        self.cgroups = find_cgroups(f"{self._prefix}-probe")
        self._lock = threading.Lock()
        self._launcher: Launcher | None = None
        self._up: dict[str, LocalBox] = {}
        self._count = 0
        self._disposal = Disposal()
        self._starts = Starts()

    def start(self, source: Source, spec: BoxSpec, entries: tuple[Entry, ...]) -> LocalBox:
        """Start a box; nothing is left of one that fails.

        Raises:
            Unsupported: the image wants a user that a plain user's boxes do not have.
            BoxUnfit: the image cannot be started. EntrypointExited, SandboxFailed, DiskFull.
        """
        if not self._setup.privileged and not is_root(source.config.user):
            raise Unsupported(
                f"the image's USER {source.config.user!r}: the local boxes of a plain user have only root"
            )
        with self._starts.one():
            return self._start(source, spec, entries)

    def _start(self, source: Source, spec: BoxSpec, entries: tuple[Entry, ...]) -> LocalBox:
        launcher, number = self._next()
        name = f"rlenv-{os.getpid()}-{number}"
        folder = self._folder / str(number)
        with contextlib.ExitStack() as undo:
            limits = Limits.make(spec, self.cgroups, f"{self._prefix}-{number}")
            undo.callback(limits.close)
            undo.callback(remove_tree, folder)
            space = self._namespace(launcher, source, spec, name, folder)
            undo.callback(space.close)
            undo.callback(space.end)
            box = LocalBox(name, launcher, space, spec, source.config, limits, partial(self._discard, folder))
            undo.pop_all()  # from here on, the box itself knows how to end
        self._up[name] = box
        try:
            self._starts.check()
            self._fill(box, source, spec, entries)
            box.check_user()
            box.open_gate()
            box.start_entrypoint(folder / _LOG)
            self._wait_healthy(box, source.config)
        except BaseException:
            box.destroy()
            raise
        return box

    def close(self) -> None:
        """Remove the boxes that are up, start none any more, and end the launcher."""
        self._starts.close()
        for box in list(self._up.values()):
            box.destroy()
        self._starts.wait()
        self._disposal.close()
        with self._lock:
            launcher, self._launcher = self._launcher, None
        if launcher is not None:
            launcher.close()
        remove_tree(self._folder)

    def _next(self) -> tuple[Launcher, int]:
        with self._lock:
            if self._launcher is None:
                self._folder.mkdir(mode=0o700, exist_ok=True)
                parents = self.cgroups.folders()
                for parent in parents:
                    sweep_cgroups(parent)
                self._launcher = Launcher(self._folder, parents, self._prefix)
            self._count += 1
            return self._launcher, self._count

    def _namespace(
        self, launcher: Launcher, source: Source, spec: BoxSpec, name: str, folder: Path
    ) -> namespace.Namespace:
        privileged = self._setup.privileged
        try:
            folder.mkdir(mode=0o700)
            mounts = source.mounts(folder)
        except OSError as error:
            raise _no_folder(folder, error) from error
        argv = box_command(self._setup.binary.path, mounts, spec, name, privileged=privileged)
        return namespace.start(launcher, argv, privileged=privileged)

    def _fill(self, box: LocalBox, source: Source, spec: BoxSpec, entries: tuple[Entry, ...]) -> None:
        box.put([*network_files(spec, box.id), *source.entries, *entries])
        if box.stat(source.config.workdir) is None:  # as Docker makes an image's WORKDIR
            box.put([Entry(source.config.workdir, mode=0o755)])

    def _wait_healthy(self, box: LocalBox, config: ImageConfig) -> None:
        if config.healthcheck is not None:
            wait_healthy(
                config.healthcheck,
                lambda argv, timeout: box.run(argv, cwd=config.workdir, timeout=timeout),
            )

    def _discard(self, folder: Path, box: LocalBox) -> None:
        def remove() -> None:
            box.release()
            remove_tree(folder)
            self._up.pop(box.id, None)

        self._disposal.add(remove)


def _no_folder(folder: Path, error: OSError) -> SandboxFailed:
    if is_full(error):
        return disk_full("start a box", folder, hint=CACHE_CURE)
    return SandboxFailed(f"cannot make the box's folder {folder}: {error.strerror or error}")
