"""The bubblewrap command that makes a box: its files, namespaces and first process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from pytest_rlenv.sandboxes.confinement import CAPABILITIES, SHM_BYTES
from pytest_rlenv.sandboxes.keeper import keeper_command
from pytest_rlenv.sandboxes.local import seccomp
from pytest_rlenv.sandboxes.local.bwrap import NAMESPACES
from pytest_rlenv.sandboxes.local.imageconfig import DEFAULT_PATH
from pytest_rlenv.sandboxes.model import PUBLIC, BoxSpec

INFO_FD, SECCOMP_FD = 3, 4
"""Numbers of the descriptors that bubblewrap is started with."""

UP = b"rlenv-up\n"
"""What the first process of a box prints when all is in place."""
NO_SLEEP = "rlenv-no-sleep"
"""What it prints, as an error, where it cannot keep the box up."""

_CAPABILITY_NUMBERS = {
    "CHOWN": 0,
    "DAC_OVERRIDE": 1,
    "FOWNER": 3,
    "FSETID": 4,
    "KILL": 5,
    "SETGID": 6,
    "SETUID": 7,
    "NET_BIND_SERVICE": 10,
    "SYS_CHROOT": 18,
    "AUDIT_WRITE": 29,
}
CAPABILITY_MASK = sum(1 << _CAPABILITY_NUMBERS[name] for name in CAPABILITIES)
"""What root keeps in a box: the same as in the Docker sandbox."""

# Readable by root without any capability, and about the machine rather than the box; Docker hides them too.
_HIDDEN_FILES = ("kcore", "keys", "timer_list", "sched_debug")
_HIDDEN_FOLDERS = ("acpi", "scsi", "asound")
# Writing there would change the machine. Bubblewrap itself sees to irq and bus.
_READ_ONLY = ("sys", "sysrq-trigger", "fs")


def overlay(root: Path, folder: Path) -> tuple[str, ...]:
    """Return the arguments for a root that shows ``root`` and keeps all changes below ``folder``."""
    upper, work = folder / "upper", folder / "work"
    upper.mkdir(mode=0o755)
    work.mkdir()
    return ("--overlay-src", str(root), "--overlay", str(upper), str(work), "/")


def box_command(
    binary: Path, mounts: Iterable[str], spec: BoxSpec, hostname: str, *, privileged: bool
) -> list[str]:
    """Return the command. The first process is the keeper, run by the box's own shell.

    Args:
        binary: bubblewrap.
        mounts: its arguments for the root and what is below it.
        spec: network and lifetime.
        hostname: the box's name in it.
        privileged: False puts the box into a user namespace, in which this user is root.
    """
    argv = [str(binary), "--die-with-parent", "--new-session", "--as-pid-1", "--clearenv"]
    argv += NAMESPACES
    argv += ["--hostname", hostname, "--info-fd", str(INFO_FD)]
    if spec.network != PUBLIC:
        argv.append("--unshare-net")
    if not privileged:
        argv += ["--unshare-user", "--uid", "0", "--gid", "0"]
    if seccomp.program():
        argv += ["--seccomp", str(SECCOMP_FD)]
    argv += ["--cap-drop", "ALL"]
    for name in CAPABILITIES:
        argv += ["--cap-add", f"CAP_{name}"]
    argv += mounts
    argv += _kernel_files()
    argv += ["--setenv", "PATH", DEFAULT_PATH, "--chdir", "/", "--", *_keeper(spec.lifetime)]
    return argv


@lru_cache(maxsize=1)  # the kernel's files are there or not
def _kernel_files() -> tuple[str, ...]:
    """Return the arguments for ``/proc``, ``/dev`` and the little of ``/sys`` that programs look at."""
    argv = ["--proc", "/proc", "--dev", "/dev", "--size", str(SHM_BYTES), "--perms", "1777"]
    argv += ["--tmpfs", "/dev/shm"]
    for name in _READ_ONLY:
        if Path("/proc", name).exists():
            argv += ["--ro-bind", f"/proc/{name}", f"/proc/{name}"]
    for name in _HIDDEN_FILES:
        if Path("/proc", name).exists():
            argv += ["--ro-bind", "/dev/null", f"/proc/{name}"]
    for name in _HIDDEN_FOLDERS:
        if Path("/proc", name).is_dir():
            argv += ["--tmpfs", f"/proc/{name}", "--remount-ro", f"/proc/{name}"]
    if Path("/sys/devices/system/cpu").is_dir():
        cpus = "/sys/devices/system/cpu"
        argv += ["--tmpfs", "/sys", "--ro-bind", cpus, cpus, "--remount-ro", "/sys"]
    return tuple(argv)


def _keeper(lifetime: float) -> Sequence[str]:
    shell, option, script, *rest = keeper_command(lifetime)
    up = UP.decode("ascii").strip()
    # without it, the box would be gone before anybody could ask why
    look = f"command -v sleep >/dev/null || {{ echo {NO_SLEEP} >&2; exit 1; }}"
    return [shell, option, f"{look}; echo {up}; exec </dev/null >/dev/null 2>&1; {script}", *rest]
