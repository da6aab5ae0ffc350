"""Runs a command and ends all that it started as soon as the process that asked for it is gone.

Started as a program of its own by ``guarded.py``, with the standard library only and none of this package:
``_guard.py FD COMMAND...``. FD is the reading end of a pipe whose other end only the asking process holds, so
that even its SIGKILL is seen here.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys

LOOK = 0.5
"""Seconds after which it is looked whether the command still runs, where a signal was missed."""


def main() -> int:
    """Return the command's exit code, as a shell tells it."""
    lifeline, command = int(sys.argv[1]), sys.argv[2:]
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)  # whoever asked decides when it ends
    _adopt_orphans()
    try:
        child = subprocess.Popen(command, preexec_fn=os.setpgrp)  # safe: there is one thread
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return 127
    os.close(0)
    os.close(1)
    while child.poll() is None:
        ready, _, _ = select.select([lifeline, woken], [], [], LOOK)
        if lifeline in ready and not os.read(lifeline, 1):
            break
        if woken in ready:
            os.read(woken, 512)
    with contextlib.suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)
    code = _code(child.wait())  # only now are those that it started ours
    _kill_the_rest()
    return code


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
