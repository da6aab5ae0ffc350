"""One box of namespaces: what the :class:`~pytest_rlenv.sandboxes.protocol.Box` protocol promises."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from pytest_rlenv.errors import SandboxFailed
from pytest_rlenv.sandboxes.local import transfer, tree
from pytest_rlenv.sandboxes.local.commands import Commands
from pytest_rlenv.sandboxes.local.entrypoint import Entrypoint
from pytest_rlenv.sandboxes.local.imageconfig import ImageConfig
from pytest_rlenv.sandboxes.local.launcher import Launcher
from pytest_rlenv.sandboxes.local.limits import Limits
from pytest_rlenv.sandboxes.local.namespace import Namespace
from pytest_rlenv.sandboxes.local.network import LocalNetwork
from pytest_rlenv.sandboxes.local.process import Process, common_fields, not_started
from pytest_rlenv.sandboxes.local.uses import Uses, counted
from pytest_rlenv.sandboxes.model import (
    DEFAULT_OUTPUT_CAP,
    PUBLIC,
    BoxSpec,
    Completed,
    Entry,
    Extracted,
    Stat,
)

_KILLED = 137
_DEATH_WAIT = 0.05
_STOPPED, _DESTROYED = "the box was stopped", "the box was destroyed"


class LocalBox:
    """A running box. Made by :class:`~pytest_rlenv.sandboxes.local.sandbox.LocalSandbox`.

    Args:
        name: its name, in it and outside.
        launcher: who starts its processes.
        namespace: where they run.
        spec: how it was asked for.
        image: what its image says of itself.
        limits: what its commands may use.
        discard: removes what is left of the box on this machine, once its processes have ended.
    """

    def __init__(
        self,
        name: str,
        launcher: Launcher,
        namespace: Namespace,
        spec: BoxSpec,
        image: ImageConfig,
        limits: Limits,
        discard: Callable[[LocalBox], None],
    ) -> None:
        self._name = name
        self._launcher = launcher
        self._namespace = namespace
        self._spec = spec
        self._image = image
        self._limits = limits
        self._discard = discard
        apart, mapped = spec.network != PUBLIC, namespace.has_user_namespace
        fields = common_fields(limits, user_namespace=mapped, network_namespace=apart)
        self._attendant = launcher.attend(fields, namespace.pidfd)
        self._network = LocalNetwork(spec)
        self._commands = Commands(name, namespace, spec, image, self._network)
        self._entrypoint: Entrypoint | None = None
        self._over = ""
        self._ending = threading.Lock()
        self.uses = Uses()

    @property
    def id(self) -> str:
        """The box's name."""
        return self._name

    @counted
    def put(self, entries: Iterable[Entry], dest: str = "/") -> None:
        """Write files and folders below ``dest`` as root; see :func:`~.transfer.put` for links in the box.

        Raises:
            SandboxFailed: the box is gone or refuses. DiskFull: no space left.
        """
        self._must_exist()
        transfer.put(self._namespace.root, entries, dest)

    @counted
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
        command leaves running and printing may do so into its output for a moment longer.

        Raises:
            SandboxFailed: the box died, or the command could not be started (no such command, user or
                working directory). EntrypointExited: the image's ENTRYPOINT ended too soon.
        """
        begin = time.monotonic()
        self._must_run()
        command = self._commands.make(argv, user=user, env=env, cwd=cwd)
        ooms = self._limits.out_of_memory()
        with closing(Process(self._attendant, self._launcher, command, cap)) as process:
            timed_out = not process.pump(None if timeout is None else begin + timeout)
            if timed_out:
                process.end(self._namespace.kill_all)
                self._after_kill()
            exit_code = None if timed_out else self._exit_code(process, user, cwd)
        if self._entrypoint is not None:
            self._entrypoint.check()
        return process.output.completed(
            exit_code,
            timed_out=timed_out,
            seconds=time.monotonic() - begin,
            oom_killed=self._limits.ran_out_of_memory(ooms),
        )

    @counted
    def stat(self, path: str) -> Stat | None:
        """Return what is at ``path`` without following a link there, ``None`` if nothing is.

        Raises:
            SandboxFailed: the box is gone.
        """
        self._must_exist()
        return transfer.stat(self._namespace.root, path)

    @counted
    def get(self, path: str, *, cap: int) -> bytes:
        """Return a regular file's bytes, at most ``cap`` of them; works on a stopped box too.

        Raises:
            SandboxFailed: there is no regular file of at most ``cap`` bytes at ``path``.
        """
        self._must_exist()
        return transfer.get(self._namespace.root, path, cap)

    @counted
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

        Links, devices and pipes are refused and listed. A missing ``path`` is empty.

        Raises:
            SandboxFailed: the box is gone. DiskFull: no space left here.
        """
        self._must_exist()
        return tree.get_tree(self._namespace.root, path, dest, cap=cap, max_files=max_files, skip=skip)

    def set_network(self, mode: str, allowed_hosts: Iterable[str] = ()) -> None:
        """Change what the box may reach, from now on; see :class:`~pytest_rlenv.sandboxes.protocol.Box`.

        Raises:
            Unsupported: the box was not made ready for the mode. ValueError: an allowed host cannot be read.
            SandboxFailed: the box is gone.
        """
        self._must_run()
        self._network.set(mode, allowed_hosts)

    def take_denied(self) -> dict[str, int]:
        """Return what an allowlist has refused since last asked, as ``host:port``, and how often."""
        return self._network.take_denied()

    @counted
    def quiesce(self) -> None:
        """Kill every process in the box but its keeper.

        Raises:
            SandboxFailed: the box died.
        """
        self._must_run()
        self._namespace.kill_all()
        self._after_kill()

    @counted
    def stop(self) -> None:
        """End all processes at once, keeping the files for :meth:`get`; a stopped box stays stopped.

        Raises:
            SandboxFailed: the box is gone.
        """
        self._must_exist()
        self._namespace.end()
        self._attendant.close()
        with self._ending:
            self._over = self._over or _STOPPED  # it may have been destroyed meanwhile

    def destroy(self) -> None:
        """Remove the box; never raises, and may be called twice."""
        with self._ending:
            if self._over == _DESTROYED:
                return
            self._over = _DESTROYED
        with contextlib.suppress(SandboxFailed):  # its files are removed from under what does not end
            self._namespace.end()
        self._network.close()
        self._attendant.close()
        if self._entrypoint is not None:
            self._entrypoint.close()
        self._discard(self)

    def release(self) -> None:
        """Let go of the box's files and control group; the sandbox does that with a destroyed box."""
        if self.uses.wait():  # else its descriptors stay open, as somebody is about to use their numbers
            self._namespace.close()
        self._limits.close()

    @counted
    def check_user(self) -> None:
        """Raise BoxUnfit if the image's USER is not in it, for the sandbox that starts the box."""
        self._commands.user(self._image.user)

    def open_gate(self) -> None:
        """Open the box's gate to allowed hosts, if it may need one, for the sandbox that starts the box."""
        self._network.open(self._attendant)

    @counted
    def start_entrypoint(self, log: Path) -> None:
        """Run the image's ENTRYPOINT, if there is one, for the sandbox that starts the box."""
        if not self._image.entrypoint:
            return
        entrypoint = Entrypoint(
            self._attendant,
            self._launcher,
            self._namespace,
            self._image.entrypoint,
            self._spec.lifetime,
            lambda argv: self._commands.make(argv, cwd=self._image.workdir),
            log,
        )
        self._entrypoint = entrypoint
        entrypoint.start()

    def _exit_code(self, process: Process, user: str | int | None, cwd: str | None) -> int:
        result = process.result()
        if result is None or result[1] == _KILLED or result[0] in ("setns", "fork"):
            self._raise_if_dying()
        if result is None:
            raise SandboxFailed(
                "a command could not be started: the machine has no process or memory left",
                hint="run fewer rollouts at once",
            )
        step, number = result
        if step:
            raise not_started(step, number, process.command, user, cwd or self._spec.workdir)
        return number

    def _after_kill(self) -> None:
        if self._entrypoint is not None:
            self._entrypoint.after_kill()

    def _raise_if_dying(self) -> None:
        """Tell a command that was killed from a box that was: in that one nothing can be started any more."""
        if self._namespace.is_dead(_DEATH_WAIT) or not self._namespace.can_start_processes():
            raise self._died()

    def _must_exist(self) -> None:
        if self._over == _DESTROYED:
            raise SandboxFailed(f"{self._over} before this")

    def _must_run(self) -> None:
        if self._over:
            raise SandboxFailed(f"{self._over} before this")
        if self._namespace.is_dead():
            raise self._died()
        if self._entrypoint is not None:
            self._entrypoint.check()

    def _died(self) -> SandboxFailed:
        if self._over:
            return SandboxFailed(f"{self._over} meanwhile")
        return self._namespace.cause_of_death()
