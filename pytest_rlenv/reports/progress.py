"""What is under way, for whoever waits: a line that is redrawn on a terminal, else a word now and then."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from pytest_rlenv.reports.columns import fit
from pytest_rlenv.under_way import Running

REDRAWN = 1.0
"""Seconds between two drawings of the line."""

_ERASE_BELOW = "\x1b[J"


def status_line(done: int, total: int, running: Sequence[Running], *, width: int) -> str:
    """Return the line: ``rlenv: 12 of 40 done, 2 running: fix-log (oracle) 1:12, repair (oracle) 0:05``.

    Args:
        done: rollouts that ended.
        total: rollouts of the run; 0 is unknown.
        running: those under way, the longest first.
        width: columns; the line is cut to them.
    """
    counted = f"{done} of {total} done" if total else f"{done} done"
    head = f"rlenv: {counted}, {len(running)} running"
    line = head
    for index, each in enumerate(running):
        rest = len(running) - index - 1
        longer = f"{line}{', ' if index else ': '}{each.label} {show_time(each.seconds)}"
        if len(longer) + (len(f", +{rest}") if rest else 0) > width and index:
            return fit(f"{line}, +{rest + 1}", width)
        line = longer
    return fit(line, width)


def show_time(seconds: float) -> str:
    """Return a time as a clock shows it: ``0:05``, ``12:40``, ``1:02:03``."""
    minutes, left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


class LiveLine:
    """The line below the one in which pytest writes. It is erased before pytest goes on.

    Args:
        fd: the terminal, also while pytest captures what is printed.
        column: where in its line pytest stands.
        width: columns of the terminal.
    """

    def __init__(self, fd: int, *, column: Callable[[], int], width: Callable[[], int]) -> None:
        self._fd = fd
        self._column = column
        self._width = width
        self._drawn = False

    def draw(self, make: Callable[[int], str]) -> None:
        """Draw the line that ``make`` returns for a number of columns, and go back to where pytest stands."""
        width = self._width()
        column = self._column()
        if width < 20 or (column and column % width == 0):
            return  # at the right edge nobody can tell on which line the cursor is
        line = make(width - 1)
        back = f"\x1b[{column % width}C" if column % width else ""
        self._write(f"{_ERASE_BELOW}\n{line}\x1b[1A\r{back}")
        self._drawn = True

    def erase(self) -> None:
        """Remove the line."""
        if self._drawn:
            self._drawn = False
            self._write(_ERASE_BELOW)

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # the terminal may be gone
            os.write(self._fd, text.encode(errors="replace"))


class Progress:
    """Tells of what is under way from a thread of its own.

    Args:
        running: returns what is under way.
        counts: returns how many rollouts have ended, and how many there are.
        live: the line on a terminal, if there is one.
        say: writes a line for a reader who sees no such line.
        heartbeat: seconds without a word after which that is done; 0 is never.
        tick: called about once a second while nobody else writes.
    """

    def __init__(
        self,
        *,
        running: Callable[[], Sequence[Running]],
        counts: Callable[[], tuple[int, int]],
        live: LiveLine | None,
        say: Callable[[str], None],
        heartbeat: float,
        tick: Callable[[], None],
    ) -> None:
        self._running = running
        self._counts = counts
        self._live = live
        self._say = say
        self._heartbeat = heartbeat
        self._tick = tick
        self._lock = threading.RLock()
        self._quiet_since = time.monotonic()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start."""
        if self._thread is None and not self._ended.is_set():
            self._thread = threading.Thread(target=self._run, name="rlenv-progress", daemon=True)
            self._thread.start()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let somebody else write: nothing is drawn meanwhile."""
        with self._lock:
            self._quiet_since = time.monotonic()
            if self._live is not None:
                self._live.erase()
            yield

    def end(self) -> None:
        """Stop, and leave nothing on the terminal."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._live is not None:
            self._live.erase()

    def _run(self) -> None:
        step = min(max(self._heartbeat / 10, 0.05), REDRAWN) if self._heartbeat else REDRAWN
        while not self._ended.wait(step):
            with self._lock:
                if self._ended.is_set():
                    return
                self._tell()
                with contextlib.suppress(OSError):  # whoever writes next is told, and says so
                    self._tick()

    def _tell(self) -> None:
        running = self._running()
        if self._live is not None:
            if running:
                self._live.draw(lambda width: status_line(*self._counts(), running, width=width))
            else:
                self._live.erase()
        elif running and self._heartbeat and time.monotonic() - self._quiet_since >= self._heartbeat:
            self._quiet_since = time.monotonic()
            self._say(status_line(*self._counts(), running, width=200).removeprefix("rlenv: "))
