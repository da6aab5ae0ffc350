"""One container as a box: what the :class:`~pytest_rlenv.sandboxes.protocol.Box` protocol promises."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from pytest_rlenv.errors import SandboxFailed, Unsupported
from pytest_rlenv.sandboxes.commands import check_command
from pytest_rlenv.sandboxes.docker import archive, fetch
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.exec import Exec
from pytest_rlenv.sandboxes.docker.failures import EngineRefused
from pytest_rlenv.sandboxes.docker.networks import BoxNetwork
from pytest_rlenv.sandboxes.docker.oom import OomWatch
from pytest_rlenv.sandboxes.docker.postmortem import ImageFacts
from pytest_rlenv.sandboxes.docker.processes import KILLED, Processes
from pytest_rlenv.sandboxes.docker.refusals import execve_failure, is_refusal, not_started
from pytest_rlenv.sandboxes.docker.removal import kill_container
from pytest_rlenv.sandboxes.docker.stamps import Stamps
from pytest_rlenv.sandboxes.docker.storage import box_refused
from pytest_rlenv.sandboxes.model import DEFAULT_OUTPUT_CAP, BoxSpec, Completed, Entry, Extracted, Stat

_OOM_WAIT = 0.3


class DockerBox:
    """A running container. Made by :class:`~pytest_rlenv.sandboxes.docker.sandbox.DockerSandbox`.

    Args:
        engine: where it runs.
        container: its id.
        spec: how it was asked for.
        image: what its image says about itself.
        oom: who knows whether it ran out of memory.
        discard: removes a container, perhaps in the background; told whether it is stopped.
        network: what it reaches; ``None`` if that never changes.
        stamps: the folders that it had empty from its start.
    """

    def __init__(
        self,
        engine: Engine,
        container: str,
        spec: BoxSpec,
        image: ImageFacts,
        oom: OomWatch,
        discard: Callable[[str, bool], None],
        network: BoxNetwork | None = None,
        stamps: Stamps | None = None,
    ) -> None:
        self._engine = engine
        self._container = container
        self._spec = spec
        self._network = network or BoxNetwork(engine, spec, None)
        self._processes = Processes(engine, container, image, self._start_again)
        self._oom = oom
        self._discard = discard
        self._stamps = stamps or Stamps()
        self._over = ""

    @property
    def id(self) -> str:
        """The container's id."""
        return self._container

    def put(self, entries: Iterable[Entry], dest: str = "/") -> None:
        """Write files and folders below ``dest`` as root; see :func:`~.archive.put` for links in the box.

        Raises:
            SandboxFailed: the box is gone or refuses. DiskFull: no space left. EngineUnavailable.
        """
        with self._operation(stopped_is_fine=True):
            archive.put(self._engine, self._container, self._stamps.forget(entries, dest), dest)

    def run(
        self,
        argv: Sequence[str],
        *,
        user: str | int | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        cap: int = DEFAULT_OUTPUT_CAP,
    ) -> Completed:
        """Run a command to its end and return how it ended; stdin is empty.

        A stream longer than ``cap`` has a line in its middle that says how much was left out. What a
        command leaves running may hold its output open for 2 more seconds; the engine cuts it then.

        Raises:
            SandboxFailed: the box died, or the command could not be started (no such command, user or
                working directory). EntrypointExited: the image's ENTRYPOINT ended. EngineUnavailable.
        """
        begin = time.monotonic()
        cwd = cwd or self._spec.workdir
        env = {**self._network.variables(), **(env or {})}
        check_command(argv, env, cwd)
        with self._operation():
            ooms = self._oom.count(self._container) if self._spec.memory_mb is not None else None
            try:
                command = self._processes.open(argv, user=user, env=env, workdir=cwd, cap=cap)
            except EngineRefused as refused:
                # newer engines say so in their answer, older ones in the command's output
                if not is_refusal(refused.message):
                    raise
                raise not_started(refused.message.encode(), argv, user=user, cwd=cwd) from refused
            with closing(command):
                timed_out = not command.pump(None if timeout is None else begin + timeout)
                if timed_out:
                    self._processes.kill_all(command)
                exit_code = None if timed_out else self._exit_code(command, user, cwd)
            wait = _OOM_WAIT if exit_code == KILLED else 0.0
            return command.output.completed(
                exit_code,
                timed_out=timed_out,
                seconds=time.monotonic() - begin,
                oom_killed=self._oom.happened(self._container, ooms, wait=wait),
            )

    def stat(self, path: str) -> Stat | None:
        """Return what is at ``path`` without following a link there, ``None`` if nothing is.

        Raises:
            SandboxFailed: the box is gone. EngineUnavailable.
        """
        with self._operation(stopped_is_fine=True):
            return fetch.stat(self._engine, self._container, path)

    def get(self, path: str, *, cap: int) -> bytes:
        """Return a regular file's bytes, at most ``cap`` of them; works on a stopped box too.

        Raises:
            SandboxFailed: there is no regular file of at most ``cap`` bytes at ``path``. EngineUnavailable.
        """
        with self._operation(stopped_is_fine=True):
            return fetch.get(self._engine, self._container, path, cap)

    def get_tree(
        self,
        path: str,
        dest: Path,
        *,
        cap: int,
        max_files: int = 10_000,
        skip: Callable[[str], bool] | None = None,
    ) -> Extracted:
        """Copy the regular files below ``path`` into ``dest``, up to ``cap`` bytes; works when stopped too.

        Links, devices and names that leave ``dest`` are refused and listed. A missing ``path`` is empty. A
        hard link is a copy of the file, where that is below ``path`` too.

        Raises:
            SandboxFailed: the box is gone. DiskFull: no space left here. EngineUnavailable.
        """
        with self._operation(stopped_is_fine=True):
            if self._stamps.knows(path):
                found = fetch.stat(self._engine, self._container, path)
                if found is not None and self._stamps.unchanged(path, found):
                    return _empty(found, dest)
            return fetch.get_tree(
                self._engine, self._container, path, dest, cap=cap, max_files=max_files, skip=skip
            )

    def set_network(self, mode: str, allowed_hosts: Iterable[str] = ()) -> None:
        """Change what the box may reach, from now on; see :class:`~pytest_rlenv.sandboxes.protocol.Box`.

        Raises:
            Unsupported: the box was not made ready for the mode. ValueError: an allowed host cannot be read.
            SandboxFailed: the box is gone, or the change could not be made; then the box cannot be used any
                more. EngineUnavailable.
        """
        with self._operation():
            try:
                self._network.set(mode, allowed_hosts)
            except (Unsupported, ValueError):
                raise
            except Exception:
                self._over = "the box's network could not be changed"
                raise

    def take_denied(self) -> dict[str, int]:
        """Return the hosts that an allowlist has refused since last asked, and how often."""
        return self._network.take_denied()

    def quiesce(self) -> None:
        """Kill every process in the box but its keeper.

        Raises:
            SandboxFailed, EntrypointExited: the box died. EngineUnavailable.
        """
        with self._operation():
            self._processes.kill_all()

    def stop(self) -> None:
        """End all processes at once, keeping the files for :meth:`get`; a stopped box stays stopped.

        Raises:
            SandboxFailed: the box is gone. EngineUnavailable.
        """
        with self._operation(stopped_is_fine=True):
            kill_container(self._engine, self._container)
            self._over = self._over or "the box was stopped"  # it may have been destroyed meanwhile

    def destroy(self) -> None:
        """Remove the box, in the background; never raises, and may be called twice."""
        if self._over != "the box was destroyed":
            stopped, self._over = self._over == "the box was stopped", "the box was destroyed"
            self._network.close()
            self._discard(self._container, stopped)

    def _start_again(self) -> None:
        def look() -> None:
            died = self._processes.cause_of_death()
            if died:
                raise died

        self._network.start(self._container, look, again=True)

    @contextmanager
    def _operation(self, *, stopped_is_fine: bool = False) -> Iterator[None]:
        """Turn refusals by the engine into errors that say what became of the box."""
        if self._over and not (stopped_is_fine and self._over == "the box was stopped"):
            raise SandboxFailed(f"{self._over} before this")
        try:
            yield
        except EngineRefused as refused:
            died = None
            if refused.not_running or refused.status == 404:
                died = self._processes.cause_of_death()
            raise died or box_refused(self._engine, refused) from refused

    def _exit_code(self, command: Exec, user: str | int | None, cwd: str | None) -> int:
        exit_code, started = command.result()
        printed = command.output
        if not started or exit_code == KILLED:
            self._processes.raise_if_dead()
        if not started:
            raise not_started(printed.both.value(), command.argv, user=user, cwd=cwd)
        failure = execve_failure(printed.stdout.value(), printed.stderr.value(), exit_code, command.argv)
        if failure:
            raise failure
        self._processes.proved_alive()
        return exit_code


def _empty(found: Stat, dest: Path) -> Extracted:
    """Return what is got from an empty folder; its owner is taken to be whom we gave it to."""
    dest.mkdir(parents=True, exist_ok=True)
    return Extracted(entries=[Entry("", mode=found.mode, mtime=found.mtime or 0)])
