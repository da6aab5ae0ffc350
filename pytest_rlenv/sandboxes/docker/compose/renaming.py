"""A model whose box goes by another name than ``main``, as one in which it is ``main``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pytest_rlenv.errors import Unsupported
from pytest_rlenv.sandboxes.docker.compose.model import MAIN, Model

_REFERRING = ("network_mode", "pid", "ipc", "uts")


def with_main(model: Model, name: str) -> Model:
    """Return the model with the service ``name`` called ``main``; others still reach it by its own name.

    Args:
        model: a checked model; used up.
        name: the service that is the box.

    Raises:
        Unsupported: another service is called ``main`` already.
    """
    services: dict[str, Model] = model["services"]
    if name == MAIN:
        return model
    if MAIN in services:
        raise Unsupported(f"services.{MAIN}: a service of this name beside {name!r}, which is the box")
    for network, use in (services[name].get("networks") or {}).items():
        own = dict(use or {})
        services[name]["networks"][network] = {**own, "aliases": [*(own.get("aliases") or ()), name]}
    for service in services.values():
        _refer_to_main(service, name)
    model["services"] = {MAIN if key == name else key: service for key, service in services.items()}
    return model


def _refer_to_main(service: Model, name: str) -> None:
    if service.get("depends_on"):
        service["depends_on"] = {
            MAIN if key == name else key: how for key, how in service["depends_on"].items()
        }
    for field in _REFERRING:
        if service.get(field) == f"service:{name}":
            service[field] = f"service:{MAIN}"
    if service.get("links"):
        service["links"] = list(_links(service["links"], name))
    if service.get("volumes_from"):
        service["volumes_from"] = [_first_part(each, name) for each in service["volumes_from"]]


def _links(links: list[Any], name: str) -> Iterator[str]:
    for link in map(str, links):
        service, is_named, alias = link.partition(":")
        yield f"{MAIN}:{alias if is_named else name}" if service == name else link


def _first_part(reference: Any, name: str) -> str:
    service, colon, rest = str(reference).partition(":")
    return f"{MAIN}{colon}{rest}" if service == name else str(reference)
