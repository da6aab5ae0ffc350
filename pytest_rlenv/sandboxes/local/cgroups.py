"""Limits that hold for a whole box, by control groups, where this user may make them.

Groups are made below the caller's own (version 1) or beside it (version 2, where a group with processes
cannot have limited children), so that whatever limits the caller limits its boxes as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from pytest_rlenv.sandboxes.local._removal import remove_cgroup

MEMORY, PIDS, CPU = "memory", "pids", "cpu"
_PERIOD = 100_000
_MIB = 1024 * 1024


@dataclass(frozen=True)
class Cgroups:
    """Where groups can be made.

    Attributes:
        parents: the folder to make them in, by controller; a controller that cannot be used is absent.
        unified: True for version 2, where all controllers share one group.
    """

    parents: Mapping[str, Path] = field(default_factory=dict)
    unified: bool = False

    def folders(self) -> list[Path]:
        """Return the different parents."""
        return list(dict.fromkeys(self.parents.values()))


@dataclass(frozen=True)
class Group:
    """The control group of one box, one folder per controller, or one for all."""

    folders: Mapping[str, Path]
    unified: bool

    def procs(self, *controllers: str) -> list[bytes]:
        """Return the files that a process writes itself into, to be under some of the controllers."""
        folders = dict.fromkeys(self.folders[name] for name in controllers if name in self.folders)
        return [os.fsencode(folder / "cgroup.procs") for folder in folders]

    def out_of_memory(self) -> int | None:
        """Return how many processes were killed for want of memory so far; ``None`` if not known."""
        if MEMORY not in self.folders:
            return None
        file = self.folders[MEMORY] / ("memory.events" if self.unified else "memory.oom_control")
        try:
            lines = file.read_text(encoding="ascii").split("\n")
        except OSError:
            return None
        return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)

    def remove(self) -> None:
        """Remove it; its processes have ended."""
        for folder in dict.fromkeys(self.folders.values()):
            remove_cgroup(folder)


def find_cgroups(probe: str) -> Cgroups:
    """Return where this process can make groups, tried out with one named ``probe``."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
        own = Path("/proc/self/cgroup").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return Cgroups()
    return find_in(mounts, own, probe)


def find_in(mounts: str, own: str, probe: str) -> Cgroups:
    """Return the usable places, given the texts of ``/proc/self/mountinfo`` and ``/proc/self/cgroup``."""
    places = _own_groups(mounts, own)
    unified = places.get("")
    if unified is not None:
        for folder in (unified, *unified.parents):
            if not (folder / "cgroup.procs").exists():
                break
            enabled = _read(folder / "cgroup.subtree_control").split()
            found = {name: folder for name in (MEMORY, PIDS, CPU) if name in enabled}
            if found and _can_make(folder, probe):
                return Cgroups(found, unified=True)
    return Cgroups({name: path for name, path in places.items() if name and _can_make(path, probe)})


def make_group(cgroups: Cgroups, name: str, *, memory_mb: int | None, cpus: float | None, pids: int) -> Group:
    """Make the group of a box, with its limits; of what is not limited, there is no group.

    Raises:
        OSError: the kernel refuses.
    """
    wanted = {PIDS: [("pids.max", str(pids))]}
    if memory_mb is not None:
        wanted[MEMORY] = _memory_files(memory_mb * _MIB, cgroups.unified)
    if cpus is not None:
        quota = max(1000, int(cpus * _PERIOD))
        wanted[CPU] = [("cpu.max", f"{quota} {_PERIOD}")]
        if not cgroups.unified:
            wanted[CPU] = [("cpu.cfs_period_us", str(_PERIOD)), ("cpu.cfs_quota_us", str(quota))]
    folders = {key: cgroups.parents[key] / name for key in wanted if key in cgroups.parents}
    group = Group(folders, cgroups.unified)
    try:
        for folder in dict.fromkeys(folders.values()):
            folder.mkdir()
        for key, folder in folders.items():
            _write(folder, wanted[key])
    except OSError:
        group.remove()
        raise
    return group


def _memory_files(limit: int, unified: bool) -> list[tuple[str, str]]:
    """Return what to write so that a box has that much memory, and no swap beside it."""
    if unified:
        return [("memory.max", str(limit)), ("memory.swap.max?", "0")]
    return [("memory.limit_in_bytes", str(limit)), ("memory.memsw.limit_in_bytes?", str(limit))]


def _write(folder: Path, files: Iterable[tuple[str, str]]) -> None:
    for name, value in files:
        path = folder / name.rstrip("?")
        if not name.endswith("?") or path.exists():  # a kernel without accounting of swap has no such file
            path.write_text(value, encoding="ascii")


def _own_groups(mounts: str, own: str) -> dict[str, Path]:
    """Return this process's own group by controller; the unified one has an empty name."""
    paths: dict[str, PurePosixPath] = {}
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(","), PurePosixPath(path)))
    places: dict[str, Path] = {}
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.partition(" ")
        fields = before.split()
        if kind not in ("cgroup", "cgroup2") or len(fields) < 5:
            continue
        names = [""] if kind == "cgroup2" else options.split()[-1].split(",")
        for name in names:
            if name in ("", MEMORY, PIDS, CPU) and name in paths:
                root = PurePosixPath(fields[3])
                inside = paths[name].relative_to(root) if paths[name].is_relative_to(root) else ""
                places[name] = Path(fields[4]) / inside
    return places


def _can_make(folder: Path, probe: str) -> bool:
    try:
        (folder / probe).mkdir()
        (folder / probe).rmdir()
    except OSError:
        return False
    return os.access(folder / "cgroup.procs", os.W_OK)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""
