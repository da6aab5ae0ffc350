"""The order in which services start, and what is waited for, on scripted states of containers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from pytest_rlenv.errors import BoxUnfit
from pytest_rlenv.sandboxes.docker.compose import startup
from pytest_rlenv.sandboxes.docker.compose.startup import Startup
from pytest_rlenv.sandboxes.docker.failures import EngineRefused

UP = {"Status": "running"}
ENDED = {"Status": "exited", "ExitCode": 0}
FAILED = {"Status": "exited", "ExitCode": 3}
AGAIN = {"Status": "restarting", "ExitCode": 1}


def health(status: str) -> dict[str, Any]:
    return {"Status": "running", "Health": {"Status": status, "Log": [{"ExitCode": 1, "Output": "probed"}]}}


Run = Callable[..., list[str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Start services whose states are given one after the other, the last for good; return the order."""

    def run(services: dict[str, Any], limit: float = 30.0, **states: list[Any]) -> list[str]:
        order: list[str] = []
        left = {name: list(states.get(name, [UP])) for name in services}

        def inspect(_: object, name: str) -> Any:
            assert name in order, f"{name} is looked at before it is started"
            state = left[name].pop(0) if len(left[name]) > 1 else left[name][0]
            return {"State": state} if state else None

        monkeypatch.setattr(startup, "inspect", inspect)
        monkeypatch.setattr(startup, "tail_of_log", lambda _, name: f"said by {name}")
        monkeypatch.setattr(startup, "SETTLE", 0.0)
        monkeypatch.setattr(startup, "_POLL", 0.001)
        engine: Any = None
        deadline = time.monotonic() + limit
        Startup(engine, services, {name: name for name in services}, order.append, deadline=deadline).run()
        return order

    return run


def after(**conditions: str) -> dict[str, Any]:
    return {"depends_on": {name: {"condition": f"service_{how}"} for name, how in conditions.items()}}


@pytest.mark.parametrize(
    ("services", "states", "order"),
    [
        ({"main": after(a="started"), "a": after(b="started"), "b": {}}, {}, ["b", "a", "main"]),
        (
            {"main": after(a="healthy"), "a": {}},
            {"a": [health("starting"), health("healthy")]},
            ["a", "main"],
        ),
        ({"main": after(a="completed_successfully"), "a": {}}, {"a": [UP, UP, ENDED]}, ["a", "main"]),
        (
            {"main": {"network_mode": "service:a", "ipc": "service:b"}, "a": {}, "b": {}},
            {},
            ["a", "b", "main"],
        ),
        ({"main": {"volumes_from": ["a:ro"], "links": ["b:x"]}, "a": {}, "b": {}}, {}, ["a", "b", "main"]),
        ({"main": {"depends_on": {"a": {"required": False}}}, "a": {}}, {}, ["main", "a"]),
        ({"main": after(not_there="started")}, {}, ["main"]),
        ({"main": {}, "a": {}}, {"a": [AGAIN, AGAIN, UP]}, ["main", "a"]),
        ({"main": {}, "done": {}}, {"done": [ENDED]}, ["main", "done"]),
        ({"main": {}}, {"main": [health("starting"), health("healthy")]}, ["main"]),
    ],
)
def test_services_start_in_order(
    services: dict[str, Any], states: dict[str, list[Any]], order: list[str], run: Run
) -> None:
    assert run(services, **states) == order


@pytest.mark.parametrize(
    ("services", "states", "words"),
    [
        ({"main": after(a="healthy"), "a": {}}, {"a": [health("unhealthy")]}, "'a' is unhealthy"),
        (
            {"main": after(a="healthy"), "a": {}},
            {"a": [health("starting"), ENDED]},
            "'a' ended with exit code 0",
        ),
        ({"main": after(a="healthy"), "a": {}}, {"a": [UP]}, "'a' has no healthcheck"),
        (
            {"main": after(a="completed_successfully"), "a": {}},
            {"a": [UP, FAILED]},
            "'a' ended with exit code 3",
        ),
        ({"main": {}, "a": {}}, {"a": [FAILED]}, "'a' ended with exit code 3"),
        ({"main": {}, "a": {}}, {"a": [None]}, "'a' ended with exit code 137"),
        ({"main": {}}, {"main": [ENDED]}, "'main' ended with exit code 0"),
        ({"main": {"ipc": "service:a"}, "a": {"pid": "service:main"}}, {}, "wait for each other: main, a"),
    ],
)
def test_one_that_never_comes_up_is_named(
    services: dict[str, Any], states: dict[str, list[Any]], words: str, run: Run
) -> None:
    with pytest.raises(BoxUnfit, match=words):
        run(services, **states)


@pytest.mark.parametrize(
    ("states", "words"),
    [
        ([health("starting")], r"'a' was not healthy within the start's time limit \(running\)"),
        ([AGAIN], r"'a' was not running within the start's time limit \(restarting\)"),
    ],
)
def test_waiting_has_an_end(states: list[Any], words: str, run: Run) -> None:
    with pytest.raises(BoxUnfit, match=words) as failed:
        run({"main": {}, "a": {}}, limit=0.05, a=states)
    assert "said by a" in failed.value.detail
    assert ("probed" in failed.value.detail) == ("Health" in states[0])


def test_a_refusal_names_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise EngineRefused(400, "OCI runtime create failed: exec: no such file", "start")

    engine: Any = None
    with pytest.raises(BoxUnfit, match=r"^service 'a': "):
        Startup(engine, {"a": {}}, {"a": "a"}, refuse, deadline=time.monotonic() + 9).run()
