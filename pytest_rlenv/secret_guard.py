"""A child process that takes secrets out of unfinished rollouts' folders when their process is killed.

What a rollout leaves is searched when it has ended, by the process that ran it. One that is killed, or told
to stop, does not come to that: then the child does it.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

_SCRIPT = Path(__file__).with_name("_secret_guard.py")
_END_LIMIT = 30.0


class SecretGuard:
    """The child, which is started once there is a folder and a secret. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._folders: set[str] = set()
        self._marks: dict[str, str] = {}

    def begin(self, folder: Path) -> None:
        """Have a folder redacted if this process ends before :meth:`end`."""
        with self._lock:
            self._folders.add(str(folder))
            self._tell({"begin": str(folder)})

    def end(self, folder: Path) -> None:
        """Leave a folder alone from now on."""
        with self._lock:
            self._folders.discard(str(folder))
            if self._process is not None:
                self._tell({"end": str(folder)})

    def learn(self, marks: Mapping[str, str]) -> None:
        """Take what is to be replaced in texts, and by what, in the place of what was known before."""
        with self._lock:
            self._marks = dict(marks)
            if self._folders:
                self._tell({"marks": self._marks})

    def close(self) -> None:
        """End the child, after it has redacted what was not ended, and wait for that."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        try:
            process.wait(_END_LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _tell(self, what: Mapping[str, object]) -> None:
        """Send a line; the first one comes with all that the child has missed."""
        if not self._marks:
            return
        lines = [what]
        if self._process is None:
            if not self._start():
                return
            lines = [{"marks": self._marks}, *({"begin": folder} for folder in sorted(self._folders))]
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it was killed: rollouts that end are redacted all the same
            for line in lines:
                self._process.stdin.write(json.dumps(line).encode() + b"\n")
            self._process.stdin.flush()

    def _start(self) -> bool:
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_SCRIPT), str(_SCRIPT.parents[1])],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
        except OSError:
            return False
        atexit.register(self.close)
        return True
