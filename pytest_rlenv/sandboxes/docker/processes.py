"""The processes of a box: one to start, all to kill, and the proof that any can still be started."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext

from pytest_rlenv.errors import RlenvError, SandboxFailed
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.exec import Exec
from pytest_rlenv.sandboxes.docker.failures import EngineRefused
from pytest_rlenv.sandboxes.docker.postmortem import ImageFacts, cause_of_death
from pytest_rlenv.sandboxes.docker.removal import kill_container

KILL_LIMIT = 10.0
"""Seconds that killing all processes from inside may take, before the container is killed instead."""

_DEATH_LIMIT = 5.0
"""Seconds that a killed command may take to be gone."""
KILLED = 137
"""The exit code of a command that was killed, or whose box was."""

_SETTLE = 0.5
_PROBE = ("sh", "-c", ":")
_KILL = ("sh", "-c", "kill -9 -1")
_KILL_TRIES = 3
_KILL_PAUSE = 0.1
_KILL_OUTPUT = 4096


class Processes:
    """What runs in one container.

    Args:
        engine: where it is.
        container: its id.
        image: what its image says about itself.
        start_again: starts the container that was killed.
    """

    def __init__(
        self, engine: Engine, container: str, image: ImageFacts, start_again: Callable[[], None]
    ) -> None:
        self._engine = engine
        self._start_container = start_again
        self._container = container
        self._image = image
        self._killed_all = False

    def open(
        self,
        argv: Sequence[str],
        *,
        user: str | int | None,
        env: Mapping[str, str] | None,
        workdir: str | None,
        cap: int,
    ) -> Exec:
        """Start a command; see :class:`~pytest_rlenv.sandboxes.docker.exec.Exec`."""
        for last in (False, True):
            try:
                return Exec(self._engine, self._container, argv, user=user, env=env, workdir=workdir, cap=cap)
            except EngineRefused as refused:
                # died of our own killing, later than _settle() looked for
                if last or not (self._killed_all and refused.not_running):
                    raise
                self._start_container()
        raise AssertionError("unreachable")

    def proved_alive(self) -> None:
        """Take note that a command ended by itself: what dies from now on is not of our killing."""
        self._killed_all = False

    def cause_of_death(self) -> RlenvError | None:
        """Return the error that says why the container is not running; ``None`` if it is."""
        return cause_of_death(self._engine, self._container, self._image)

    def raise_if_dead(self) -> None:
        """Tell a command that was killed from a box that was.

        The engine notices the end of a command before that of PID 1, which took it along; but nothing can
        be started any more in a box whose PID 1 is gone, so a command that does is the proof of life.
        """
        give_up = time.monotonic() + _DEATH_LIMIT
        while time.monotonic() < give_up:
            died = self.cause_of_death()
            if died:
                raise died
            with contextlib.suppress(EngineRefused):
                probe = Exec(self._engine, self._container, _PROBE, workdir="/", user=0, cap=_KILL_OUTPUT)
                with closing(probe):
                    if probe.pump(give_up) and probe.result() == (0, True):
                        return
            time.sleep(_KILL_PAUSE)

    def kill_all(self, command: Exec | None = None) -> None:
        """Kill all processes but PID 1, from inside: ``kill -1`` cannot be outrun by forking.

        Where that does not work (no process ids left for it, a shell that was replaced) the container is
        killed and started again, which keeps its files.
        """
        with command.drained() if command else nullcontext():
            killed = self._kill_from_inside()
        self._killed_all = True
        if not (killed and self._is_over(command)):
            with command.drained() if command else nullcontext():
                kill_container(self._engine, self._container)
                self._start_container()
            if not self._is_over(command):
                raise SandboxFailed("a command outlived its box: the engine does not end it")
        elif self._image.may_end:
            self._settle()

    def _settle(self) -> None:
        """Start the box again if its ENTRYPOINT ends now that the command it waited for was killed.

        A script that becomes its command (``exec "$@"``) is PID 1 and was spared; one that runs it as a
        child ends with it, and the engine needs a moment to notice.
        """
        give_up = time.monotonic() + _SETTLE
        while time.monotonic() < give_up:
            if self.cause_of_death():
                self._start_container()
                return
            time.sleep(_SETTLE / 10)

    def _kill_from_inside(self) -> bool:
        """Return True once all is killed; a box without a free process id may take more than one try."""
        for _ in range(_KILL_TRIES):
            try:
                command = self.open(_KILL, user="0:0", env=None, workdir="/", cap=_KILL_OUTPUT)
                with closing(command):
                    if not command.pump(time.monotonic() + KILL_LIMIT):
                        return False
                    exit_code, started = command.result()
            except EngineRefused as refused:
                if refused.status == 404 or refused.not_running:
                    raise
                started = False
            if started:
                # 1: there was nothing to kill; 137: killed by another thread that does the same
                return exit_code in (0, 1, KILLED)
            time.sleep(_KILL_PAUSE)
        return False

    def _is_over(self, command: Exec | None) -> bool:
        return command is None or command.pump(time.monotonic() + _DEATH_LIMIT)
