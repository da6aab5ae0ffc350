"""A Compose file whose box is not called ``main``."""

from __future__ import annotations

import pytest

from pytest_rlenv.errors import Unsupported
from pytest_rlenv.sandboxes.docker.compose.renaming import with_main


def test_main_stays_as_it_is() -> None:
    model = {"services": {"main": {"networks": {"default": None}}, "db": {}}}
    assert with_main(model, "main") == {"services": {"main": {"networks": {"default": None}}, "db": {}}}


def test_the_box_becomes_main_and_is_found_by_its_name() -> None:
    client = {"networks": {"default": None, "inner": {"aliases": ["c"]}}, "depends_on": {"db": {}}}
    db = {
        "depends_on": {"client": {"condition": "service_started"}, "x": {}},
        "links": ["client", "client:agent", "x:client"],
        "volumes_from": ["client:ro", "client", "clientele"],
        "network_mode": "service:client",
        "pid": "service:x",
    }
    model = with_main({"services": {"a": {}, "client": client, "db": db}, "volumes": {}}, "client")
    assert list(model["services"]) == ["a", "main", "db"]
    assert model["services"]["main"] == {
        "networks": {"default": {"aliases": ["client"]}, "inner": {"aliases": ["c", "client"]}},
        "depends_on": {"db": {}},
    }
    assert model["services"]["db"] == {
        "depends_on": {"main": {"condition": "service_started"}, "x": {}},
        "links": ["main:client", "main:agent", "x:client"],
        "volumes_from": ["main:ro", "main", "clientele"],
        "network_mode": "service:main",
        "pid": "service:x",
    }


def test_a_box_without_a_network_has_no_name_in_one() -> None:
    model = with_main({"services": {"client": {"network_mode": "none"}}}, "client")
    assert model == {"services": {"main": {"network_mode": "none"}}}


def test_two_mains_are_one_too_many() -> None:
    with pytest.raises(Unsupported, match=r"services\.main: a service of this name beside 'client'"):
        with_main({"services": {"client": {}, "main": {}}}, "client")
