"""One box's attendant: it enters the box once and starts commands there, until its owner lets go.

It is in the box's namespaces, but for the one of process ids: nothing in the box can see or signal it. It
takes on what all commands of the box have in common, so that most of them can be started in the cheapest
way there is, without copying this process.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import select
import signal
import socket
import stat

TYPE_CHECKING = False  # as in `_launcher.py`
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

    from pytest_rlenv.sandboxes.local import _launcher as launcher
else:
    import _launcher as launcher

_PR_SET_SECCOMP, _PR_CAPBSET_READ, _PR_CAPBSET_DROP = 22, 23, 24
_PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 38, 47, 4
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION = 0x20080522


class _SockFprog(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


class Attendant:
    """Serves one box.

    Args:
        fields: what all commands of the box have in common.
        pidfd: the box's first process.
        link: descriptor of the socket that commands come through.
        ignored: the signals that this process ignores, and commands do not.
    """

    def __init__(self, fields: dict[str, Any], pidfd: int, link: int, ignored: Sequence[int]) -> None:
        self._link = socket.socket(fileno=link)
        self._statuses: dict[int, int] = {}
        self._null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._failure: launcher.StepFailed | None = None
        self._groups: list[int] = []
        self._ignored = ignored
        try:
            self._take_on(fields, pidfd)
        except launcher.StepFailed as failed:
            self._failure = failed  # told to whoever wants a command
        except OSError as error:
            self._failure = launcher.StepFailed("set-up", error.errno or 0)
        os.close(pidfd)

    def run(self) -> None:
        """Serve until the owner closes the socket."""
        wake, wake_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._link, select.POLLIN)
        poll.register(wake, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == wake:
                    os.read(wake, 4096)
                    self._reap()
                else:
                    kind, fields, fds = launcher.receive(self._link)
                    if not kind:
                        return
                    if kind == launcher.LISTEN:
                        self._listen(fields["port"], fds[0])
                    else:
                        self._start(fields, fds)

    def _take_on(self, fields: dict[str, Any], pidfd: int) -> None:
        for path in fields["cgroups"]:
            with open(path, "wb", buffering=0) as file:  # noqa: PTH123 - pathlib takes long to import
                file.write(b"0")
        # these are for commands only; their files are outside of the box
        self._groups = [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in fields["command_cgroups"]]
        which = launcher.NAMESPACES | (launcher.CLONE_NEWNET if fields["network_namespace"] else 0)
        launcher.enter(pidfd, which, user_namespace=fields["user_namespace"])
        os.umask(0o022)
        for which, limit in fields["rlimits"]:
            hard = resource.getrlimit(which)[1]
            limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.setrlimit(which, (limit, limit))
        _bound_capabilities(fields["capabilities"])
        launcher.prctl("no-new-privileges", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if fields["seccomp"]:
            program = fields["seccomp"]
            wanted = ctypes.byref(_SockFprog(len(program) // 8, program))
            launcher.prctl("seccomp", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, wanted, 0, 0)

    def _listen(self, port: int, link: int) -> None:
        """Make a listening socket on the box's loopback and send it through a Unix socket; close that."""
        # if it fails, the owner sees that nothing comes
        with socket.socket(fileno=link) as to, socket.socket() as made, contextlib.suppress(OSError):
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(("127.0.0.1", port))
            made.listen(128)
            socket.send_fds(to, [b"l"], [made.fileno()])

    def _start(self, fields: dict[str, Any], fds: list[int]) -> None:
        """Start a command: descriptors are its stdout, its stderr and the status."""
        out, err, status = fds
        try:
            if self._failure:
                raise self._failure
            child = self._command(fields, out, err, status)
        except launcher.StepFailed as failed:
            os.write(status, failed.line())
            os.close(status)
        else:
            self._statuses[child] = status
        os.close(out)
        os.close(err)

    def _command(self, fields: dict[str, Any], out: int, err: int, status: int) -> int:
        try:
            os.chdir(fields["cwd"])
        except OSError as error:
            raise launcher.StepFailed("cwd", error.errno or 0) from None
        path = _find(fields["argv"][0], fields["env"])
        if fields["groups"] is None and not self._groups:
            return self._spawn(path, fields, out, err)
        return self._fork(path, fields, out, err, status)

    def _spawn(self, path: bytes, fields: dict[str, Any], out: int, err: int) -> int:
        actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate((self._null, out, err))]
        try:
            return os.posix_spawn(
                path,
                fields["argv"],
                fields["env"],
                file_actions=actions,
                setsid=True,
                setsigmask=(),
                setsigdef=self._ignored,
            )
        except OSError as error:
            raise _not_executed(path, error) from None

    def _fork(self, path: bytes, fields: dict[str, Any], out: int, err: int, status: int) -> int:
        """Start a command that has to change itself first: another user, a control group of its own."""
        try:
            child = os.fork()
        except OSError as error:
            raise launcher.StepFailed("fork", error.errno or 0) from None
        if child == 0:
            self._become(path, fields, (self._null, out, err), status)
        return child

    def _become(self, path: bytes, fields: dict[str, Any], fds: tuple[int, ...], status: int) -> NoReturn:
        step = "set-up"
        try:
            os.setsid()
            for number, fd in enumerate(fds):
                os.dup2(fd, number)
            step = "cgroup"
            for fd in self._groups:
                os.write(fd, b"0")
            if fields["groups"] is not None:
                step = "user"
                os.setgroups(fields["groups"])
                os.setresgid(fields["gid"], fields["gid"], fields["gid"])
                os.setresuid(fields["uid"], fields["uid"], fields["uid"])
            launcher.default_signals(self._ignored)
            step = ""
            os.execve(path, fields["argv"], fields["env"])
        except OSError as error:
            failed = launcher.StepFailed(step, error.errno or 0) if step else _not_executed(path, error)
            os.write(status, failed.line())
        finally:
            os._exit(126)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, ended = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                status = self._statuses.pop(pid, None)
                if status is not None:
                    with contextlib.suppress(OSError):  # nobody waits for it any more
                        os.write(status, b"X %d\n" % launcher.exit_code(ended))
                    os.close(status)


def _bound_capabilities(keep: int) -> None:
    """Let no program that is started from here have another capability than those of the mask."""
    number = 0
    while launcher.libc.prctl(_PR_CAPBSET_READ, number, 0, 0, 0) >= 0:  # ends at the kernel's last one
        if not keep >> number & 1:
            launcher.prctl("capabilities", _PR_CAPBSET_DROP, number, 0, 0, 0)
        number += 1
    launcher.prctl("capabilities", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    data = (ctypes.c_uint32 * 6)()
    launcher.check("capabilities", launcher.libc.capget(header, data))
    data[2] = data[5] = 0  # inheritable: a program would get those, too
    launcher.check("capabilities", launcher.libc.capset(header, data))


def _find(command: bytes, env: dict[bytes, bytes]) -> bytes:
    """Return the file of a command, as the box's PATH has it."""
    if b"/" in command:
        return command
    found = errno.ENOENT
    for folder in env.get(b"PATH", b"").split(b":"):
        path = (folder or b".") + b"/" + command
        try:
            mode = os.stat(path).st_mode  # noqa: PTH116 - pathlib takes long to import
        except OSError:
            continue
        if stat.S_ISREG(mode) and os.access(path, os.X_OK):
            return path
        found = errno.EACCES
    raise launcher.StepFailed("exec", found)


def _not_executed(path: bytes, error: OSError) -> launcher.StepFailed:
    """Return why a program did not start."""
    if error.errno in (errno.EAGAIN, errno.ENOMEM):
        return launcher.StepFailed("fork", error.errno)
    if error.errno == errno.ENOENT and os.access(path, os.F_OK):
        return launcher.StepFailed("interpreter", errno.ENOENT)
    return launcher.StepFailed("exec", error.errno or 0)
