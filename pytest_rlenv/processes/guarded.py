"""A command on this machine that ends, with all it started, when it is closed or this process is gone."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

GUARD = Path(__file__).with_name("_guard.py")
TAIL_BYTES = 4096
_END_SEC = 10.0


class GuardedProcess:
    """A running command, with a guard above it (see ``_guard.py``).

    Args:
        command: the program and its arguments.
        env: its variables, all of them.
        cwd: where it starts.
        log: the file that gets what it prints; a pipe would fill up while nobody reads it.
        talk: True to have its standard input and output as pipes; then the log has its standard error only.
        log_cap: bytes of the log that are kept, from its beginning and its end; ``None`` keeps all, as is
            needed where positions in it are remembered.

    Raises:
        OSError: the log cannot be written, or no process can be made.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        log: Path,
        talk: bool = False,
        log_cap: int | None = None,
    ) -> None:
        self.log = log
        reading, self._lifeline = os.pipe()
        self._ending = threading.Lock()
        try:
            with log.open("ab") as output:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(GUARD), str(reading), str(log_cap or 0), *command],
                    stdin=subprocess.PIPE if talk else subprocess.DEVNULL,
                    stdout=subprocess.PIPE if talk else output,
                    stderr=output,
                    env=dict(env),
                    cwd=cwd,
                    pass_fds=(reading,),
                    start_new_session=True,
                )
        except BaseException:
            os.close(self._lifeline)
            raise
        finally:
            os.close(reading)

    @property
    def stdin(self) -> IO[bytes]:
        """Where it reads, with ``talk``."""
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def stdout(self) -> IO[bytes]:
        """Where it writes, with ``talk``."""
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def exit_code(self) -> int | None:
        """How it ended, as a shell tells it; ``None`` while it runs."""
        return self._process.poll()

    def tail(self) -> str:
        """Return the end of its log."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
                return file.read().decode(errors="replace")
        except OSError:
            return ""

    def close(self) -> None:
        """End it, with all that it started, and wait for that. May be called twice."""
        with self._ending:
            if self._lifeline >= 0:
                os.close(self._lifeline)
                self._lifeline = -1
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(timeout=_END_SEC)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
