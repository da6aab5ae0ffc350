"""A box's namespaces, from its first process to their end."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pytest_rlenv.disk import CACHE_CURE, says_full
from pytest_rlenv.errors import BoxUnfit, DiskFull, RlenvError, SandboxFailed
from pytest_rlenv.sandboxes.local import seccomp, transfer
from pytest_rlenv.sandboxes.local.bwrap import cure
from pytest_rlenv.sandboxes.local.command import NO_SLEEP, UP
from pytest_rlenv.sandboxes.local.imageconfig import DEFAULT_PATH
from pytest_rlenv.sandboxes.local.launcher import Launcher, read_status
from pytest_rlenv.sandboxes.local.root import BoxRoot

_START_LIMIT = 60.0
_DEATH_LIMIT = 10.0
_KILL_LIMIT = 10.0
_KILL_TRIES = 3
_REAP_LIMIT = 2.0
_REAP_POLL = 0.002
_KEEPERS = 2
"""The keeper and its sleep."""
_WORDS_CAP = 8192


class Namespace:
    """The namespaces of a running box, and what is needed to enter, kill and outlive them.

    Args:
        launcher: who starts its processes.
        pid: its first process, as this machine knows it.
        privileged: False if it has a user namespace.
    """

    def __init__(self, launcher: Launcher, pid: int, *, privileged: bool) -> None:
        self._launcher = launcher
        self._user_namespace = not privileged
        with contextlib.ExitStack() as undo:
            self.pidfd = os.pidfd_open(pid)
            undo.callback(os.close, self.pidfd)
            # holds the mounts together when the last process has ended
            self._mounts = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
            undo.callback(os.close, self._mounts)
            root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            self.root = BoxRoot(root, owned=not privileged)
            undo.pop_all()

    @property
    def has_user_namespace(self) -> bool:
        """True if this user is root in the box, but nowhere else."""
        return self._user_namespace

    def cause_of_death(self) -> SandboxFailed:
        """Return the error that says why its first process ended though nobody asked for that."""
        if not any(transfer.stat(self.root, f"{folder}/sleep") for folder in DEFAULT_PATH.split(":")):
            return BoxUnfit("the image has no `sleep`, which keeps a box up")
        return SandboxFailed(
            "the box died: its first process ended",
            hint="it was killed from outside, or by the machine for want of memory",
        )

    def is_dead(self, wait: float = 0.0) -> bool:
        """Return True if all processes have ended, waiting up to ``wait`` seconds for it."""
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(wait * 1000))

    def can_start_processes(self) -> bool:
        """Return False for a box whose first process is ending: it takes all the others along."""
        return self._signal(0) == ("", 0)

    def kill_all(self) -> None:
        """Kill all processes but the first, in one call that forking cannot outrun.

        Raises:
            SandboxFailed: it does not work; then the box is ended as a whole.
        """
        for _ in range(_KILL_TRIES):
            if self._signal(signal.SIGKILL) == ("", 0):
                self._wait_until_reaped()
                return
        self.end()
        raise SandboxFailed("the box's processes could not be killed one by one, so it was ended")

    def end(self) -> None:
        """End all processes and wait for it; the files stay.

        Raises:
            SandboxFailed: a process does not end, as one that waits for a broken disk.
        """
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        if not self.is_dead(_DEATH_LIMIT):
            raise SandboxFailed(f"the box's processes did not end within {_DEATH_LIMIT:g} s")

    def close(self) -> None:
        """Let go of the files: with the last process ended, nothing is left of the namespaces."""
        self.root.close()
        os.close(self._mounts)
        os.close(self.pidfd)

    def _wait_until_reaped(self) -> None:
        """Give the kernel and the keeper a moment: a thousand processes take some milliseconds to go."""
        give_up = time.monotonic() + _REAP_LIMIT
        with self.root.folder("/proc") as folder:
            proc = self.root.reopen(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            while sum(name.isdigit() for name in os.listdir(proc)) > _KEEPERS:  # noqa: PTH208 - a descriptor
                if time.monotonic() > give_up:
                    return
                time.sleep(_REAP_POLL)
        finally:
            os.close(proc)

    def _signal(self, number: int) -> tuple[str, int] | None:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        try:
            with closing_fd(writer):
                self._launcher.kill(self.pidfd, writer, signal=number, user_namespace=self._user_namespace)
            poll = select.poll()
            poll.register(reader, select.POLLIN)
            return read_status(reader) if poll.poll(_KILL_LIMIT * 1000) else None
        finally:
            os.close(reader)


def start(launcher: Launcher, argv: Sequence[str], *, privileged: bool) -> Namespace:
    """Start a box by its bubblewrap command, and return its namespaces when all is in place.

    Raises:
        SandboxFailed: bubblewrap or the first process ended, with its words. DiskFull.
    """
    with contextlib.ExitStack() as fds:

        def pipe() -> tuple[int, int]:
            reader, writer = os.pipe2(os.O_CLOEXEC)
            fds.callback(os.close, reader)
            return reader, writer

        (out, out_end), (err, err_end), (info, info_end) = pipe(), pipe(), pipe()
        ends = [out_end, err_end, info_end]
        try:
            if seccomp.program():
                ends.append(_memory_file(seccomp.program()))
            launcher.spawn(argv, ends)
        finally:
            for fd in ends:
                os.close(fd)
        deadline = time.monotonic() + _START_LIMIT
        printed = _read(out, deadline, lambda data: data.endswith(UP))
        if not printed.endswith(UP):
            raise _not_started(_read(err, min(deadline, time.monotonic() + 1.0), lambda _: False))
        described = _read(info, deadline, lambda data: b"}" in data)
        try:
            return Namespace(launcher, int(json.loads(described)["child-pid"]), privileged=privileged)
        except (ValueError, KeyError, OSError) as error:
            raise SandboxFailed(f"the box ended as soon as it was up: {error}") from error


@contextlib.contextmanager
def closing_fd(fd: int) -> Iterator[int]:
    """Close a descriptor at the end."""
    try:
        yield fd
    finally:
        os.close(fd)


def _memory_file(content: bytes) -> int:
    fd = os.memfd_create("rlenv-seccomp", os.MFD_CLOEXEC)
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _read(fd: int, deadline: float, enough: Callable[[bytes], bool]) -> bytes:
    """Read until there is enough, the other end is closed, or time is up."""
    data = b""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    while not enough(data) and len(data) < _WORDS_CAP:
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            break
        chunk = os.read(fd, _WORDS_CAP)
        if not chunk:
            break
        data += chunk
    return data


def _not_started(words: bytes) -> RlenvError:
    said = words.decode("utf-8", "replace").strip()
    low = said.lower()
    if "execvp sh" in low:
        return BoxUnfit(
            "the image has no shell (`sh`), which a box needs",
            hint="base the image on one with a shell; distroless and scratch images cannot be used",
            detail=said,
        )
    if NO_SLEEP in said:
        return BoxUnfit("the image has no `sleep`, which keeps a box up")
    if says_full(said):
        return DiskFull("cannot start the box: no space left on this machine", hint=CACHE_CURE, detail=said)
    if "permission denied" in low or "not permitted" in low:
        return SandboxFailed("bubblewrap may not start the box", hint=cure(), detail=said)
    reason = said.splitlines()[-1] if said else f"it said nothing for {_START_LIMIT:g} s"
    return SandboxFailed(f"bubblewrap could not start the box: {reason}", detail=said)


def own_folder(base: Path, name: str) -> Path:
    """Make and return a folder for this user only."""
    folder = base / name
    folder.mkdir(mode=0o700)
    return folder
