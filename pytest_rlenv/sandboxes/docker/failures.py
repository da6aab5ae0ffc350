"""What a broken connection or a refusal of the engine means, and what to do about it."""

from __future__ import annotations

import http.client
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_rlenv.disk import CURE, says_full
from pytest_rlenv.errors import DiskFull, EngineUnavailable, RlenvError, SandboxFailed, Stage
from pytest_rlenv.sandboxes.docker.endpoint import DEFAULT_URL, Endpoint

_BROKEN = (
    ("requests.exceptions", "RequestException"),
    ("urllib3.exceptions", "HTTPError"),
    ("docker.errors", "DockerException"),
)
_TIMEOUTS = (("requests.exceptions", "Timeout"), ("urllib3.exceptions", "TimeoutError"))


class EngineRefused(Exception):
    """The engine answered a request with an error; never leaves this package.

    Args:
        status: the HTTP status.
        message: the engine's own words.
        doing: what was asked of it.
    """

    def __init__(self, status: int, message: str, doing: str) -> None:
        super().__init__(f"cannot {doing}: {message}")
        self.status = status
        self.message = message
        self.doing = doing

    @property
    def disk_full(self) -> bool:
        """True when the engine, or the box, has no space left."""
        return says_full(self.message)

    @property
    def not_running(self) -> bool:
        """True when the request needs a running container and this one is not."""
        # 409 for a command that is made, 500 for one that is started by then
        return self.status in (409, 500) and "is not running" in self.message

    def as_error(self, stage: Stage | None = None) -> RlenvError:
        """Return the error that callers see."""
        if self.disk_full:
            return engine_full(self.doing, self.message, stage)
        return SandboxFailed(f"cannot {self.doing}: the engine says: {self.message}", stage=stage)


def engine_full(doing: str, text: str, stage: Stage | None = None) -> DiskFull:
    """Return the error for a disk that the engine found full."""
    return DiskFull(
        f"cannot {doing}: no space left on the engine's disk", hint=CURE, detail=text, stage=stage
    )


@contextmanager
def refusals_as_errors(stage: Stage | None = None) -> Iterator[None]:
    """Turn refusals of the engine that nobody expected into errors for callers."""
    try:
        yield
    except EngineRefused as refused:
        raise refused.as_error(stage) from refused


@contextmanager
def connection_errors(endpoint: Endpoint, doing: str) -> Iterator[None]:
    """Turn everything that can break between here and the engine into EngineUnavailable."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, (OSError, http.client.HTTPException, *_of_loaded(_BROKEN))):
            raise
        raise unavailable(endpoint, doing, error) from error


def unavailable(endpoint: Endpoint, doing: str, error: BaseException) -> EngineUnavailable:
    """Return the error for an engine that cannot be reached, with the fix for its cause."""
    where = f"the Docker engine at {endpoint}"
    start = "start it (`sudo systemctl start docker`, or Docker Desktop)"
    for cause in _causes(error):
        if isinstance(cause, FileNotFoundError):
            return EngineUnavailable(
                f"{where} is not there: no such socket", hint=f"{start}{_other_sockets()}"
            )
        if isinstance(cause, PermissionError):
            return EngineUnavailable(
                f"{where} may not be used by this user: permission denied",
                hint="`sudo usermod -aG docker $USER`, then log in again; `docker info` must work",
            )
        if isinstance(cause, ConnectionRefusedError):
            return EngineUnavailable(f"{where} refuses connections: nothing listens there", hint=start)
        if _is_timeout(cause):
            return EngineUnavailable(
                f"{where} does not answer (trying to {doing})",
                hint="it hangs or is overloaded: `docker info`; restart it (`sudo systemctl restart docker`)",
            )
    root = list(_causes(error))[-1]
    return EngineUnavailable(
        f"the connection to {where} broke (trying to {doing}): {type(root).__name__}: {root}",
        hint="did the engine stop or restart? `docker info` tells",
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what it wraps, outermost first: HTTP libraries hide causes in ``args`` too."""
    seen: set[int] = set()
    todo: list[BaseException] = [error]
    while todo:
        current = todo.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        inner = [current.__cause__, current.__context__, getattr(current, "reason", None), *current.args]
        todo.extend(each for each in inner if isinstance(each, BaseException))


def _is_timeout(error: BaseException) -> bool:
    return isinstance(error, (TimeoutError, *_of_loaded(_TIMEOUTS)))


def _of_loaded(names: Iterable[tuple[str, str]]) -> tuple[type[BaseException], ...]:
    """Return exceptions of libraries that are loaded: the others cannot have raised theirs.

    Nor can one that another thread is just loading: it may stand in ``sys.modules`` without its names.
    """
    found = (getattr(sys.modules.get(module), name, None) for module, name in names)
    return tuple(each for each in found if each is not None)


def _other_sockets() -> str:
    """Return a hint at engines that are here, but not where we looked."""
    home = Path.home()
    places = [
        Path(DEFAULT_URL[len("unix://") :]),
        Path(os.environ.get("XDG_RUNTIME_DIR", "/nonexistent")) / "docker.sock",
        home / ".docker" / "run" / "docker.sock",
        home / ".docker" / "desktop" / "docker.sock",
        home / ".colima" / "default" / "docker.sock",
        home / ".orbstack" / "run" / "docker.sock",
    ]
    found = [place for place in places if _is_socket(place)]
    return f", or use the one that is here: DOCKER_HOST=unix://{found[0]}" if found else ""


def _is_socket(path: Path) -> bool:
    try:
        return path.is_socket()
    except OSError:
        return False
