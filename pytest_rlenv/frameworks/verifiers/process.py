"""The interpreter of a taskset, as seen from here: one question at a time, each with a time limit."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_rlenv.errors import SandboxFailed, Stage, StageTimeout, VerifierTimeout
from pytest_rlenv.frameworks.kept import Kept
from pytest_rlenv.frameworks.verifiers.interpreter import absent, find_python, variables
from pytest_rlenv.frameworks.verifiers.leftovers import new_run_word, remove_containers, removed_after_us
from pytest_rlenv.frameworks.verifiers.printed import PrintedLog
from pytest_rlenv.processes.guarded import GuardedProcess
from pytest_rlenv.secrets import SECRETS
from pytest_rlenv.settings import Settings
from pytest_rlenv.text import clean, tail
from pytest_rlenv.verdict import number

if TYPE_CHECKING:
    from pytest_rlenv.sandboxes.docker.reaper import Reaper

START = Path(__file__).with_name("child") / "start.py"
START_LIMIT = 120.0
"""Seconds for the interpreter to start, and to import the package."""

_KNOWN = ("0.4.",)
"""Beginnings of the package's versions that this was written for."""


class ChildFailed(Exception):
    """What was asked for raised in the interpreter.

    Args:
        failure: what it says of that.

    Attributes:
        late: True if the time of its stage was up.
        missing: the module whose absence was behind it, if that was it.
    """

    def __init__(self, failure: Mapping[str, Any]) -> None:
        super().__init__(f"{failure['type']}: {failure['message']}")
        self.type = str(failure["type"])
        self.kinds = tuple(failure["kinds"])
        self.message = clean(str(failure["message"]))
        self.detail = tail(clean(str(failure["detail"])))
        self.stage = str(failure["stage"])
        self.late = bool(failure["late"])
        self.missing: str | None = failure["missing"]


class TasksetProcess:
    """One interpreter. It ends when this is closed, or this process is gone.

    Args:
        python: the interpreter.
        environ: the caller's variables.
        passed: names of those that it is given though they are secret.
        paths: folders that tasksets may be imported from, after all others.

    Raises:
        SpecError: it has no Verifiers. SandboxFailed: it cannot be started.
    """

    def __init__(
        self,
        python: str,
        environ: Mapping[str, str],
        *,
        passed: Sequence[str] = (),
        paths: Sequence[str] = (),
    ) -> None:
        self.program = python
        """The interpreter's path."""
        self._run = new_run_word()
        self._closing = threading.Lock()
        self._closed = False
        self._reaper: Reaper | None = None
        self.expects_containers = False
        """True once it may have started containers."""
        handle, name = tempfile.mkstemp(prefix="rlenv-verifiers-")
        self._log = PrintedLog(handle)
        try:
            self._process = GuardedProcess(
                [python, str(START)],
                env=variables(environ, passed, self._run),
                cwd=Path(os.getcwd()),  # noqa: PTH109 - relative paths of a taskset are meant from there
                log=Path(name),
                talk=True,
            )
        except OSError as error:
            self._log.close()
            raise SandboxFailed(f"{python} cannot be started: {error}", stage=Stage.START) from error
        finally:
            Path(name).unlink()  # both ends are open, and nothing is left of it however this process ends
        self._numbers = itertools.count(1)
        self._messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._read, name="rlenv-verifiers", daemon=True).start()
        try:
            told = self.ask("version", {"paths": list(paths)}, limit=START_LIMIT, stage=Stage.START)
        except ChildFailed as failure:
            self.close()
            raise absent(python, failure.detail) from None
        except BaseException:
            self.close()
            raise
        self.version = str(told["verifiers"])
        self.python = str(told["python"])

    @property
    def words(self) -> str:
        """What it is, for people."""
        return f"verifiers {self.version}, python {self.python}"

    @property
    def unknown_version(self) -> bool:
        """True for a version of the package that this was not written for."""
        return not self.version.startswith(_KNOWN)

    @property
    def alive(self) -> bool:
        """False once nothing more can be had of it."""
        return not self._closed and self._process.exit_code is None

    def expect_containers(self) -> None:
        """Take note that it may start containers: what is left of them is removed, however this ends."""
        with self._closing:
            if not (self.expects_containers or self._closed):
                self._reaper = removed_after_us(self._run)
            self.expects_containers = True

    def leave_log(self, path: Path) -> None:
        """Write what it has printed since this was last asked; nothing if it has printed nothing."""
        with contextlib.suppress(OSError):
            if data := self._log.news():
                path.write_bytes(data)

    def ask(self, what: str, request: Mapping[str, Any], *, limit: float, stage: Stage) -> dict[str, Any]:
        """Have something done, and return what came of it.

        Args:
            what: the operation.
            request: its arguments.
            limit: seconds after which the interpreter is killed, with all that it started.
            stage: where the rollout is meanwhile.

        Raises:
            ChildFailed: it raised.
            StageTimeout: it did not answer in time. SandboxFailed: it is gone. Nothing more can be had of it.
        """
        asked = next(self._numbers)
        end = time.monotonic() + limit
        try:
            self._send({**request, "do": what, "id": asked}, stage)
            while True:
                message = self._messages.get(timeout=max(0.0, end - time.monotonic()))
                if message is None:
                    raise self._gone(stage)
                if message.get("done") == asked:
                    break
        except queue.Empty:
            said = self._log.tail()
            self.close()
            kind = VerifierTimeout if stage is Stage.VERIFY else StageTimeout
            raise kind(
                f"the taskset's interpreter did not answer within {number(round(limit, 1))} s: it was killed",
                hint="something in the taskset never lets go; --rlenv-timeout-multiplier gives it more time",
                detail=tail(clean(said)),
                stage=stage,
            ) from None
        except BaseException:
            self.close()
            raise
        if "failed" in message:
            raise ChildFailed(message["failed"])
        return dict(message["result"])

    def close(self) -> None:
        """End it, with all that it started. May be called twice, and from another thread."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._process.close()
            if self.expects_containers:
                remove_containers(self._run)
            if self._reaper is not None:
                self._reaper.stop(sweep=False)
            self._log.close()

    def _send(self, message: Mapping[str, Any], stage: Stage) -> None:
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError):
            raise self._gone(stage) from None

    def _gone(self, stage: Stage) -> SandboxFailed:
        code = self._process.exit_code
        for _ in range(20):  # its output ends a moment before it does
            if code is not None or self._closed:
                break
            time.sleep(0.05)
            code = self._process.exit_code
        ended = "was ended" if code is None else f"ended (exit code {code})"
        return SandboxFailed(
            f"the taskset's interpreter {ended}", detail=tail(clean(self._log.tail())), stage=stage
        )

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while line := self._process.stdout.readline():
                with contextlib.suppress(ValueError):
                    self._messages.put(json.loads(line))
        self._messages.put(None)


@contextlib.contextmanager
def lease_interpreter(
    kept: Kept, settings: Settings, paths: tuple[str, ...], *, stage: Stage
) -> Iterator[TasksetProcess]:
    """Have an interpreter for oneself; it is kept up for who wants the same.

    Args:
        kept: where.
        settings: of the run.
        paths: folders that tasksets may be imported from, after all others.
        stage: where the rollout is meanwhile.

    Raises:
        SpecError: there is none with Verifiers. SandboxFailed: it cannot be started, or the run has ended.
    """
    python = find_python(settings, os.environ)

    def make() -> TasksetProcess:
        for name in settings.verifiers_env:
            SECRETS.add(name, os.environ.get(name, ""))  # whatever its name says
        return TasksetProcess(python, os.environ, passed=settings.verifiers_env, paths=paths)

    with kept.lease(("verifiers", python, paths), make, at_most=settings.jobs, stage=stage) as process:
        yield process
