"""Runs a command and ends all that it started as soon as the process that asked for it is gone.

Started as a program of its own by ``guarded.py``, with the standard library only and none of this package:
``_guard.py FD CAP COMMAND...``. FD is the reading end of a pipe whose other end only the asking process
holds, so that even its SIGKILL is seen here. CAP is how many bytes of what the command prints are kept; 0 is
all.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys

LOOK = 0.5
"""Seconds after which it is looked whether the command still runs, where a signal was missed."""
CHUNK = 64 * 1024


def main() -> int:
    """Return the command's exit code, as a shell tells it."""
    lifeline, cap, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)  # whoever asked decides when it ends
    _adopt_orphans()
    log = CappedLog(cap) if cap else None
    try:
        child = _start(command, log)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return 127
    os.close(0)
    os.close(1)
    while child.poll() is None:
        printed = [log.pipe] if log is not None and log.open else []
        ready, _, _ = select.select([lifeline, woken, *printed], [], [], LOOK)
        if lifeline in ready and not os.read(lifeline, 1):
            break
        if woken in ready:
            os.read(woken, 512)
        if log is not None and log.pipe in ready:
            log.take()
    with contextlib.suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)
    code = _code(child.wait())  # only now are those that it started ours
    _kill_the_rest()
    while log is not None and log.open and log.take():
        pass
    return code


def _start(command: "list[str]", log: "CappedLog | None") -> "subprocess.Popen[bytes]":
    if log is None:
        return subprocess.Popen(command, preexec_fn=os.setpgrp)  # safe: there is one thread
    out = log.end if os.path.sameopenfile(1, 2) else None  # else somebody is talked to there
    try:
        return subprocess.Popen(command, preexec_fn=os.setpgrp, stdout=out, stderr=log.end)
    finally:
        os.close(log.end)


class CappedLog:
    """What a command prints, on its way into the file that is our standard error: its first and last bytes.

    The file is hardly longer than one and a half times the cap, and at any time its end is the newest output.

    Args:
        cap: bytes that are kept, half of them from the beginning.
    """

    def __init__(self, cap: int) -> None:
        self.pipe, self.end = os.pipe()
        os.set_blocking(self.pipe, False)
        self.open = True
        self._half = max(1, cap // 2)
        self._room = self._half
        self._tail = bytearray()
        self._left_out = 0
        self._tail_begins = os.lseek(2, 0, os.SEEK_END) + self._half

    def take(self) -> bool:
        """Take some of what was printed; false if there is none now."""
        try:
            data = os.read(self.pipe, CHUNK)
        except BlockingIOError:
            return False
        self.open = bool(data)
        with contextlib.suppress(OSError):  # a full disk must not stop the command
            self._write(data)
        return self.open

    def _write(self, data: bytes) -> None:
        head, rest = data[: self._room], data[self._room :]
        self._room -= len(head)
        self._tail += rest
        _write_all(data)
        if len(self._tail) > 2 * self._half:
            self._cut()

    def _cut(self) -> None:
        """Have the file go on after its first half with the last bytes alone."""
        self._left_out += len(self._tail) - self._half
        del self._tail[: -self._half]
        os.ftruncate(2, self._tail_begins)
        _write_all(b"\n[... %d bytes left out ...]\n%s" % (self._left_out, self._tail))


def _write_all(data: bytes) -> None:
    while data:
        data = data[os.write(2, data) :]


def _adopt_orphans() -> None:
    """Have those whose parents ended become ours (Linux), so that none gets away by changing its group."""
    with contextlib.suppress(Exception):
        import ctypes

        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def _kill_the_rest() -> None:
    while children := _children():  # those of the killed become ours in turn
        for pid in children:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for pid in children:
            with contextlib.suppress(OSError):
                os.waitpid(pid, 0)


def _children() -> "list[int]":
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:  # noqa: PTH123 - imports nothing more
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def _code(status: int) -> int:
    return 128 - status if status < 0 else status


if __name__ == "__main__":
    sys.exit(main())
