"""A resources server that is started here, in the user's interpreter, and ends with this process."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_rlenv.errors import RlenvError, SandboxFailed, Stage, StageTimeout
from pytest_rlenv.frameworks.nemo_gym.resolving import ServerSpec
from pytest_rlenv.frameworks.nemo_gym.server import Server
from pytest_rlenv.frameworks.nemo_gym.wire import Wire
from pytest_rlenv.identity import cache_root
from pytest_rlenv.processes.environment import plain_environment
from pytest_rlenv.processes.guarded import GuardedProcess
from pytest_rlenv.text import decode, tail
from pytest_rlenv.verdict import number

CHILD = Path(__file__).with_name("_server_child.py")
START_LIMIT = 180.0
"""Seconds for a server to answer: some import for a minute on a machine that is busy."""
_PROBE = 2.0
_LOOK = 0.05
_LOG_BYTES = 64 * 1024


@dataclass(frozen=True)
class Start:
    """What a server is started with.

    Attributes:
        python: the interpreter.
        spec: the server.
        root: NeMo Gym's folder, for a server that is built on it.
        judge_url: a model server for servers that ask a judge.
        ray: True to let it start Ray.
        limit: seconds until it must answer.
    """

    python: str
    spec: ServerSpec
    root: Path | None
    judge_url: str | None = None
    ray: bool = False
    limit: float = START_LIMIT


class StartedServer(Server):
    """A server in a process of its own, which ends with this one."""

    def __init__(self, start: Start, environ: Mapping[str, str]) -> None:
        super().__init__("")
        self._start = start
        self._closing = threading.Lock()
        self._why: str | None = None
        self._hung = False
        self._token = secrets.token_hex(8)
        self._log, log = tempfile.mkstemp(prefix="rlenv-nemo-")  # read also after the server's end
        weakref.finalize(self, os.close, self._log)
        try:
            self._process = GuardedProcess(
                [start.python, "-I", "-u", str(CHILD), json.dumps(_facts(start, self._token))],
                env=_variables(environ),
                cwd=Path("/"),
                log=Path(log),
            )
        finally:  # both sides have it open: so not even a SIGKILL leaves a file
            os.unlink(log)  # noqa: PTH108 - a name that tempfile gave
        try:
            self._become_ready(time.monotonic() + start.limit)
        except BaseException:
            self.close()
            raise

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return f"the server {self._start.spec.name}"

    @property
    def alive(self) -> bool:
        """False once it has ended, or was ended."""
        return self._why is None and self._process.exit_code is None

    @property
    def ended_for_hanging(self) -> bool:
        """True if it was ended because somebody waited in vain."""
        return self._hung

    @property
    def died(self) -> bool:
        """True if it ended by itself."""
        return self._why is None and self._process.exit_code is not None

    @property
    def log_size(self) -> int:
        """The position at the end of its log."""
        return os.fstat(self._log).st_size

    def log_from(self, begin: int) -> bytes:
        """Return its log from a position on, the end of it where that is much."""
        begin = max(begin, self.log_size - _LOG_BYTES)
        return os.pread(self._log, _LOG_BYTES, begin)

    def hung(self, what: str) -> None:
        """End it: it serves one call after the other, so nobody else would be answered either."""
        self._hung = True
        self._end(f"it was ended, since it did not answer {what} in time")

    def close(self) -> None:
        """End it with all that it started."""
        self._end("it was ended")

    def lost(self, what: str, stage: Stage) -> SandboxFailed:
        """Return the error for a connection that broke, with how the server ended and its last words."""
        why = self._why
        if why is None:
            code = self._wait_for_end()
            why = "it broke the connection" if code is None else f"it died (exit code {code})"
        return SandboxFailed(f"{self.name} is gone at {what}: {why}", detail=self._last_words(), stage=stage)

    def _become_ready(self, deadline: float) -> None:
        while (port := self._port()) is None:
            self._check_start(deadline)
            time.sleep(_LOOK)
        self.url = f"http://127.0.0.1:{port}"
        while not self._answers(deadline):
            self._check_start(deadline)
            time.sleep(_LOOK)
        self.learn_routes(max(_PROBE, deadline - time.monotonic()))

    def _port(self) -> int | None:
        """Return the port that the server says in its log, behind a word that nobody else knows."""
        said = os.pread(self._log, self.log_size, 0).partition(self._token.encode())[2].split(b"\n")
        return int(said[0]) if len(said) > 1 else None

    def _answers(self, deadline: float) -> bool:
        """Return whether it answers by now; a moment's refusal is no reason to give up."""
        wire = Wire(self.url, lost=self._not_yet, hung=lambda _: None)
        limit = max(_LOOK, min(_PROBE, deadline - time.monotonic()))
        try:
            return wire.get("/", limit=limit, stage=Stage.START).status < 500
        except (SandboxFailed, StageTimeout):
            return False
        finally:
            wire.close()

    def _not_yet(self, what: str, stage: Stage) -> SandboxFailed:
        """Return the error for a connection that is not there yet."""
        return SandboxFailed(f"{self.name} does not answer {what} yet", stage=stage)

    def _check_start(self, deadline: float) -> None:
        code = self._process.exit_code
        if code is not None:
            raise self._did_not_start(SandboxFailed, f"ended before it answered (exit code {code})")
        if time.monotonic() >= deadline:
            raise self._did_not_start(StageTimeout, f"did not answer within {number(self._start.limit)} s")

    def _did_not_start(self, kind: type[RlenvError], what: str) -> RlenvError:
        words = self._last_words()
        missing = _missing_module(words)
        hint = f"pip install what brings {missing} for {self._start.python}" if missing else ""
        return kind(
            f"{self.name} {what}",
            hint=hint or f"started with {self._start.python}; its last words are below",
            detail=words,
            stage=Stage.START,
        )

    def _wait_for_end(self) -> int | None:
        """Return how it ended; a connection may break a moment before that."""
        end = time.monotonic() + 1.0
        while self._process.exit_code is None and time.monotonic() < end:
            time.sleep(_LOOK)
        return self._process.exit_code

    def _last_words(self) -> str:
        lines = decode(self.log_from(0)).splitlines(keepends=True)
        return tail("".join(line for line in lines if self._token not in line))

    def _end(self, why: str) -> None:
        with self._closing:
            if self._process.exit_code is None:  # else it has died, whoever comes to close it
                self._why = self._why or why
        self._process.close()


def _facts(start: Start, token: str) -> dict[str, Any]:
    spec = start.spec
    own = [] if spec.trusted or start.root is None else [str(spec.folder.parent.parent)]
    return {
        "token": token,
        "entry": str(spec.folder / spec.entry),
        "path": own,
        "nemo_gym": start.root is not None,
        "name": spec.name,
        "instance": spec.instance,
        "config": None if spec.config is None else str(spec.config),
        "judges": list(spec.judges),
        "judge_url": start.judge_url,
        "ray": start.ray,
    }


def _variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the server's variables: none of the caller's secrets, and its caches where they belong."""
    plain = {"PATH": os.defpath, "HOME": str(cache_root()), **plain_environment(environ)}
    cache = Path(plain.get("HF_HOME") or Path(plain["HOME"]) / ".cache" / "huggingface")
    return {
        **plain,
        "HF_HOME": str(cache),  # else NeMo Gym takes the current folder, which is the package's
        "HF_DATASETS_CACHE": str(cache / "datasets"),
        "MPLCONFIGDIR": str(cache_root() / "nemo-gym" / "matplotlib"),
        "RAY_USAGE_STATS_ENABLED": "0",
        "WANDB_MODE": "disabled",
    }


def _missing_module(words: str) -> str | None:
    """Return the module that a server cannot import, where its last words say so."""
    marker = "No module named "
    last = next((line for line in reversed(words.splitlines()) if marker in line), None)
    return None if last is None else last.partition(marker)[2].strip()
