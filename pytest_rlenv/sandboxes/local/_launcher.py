"""The processes that start others in boxes; run by ``launcher.py``, once per process of ours.

Standard library only, so that it is up in a few milliseconds and small to fork. It is a process of its own
because it has one thread: the kernel lets only such processes enter a user namespace, forking a small one
is cheap, and a box whose parent is a thread would die with that thread. And it outlives its owner: when the
owner's end of the socket closes, however that came, it ends all boxes and removes what they left.

For each box it forks an attendant (``_attendant.py``), which enters the box and starts commands there.

A request is a datagram with file descriptors; the first of them holds the request's fields.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import fcntl
import gc
import marshal
import os
import select
import signal
import socket
import sys
import time

TYPE_CHECKING = False  # to import it from `typing` takes a fifth of this process's start
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

MAX_FDS = 8
SPAWN, ATTEND, KILL, DRAIN, HELLO = b"s", b"a", b"k", b"d", b"h"
RUN, LISTEN = b"r", b"l"
"""What is asked of an attendant."""

_CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | CLONE_NEWPID
"""Those of every box: mount, cgroup, uts, ipc, pid."""

_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 4, 36
_IDLE, _BUSY = 5000, 500
_LAST_WORDS = 5.0
_HIGH_FD = 100
_INT = ctypes.sizeof(ctypes.c_int)

libc = ctypes.CDLL(None, use_errno=True)


class StepFailed(Exception):
    """A step on the way to a command in a box failed."""

    def __init__(self, step: str, number: int) -> None:
        super().__init__(step, number)
        self.step = step
        self.number = number

    def line(self) -> bytes:
        """Return it as a line of a status."""
        return b"E %s %d\n" % (self.step.encode(), self.number)


def check(step: str, result: int) -> None:
    """Raise StepFailed for a call of the C library that failed."""
    if result < 0:
        raise StepFailed(step, ctypes.get_errno())


def prctl(step: str, *arguments: Any) -> None:
    """Change a property of this process."""
    check(step, libc.prctl(*[ctypes.c_ulong(a) if isinstance(a, int) else a for a in arguments]))


def enter(pidfd: int, which: int, *, user_namespace: bool) -> None:
    """Enter the namespaces of a box; its pid namespace is that of our children from then on."""
    if user_namespace:
        which |= _CLONE_NEWUSER
    check("setns", libc.setns(pidfd, which))


def default_signals(ignored: Sequence[int]) -> None:
    """Undo what this process ignores, before another program takes its place."""
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def ignored_signals() -> list[int]:
    """Return the signals that this process ignores, by its own choice or its parents'."""
    return [number for number in signal.valid_signals() if signal.getsignal(number) == signal.SIG_IGN]


def receive(link: socket.socket) -> tuple[bytes, dict[str, Any], list[int]]:
    """Return the next request: its kind, fields and descriptors; an empty kind when there are no more."""
    # socket.recv_fds() does not pass flags on before Python 3.12, and a box must inherit none of these
    kind, messages, _, _ = link.recvmsg(16, socket.CMSG_SPACE(MAX_FDS * _INT), socket.MSG_CMSG_CLOEXEC)
    fds = [fd for _, _, data in messages for fd in array.array("i", data)]
    if not kind or not fds:
        return b"", {}, []
    fields = marshal.loads(os.pread(fds[0], os.fstat(fds[0]).st_size, 0))
    os.close(fds[0])
    return kind, fields, fds[1:]


def exit_code(status: int) -> int:
    """Return the exit code of a wait status, as a shell has it."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _kill(fields: dict[str, Any], fds: list[int]) -> NoReturn:
    """Signal all processes of a box but its first: descriptors are its first process, status.

    From inside, in one call: the kernel lets no process of the box be forked meanwhile.
    """
    pidfd, status = fds
    try:
        enter(pidfd, CLONE_NEWPID, user_namespace=fields["user_namespace"])
        child = os.fork()
        if child == 0:
            code = 1
            try:
                if fields["signal"]:
                    os.kill(-1, fields["signal"])
                code = 0
            except ProcessLookupError:
                code = 0  # nobody there
            finally:
                os._exit(code)
        os.write(status, b"X %d\n" % exit_code(os.waitpid(child, 0)[1]))
    except StepFailed as failed:
        os.write(status, failed.line())
    except OSError as error:
        os.write(status, StepFailed("fork", error.errno or 0).line())
    finally:
        os._exit(0)


def _attend(fields: dict[str, Any], fds: list[int], ignored: Sequence[int]) -> NoReturn:
    """Become the attendant of a box: descriptors are its first process, its own socket."""
    try:
        attendant.Attendant(fields, *fds, ignored).run()
    finally:
        os._exit(0)


class Launcher:
    """The loop: take requests, fork for each, reap, until the owner is gone."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._poll = select.poll()
        self._poll.register(link, select.POLLIN)
        self._drains: dict[int, Any] = {}
        self._children: set[int] = set()
        self._boxes: set[int] = set()
        self._leftovers: dict[str, Any] = {}
        self._null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._ignored = ignored_signals()

    def run(self) -> None:
        """Serve until the owner closes the socket, or dies."""
        while True:
            for fd, _ in self._poll.poll(_BUSY if self._children else _IDLE):
                if fd == self._link.fileno():
                    if not self._request():
                        self._end()
                        return
                elif not self._drains[fd].read():
                    self._poll.unregister(fd)
                    self._drains.pop(fd).close()
            self._reap()

    def _request(self) -> bool:
        kind, fields, fds = receive(self._link)
        if not kind:
            return False
        if kind == HELLO:
            self._leftovers = fields
        elif kind == DRAIN:
            output = drain.Drain(fds.pop(), fields["copy"], fields["cap"])
            self._drains[output.fd] = output
            self._poll.register(output.fd, select.POLLIN)
        elif kind == SPAWN:
            self._spawn(fields["argv"], fds)
        elif kind == KILL:
            self._fork(lambda: _kill(fields, fds))
        else:
            self._fork(lambda: _attend(fields, fds, self._ignored))
        for fd in fds:
            os.close(fd)
        return True

    def _spawn(self, argv: list[bytes], fds: list[int]) -> None:
        """Start bubblewrap: descriptors are stdout, stderr and further ones, which get the numbers from 3."""
        # out of the way of the numbers that are to be set
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH_FD) for fd in (self._null, *fds)]
        actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(high)]
        try:
            box = os.posix_spawn(
                argv[0], argv, {}, file_actions=actions, setsigmask=(), setsigdef=self._ignored
            )
        except OSError as error:
            os.write(fds[1], b"cannot start bubblewrap: %s\n" % os.strerror(error.errno or 0).encode())
        else:
            self._children.add(box)
            self._boxes.add(box)
        finally:
            for fd in high:
                os.close(fd)

    def _fork(self, act: Callable[[], NoReturn]) -> None:
        try:
            child = os.fork()
        except OSError:
            return  # the owner sees the descriptors closed without a word
        if child == 0:
            try:
                self._link.close()
                for output in self._drains.values():
                    output.close()
                act()
            finally:
                os._exit(127)
        self._children.add(child)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, _ = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                self._children.discard(pid)
                self._boxes.discard(pid)

    def _end(self) -> None:
        """End all boxes and remove what they leave."""
        for box in self._boxes:
            with contextlib.suppress(OSError):
                os.kill(box, signal.SIGKILL)  # its first process is told by the kernel, and ends all others
        give_up = time.monotonic() + _LAST_WORDS
        with contextlib.suppress(ChildProcessError):
            while time.monotonic() < give_up:
                if not os.waitpid(-1, os.WNOHANG)[0]:
                    time.sleep(0.005)
        if self._leftovers:
            from pathlib import Path

            removal = importlib.import_module("_removal")
            for parent in self._leftovers["cgroups"]:
                removal.remove_cgroups(Path(parent), self._leftovers["prefix"])
            removal.remove_tree(Path(self._leftovers["folder"]))


def main() -> None:
    """Serve the socket whose descriptor is the only argument."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    # Our children are seen in a box until they become its command: nobody there may look into them.
    prctl("dumpable", _PR_SET_DUMPABLE, 0, 0, 0, 0)
    prctl("subreaper", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    link = socket.socket(fileno=int(sys.argv[1]))
    link.set_inheritable(False)
    gc.freeze()  # else each fork writes to all that is in memory, and so copies it
    Launcher(link).run()


if __name__ == "__main__":
    import importlib

    # by the folder, as the package itself would load far more
    sys.path.insert(0, __file__.rpartition("/")[0])
    sys.modules["_launcher"] = sys.modules["__main__"]
    attendant: Any = importlib.import_module("_attendant")
    drain: Any = importlib.import_module("_drain")
    main()
