"""What the commands of a box may use: by control group for the whole box, else per process.

``memory``: a control group counts the whole box and kills in it. Where none can be made, each process is
held to the limit on its own private data instead. (Its address space would be the stricter measure, but
Java, Go, Node and others reserve far more of that than they use, and would not start.)
``pids``: a control group, else the kernel's count of a user's processes, which works in a user namespace.
``cpus``: a control group, or not at all.
"""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_rlenv.errors import SandboxFailed
from pytest_rlenv.sandboxes.confinement import PIDS_LIMIT
from pytest_rlenv.sandboxes.local.cgroups import CPU, MEMORY, PIDS, Cgroups, Group, make_group
from pytest_rlenv.sandboxes.model import BoxSpec

_MIB = 1024 * 1024


@dataclass(frozen=True)
class Limits:
    """The limits of one box.

    Attributes:
        group: its control group.
        rlimits: what each process is held to: pairs of resource and value.
        memory: True if a memory limit was asked for.
    """

    group: Group
    rlimits: Sequence[tuple[int, int]] = ()
    memory: bool = False

    @classmethod
    def make(cls, spec: BoxSpec, cgroups: Cgroups, name: str) -> Limits:
        """Make the limits that a box was asked for.

        Raises:
            SandboxFailed: the kernel refuses one that it should hold.
        """
        try:
            group = make_group(cgroups, name, memory_mb=spec.memory_mb, cpus=spec.cpus, pids=PIDS_LIMIT)
        except OSError as error:
            raise SandboxFailed(f"cannot make the box's control group: {error}") from error
        rlimits = [(resource.RLIMIT_CORE, 0)]
        if spec.memory_mb is not None and MEMORY not in group.folders:
            rlimits.append((resource.RLIMIT_DATA, spec.memory_mb * _MIB))
        if PIDS not in group.folders:
            rlimits.append((resource.RLIMIT_NPROC, PIDS_LIMIT))
        return cls(group, rlimits, spec.memory_mb is not None)

    def procs(self) -> list[bytes]:
        """Return the files by which a process joins the group that counts the box's processes."""
        return self.group.procs(PIDS)

    def command_procs(self) -> list[bytes]:
        """Return the files by which a command joins the groups whose limits are for commands only.

        Nothing of ours is in those: the kernel might kill it for what a command uses.
        """
        return [path for path in self.group.procs(MEMORY, CPU) if path not in self.procs()]

    def out_of_memory(self) -> int | None:
        """Return a number that grows when the box runs out of memory; ``None`` where that is not seen."""
        return self.group.out_of_memory() if self.memory else None

    def ran_out_of_memory(self, before: int | None) -> bool | None:
        """Return whether the number has grown."""
        now = self.out_of_memory()
        return None if before is None or now is None else now > before

    def close(self) -> None:
        """Remove the control group."""
        with contextlib.suppress(OSError):
            self.group.remove()


def describe_limits(cgroups: Cgroups, *, privileged: bool) -> list[str]:
    """Return which limits are held less than in a container, for the header; none if all are held."""
    lacking = []
    if MEMORY not in cgroups.parents:
        lacking.append("memory limits hold per process")
    if CPU not in cgroups.parents:
        lacking.append("cpu limits are not held")
    if PIDS not in cgroups.parents and privileged:
        lacking.append("the number of processes is not limited")
    return lacking
