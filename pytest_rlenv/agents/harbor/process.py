"""The child process that holds one agent of Harbor's, as seen from here."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pytest_rlenv.agents.protocol import AgentTimedOut
from pytest_rlenv.errors import AgentFailed

CHILD = Path(__file__).with_name("child.py")
_LOOK = 1.0
"""Seconds after which it is looked whether the child is still there."""

Serve = Callable[[str, dict[str, Any]], dict[str, Any]]


class ChildFailed(Exception):
    """What was asked for raised in the child.

    Args:
        failure: the type's name, its message, a traceback, and whether what the agent did is judged.
    """

    def __init__(self, failure: Mapping[str, Any]) -> None:
        super().__init__(f"{failure['type']}: {failure['message']}")
        self.type = str(failure["type"])
        self.detail = str(failure["detail"])
        self.judged = bool(failure["judged"])


def command(python: str, *arguments: str) -> list[str]:
    """Return how the child is started; its folder does not become a place to import from."""
    return [python, "-P", str(CHILD), *arguments]


class HarborProcess:
    """One child. It ends when this object is let go of, or this process ends.

    Args:
        python: Harbor's interpreter.
        env: its variables.
        log: where what it prints goes.
    """

    def __init__(self, python: str, env: Mapping[str, str], log: Path) -> None:
        self._log = log
        folder = tempfile.mkdtemp(prefix="rlenv-harbor-")
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command(python, "serve", folder),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=dict(env),
                start_new_session=True,
            )
        self.close = weakref.finalize(self, _end, self._process, folder)
        self._lock = threading.Lock()
        self._number = 0
        self._messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(
            target=_read, args=(self._process, self._messages), name="rlenv-harbor", daemon=True
        ).start()

    def ask(
        self, what: str, request: Mapping[str, Any], serve: Serve, remaining: Callable[[], float | None]
    ) -> dict[str, Any]:
        """Have something done, serving the child's own requests meanwhile, and return what came of it.

        Args:
            what: a method of the child's ``Runner``.
            request: its arguments.
            serve: does what the child asks for, each time in a thread of its own.
            remaining: tells how many seconds are left; ``None`` is no limit.

        Raises:
            AgentTimedOut: none are left, or the box says so. The child is told to stop.
            ChildFailed: it raised.
            AgentFailed: the child is gone.
        """
        self._number += 1
        number = self._number
        self._send({**request, "do": what, "id": number})
        late: list[AgentTimedOut] = []
        while True:
            left = remaining()
            if late or left == 0.0:
                self._send({"do": "cancel"})
                raise late[0] if late else AgentTimedOut
            try:
                message = self._messages.get(timeout=_LOOK if left is None else min(left, _LOOK))
            except queue.Empty:
                continue
            if message is None:
                raise self._gone()
            if "call" in message:
                threading.Thread(target=self._serve, args=(message, serve, late), daemon=True).start()
            elif message.get("done") == number:
                if "failed" in message:
                    if late:
                        raise late[0]
                    raise ChildFailed(message["failed"])
                return dict(message["result"])

    def _serve(self, message: dict[str, Any], serve: Serve, late: list[AgentTimedOut]) -> None:
        answer: dict[str, Any] = {"answer": message["call"]}
        try:
            answer["result"] = serve(message["operation"], message["arguments"])
        except AgentTimedOut as error:
            late.append(error)
            answer["error"] = "the agent's time is up"
        except Exception as error:  # told to the agent, which asked for it
            answer["error"] = f"{type(error).__name__}: {error}"
        with contextlib.suppress(AgentFailed):
            self._send(answer)

    def _send(self, message: Mapping[str, Any]) -> None:
        stdin = self._process.stdin
        try:
            with self._lock:
                if stdin is not None:
                    stdin.write(json.dumps(message).encode() + b"\n")
                    stdin.flush()
        except (OSError, ValueError):
            raise self._gone() from None

    def _gone(self) -> AgentFailed:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_LOOK)
        return AgentFailed(
            f"Harbor's process ended under its agent (exit code {self._process.poll()})",
            hint=f"see {self._log.name} in the rollout's agent folder",
        )


def _read(process: subprocess.Popen[bytes], messages: queue.Queue[dict[str, Any] | None]) -> None:
    stdout = process.stdout
    while stdout is not None and (line := stdout.readline()):
        with contextlib.suppress(ValueError):
            messages.put(json.loads(line))
    messages.put(None)


def _end(process: subprocess.Popen[bytes], folder: str) -> None:
    """Kill the child and what it started, and remove its folder; its pipes are closed by then or now."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    shutil.rmtree(folder, ignore_errors=True)
