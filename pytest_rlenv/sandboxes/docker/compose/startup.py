"""Starts services in the order of their dependencies, and waits until all are up, as ``up --wait`` does.

Ours, as Compose looks at what it waits for only twice a second, and says less of what went wrong.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_rlenv.errors import BoxUnfit, RlenvError, Stage
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.compose.model import MAIN, Model
from pytest_rlenv.sandboxes.docker.failures import EngineRefused
from pytest_rlenv.sandboxes.docker.health import probe_results
from pytest_rlenv.sandboxes.docker.postmortem import inspect, start_refused, tail_of_log
from pytest_rlenv.sandboxes.docker.processes import KILLED

HEALTHY, DONE, STARTED = "service_healthy", "service_completed_successfully", "service_started"

SETTLE = 0.5
"""Seconds that a service without a health check has to stay up before it counts as up, as with Compose."""

_POLL = 0.05
_SHARED = ("network_mode", "ipc", "pid")


@dataclass(frozen=True)
class _State:
    status: str
    exit_code: int
    health: Mapping[str, Any]

    @property
    def has_ended(self) -> bool:
        return self.status in ("exited", "dead")

    @property
    def health_status(self) -> str:
        return str(self.health.get("Status") or "none")


class Startup:
    """The start of one project.

    Args:
        engine: where it is.
        services: the services as in the model.
        containers: their containers.
        start: starts one; raises EngineRefused if the engine refuses.
        steady: services of ours, which are up once they are started.
        deadline: a time of :func:`time.monotonic`.
    """

    def __init__(
        self,
        engine: Engine,
        services: Mapping[str, Model],
        containers: Mapping[str, str],
        start: Callable[[str], None],
        *,
        steady: Collection[str] = (),
        deadline: float,
    ) -> None:
        self._engine = engine
        self._containers = containers
        self._needs = {
            name: {need: how for need, how in _needs(services[name]) if need in containers}
            for name in containers
        }
        self._start_one = start
        self._steady = steady
        self._since: dict[str, float] = {}
        self._deadline = deadline

    def run(self) -> None:
        """Start everything.

        Raises:
            BoxUnfit: a service ended, is unhealthy, or was not up in time; with the tail of its log.
            SandboxFailed: the engine refuses.
        """
        waiting = list(self._needs)
        up: list[str] = []
        while waiting:
            ready = [name for name in waiting if self._may_start(name, up)]
            for name in ready:
                self._start(name)
                up.append(name)
                waiting.remove(name)
            if waiting and not ready:
                self._pause(self._blockers(waiting, up))
        while missing := [name for name in up if not self._is_up(name, may_end=name != MAIN)]:
            self._pause(missing)

    def _may_start(self, name: str, up: list[str]) -> bool:
        """True if all that a service needs is there; those that do not matter need only have been started."""
        return all(need in up and self._holds(need, how) for need, how in self._needs[name].items())

    def _blockers(self, waiting: list[str], up: list[str]) -> list[str]:
        """Return what is waited for.

        Raises:
            BoxUnfit: services wait for each other.
        """
        blockers = [need for name in waiting for need in self._needs[name] if need in up]
        if not blockers:
            raise BoxUnfit(f"services wait for each other: {', '.join(waiting)}", stage=Stage.START)
        return list(dict.fromkeys(blockers))

    def _holds(self, name: str, condition: str) -> bool:
        """True if a started service is as another one needs it.

        Raises:
            BoxUnfit: it will never be.
        """
        if condition == STARTED:
            return True
        state = self._state(name)
        if condition == DONE:
            if state.has_ended and state.exit_code:
                raise self._failure(name, f"ended with exit code {state.exit_code}")
            return state.has_ended
        if state.health_status == "none" and not state.has_ended:
            raise BoxUnfit(
                f"service {name!r} has no healthcheck, but another one waits for it to be healthy",
                stage=Stage.START,
            )
        return self._is_up(name, may_end=False, state=state)

    def _is_up(self, name: str, *, may_end: bool, state: _State | None = None) -> bool:
        """True if a service runs and is not known to be sick, or has ended well where that is all right.

        One that does its work and ends is all right, though ``up --wait`` fails for it if it is quick.

        Raises:
            BoxUnfit: it never will.
        """
        state = state or self._state(name)
        if state.has_ended:
            if state.exit_code == 0 and may_end:
                return True
            raise self._failure(name, f"ended with exit code {state.exit_code}")
        if state.health_status == "unhealthy":
            raise self._failure(name, "is unhealthy", state)
        if state.health_status == "none" and name not in self._steady:
            return state.status == "running" and time.monotonic() - self._since[name] >= SETTLE
        return state.status == "running" and state.health_status in ("none", "healthy")

    def _start(self, name: str) -> None:
        try:
            self._start_one(name)
            self._since[name] = time.monotonic()
        except EngineRefused as refused:
            error = start_refused(refused)
            message = f"service {name!r}: {error.message}"
            raise type(error)(message, hint=error.hint, detail=error.detail, stage=Stage.START) from refused

    def _pause(self, awaited: list[str]) -> None:
        """Wait a little.

        Raises:
            BoxUnfit: time is up.
        """
        if time.monotonic() >= self._deadline:
            name = awaited[0]
            state = self._state(name)
            how = "running" if state.health_status == "none" else "healthy"
            raise self._failure(name, f"was not {how} within the start's time limit ({state.status})", state)
        time.sleep(_POLL)

    def _state(self, name: str) -> _State:
        found = (inspect(self._engine, self._containers[name]) or {}).get("State")
        if not found:
            return _State("dead", KILLED, {})  # somebody has removed it
        return _State(found["Status"], int(found.get("ExitCode") or 0), found.get("Health") or {})

    def _failure(self, name: str, what: str, state: _State | None = None) -> RlenvError:
        log = tail_of_log(self._engine, self._containers[name])
        parts = [*probe_results(state.health if state else {}), f"log of {name}:", log or "(empty)"]
        return BoxUnfit(
            f"service {name!r} {what}",
            hint="the end of its log is below",
            detail="\n".join(parts),
            stage=Stage.START,
        )


def _needs(service: Model) -> Iterator[tuple[str, str]]:
    """Yield what a service needs to be there first, and how."""
    for field in _SHARED:
        kind, _, name = str(service.get(field) or "").partition(":")
        if kind == "service":
            yield name, STARTED
    for other in service.get("volumes_from") or ():
        if not str(other).startswith("container:"):
            yield str(other).partition(":")[0], STARTED
    for link in service.get("links") or ():
        yield str(link).partition(":")[0], STARTED
    for name, need in (service.get("depends_on") or {}).items():
        if need.get("required", True):
            yield name, str(need.get("condition") or STARTED)
