"""What breaks between here and the engine, told apart from what is no fault of the connection."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import requests

from pytest_rlenv.errors import EngineUnavailable
from pytest_rlenv.sandboxes.docker.endpoint import Endpoint
from pytest_rlenv.sandboxes.docker.failures import connection_errors

ENDPOINT = Endpoint("unix:///nowhere/docker.sock", "a test")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError("no"), "refuses connections"),
        (TimeoutError("late"), "does not answer"),
        (requests.Timeout("late"), "does not answer"),
        (requests.ConnectionError("cut"), "the connection to .* broke"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_breaks_is_an_engine_that_cannot_be_reached(error: Exception, words: str) -> None:
    with pytest.raises(EngineUnavailable, match=words), connection_errors(ENDPOINT, "look"):
        raise error


def test_another_error_stays_what_it_is() -> None:
    with pytest.raises(ZeroDivisionError), connection_errors(ENDPOINT, "look"):
        raise ZeroDivisionError


@pytest.mark.parametrize("name", ["requests.exceptions", "urllib3.exceptions", "docker.errors"])
def test_a_library_that_another_thread_is_just_loading(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """It stands in ``sys.modules`` before it has its names; an error of ours must not be lost by that."""
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    with pytest.raises(EngineUnavailable), connection_errors(ENDPOINT, "look"):
        raise TimeoutError("late")
    with pytest.raises(KeyError), connection_errors(ENDPOINT, "look"):
        raise KeyError("x")
