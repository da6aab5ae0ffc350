"""A project in the engine: its containers, networks and volumes, from creation to removal."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_rlenv.disk import says_full
from pytest_rlenv.errors import BoxUnfit, EngineUnavailable, SandboxFailed, StageTimeout
from pytest_rlenv.sandboxes.docker import archive
from pytest_rlenv.sandboxes.docker.client import Engine
from pytest_rlenv.sandboxes.docker.compose.command import Answer, at_engine, run_compose
from pytest_rlenv.sandboxes.docker.compose.files import entries_below
from pytest_rlenv.sandboxes.docker.compose.model import Model
from pytest_rlenv.sandboxes.docker.failures import EngineRefused, engine_full
from pytest_rlenv.sandboxes.docker.hostconfig import check_warnings
from pytest_rlenv.sandboxes.docker.removal import delete, kill_container, remove_container
from pytest_rlenv.sandboxes.model import BoxSpec, Entry

PROJECT = "com.docker.compose.project"
SERVICE = "com.docker.compose.service"

_NO_ADDRESSES = ("could not find an available", "pool overlaps", "all predefined address pools")
_WRONG_FIELDS = ("invalid mount", "invalid reference", "conflicting options", "invalid ip", "invalid network")
_PAUSE = 1.0
_CREATE = "create the services"


def create_project(
    engine: Engine, program: Path, model: Model, spec: BoxSpec, scratch: Path, *, deadline: float
) -> dict[str, str]:
    """Create everything in a project, and return its containers' ids by service.

    An engine has addresses for about thirty networks, and a fixed range only once: where these are in use,
    they are waited for.

    Args:
        engine: where.
        program: ``docker compose``.
        model: what to create.
        spec: how ``main`` was asked for.
        scratch: a folder that only we can read: the model may hold secrets.
        deadline: a time of :func:`time.monotonic`.

    Raises:
        BoxUnfit: the engine refuses what the file says. SandboxFailed, DiskFull: it cannot do it.
        Unsupported: a limit of ``main`` does not hold in this engine.
        StageTimeout: it takes too long.
    """
    project = str(model["name"])
    file = scratch / "project.json"
    file.write_text(json.dumps(model), encoding="utf-8")
    environ = at_engine(engine.endpoint, scratch)
    environ.pop("COMPOSE_PROFILES", None)
    arguments = ("--project-name", project, "--project-directory", scratch, "--file", file, "create")
    while True:
        left = max(0.0, deadline - time.monotonic())
        answer = run_compose(program, arguments, environ=environ, folder=scratch, timeout=left)
        waits = any(words in answer.stderr.lower() for words in _NO_ADDRESSES)
        if not (answer.exit_code and waits and time.monotonic() + _PAUSE < deadline):
            break
        remove_project(engine, project)
        time.sleep(_PAUSE)
    _check(answer, spec)
    return containers_of(engine, project)


def containers_of(engine: Engine, project: str) -> dict[str, str]:
    """Return the ids of a project's containers by service; of several for one service, the first."""
    found = sorted(_list(engine, "containers", project), key=_number)
    return {str(each["Labels"].get(SERVICE)): str(each["Id"]) for each in reversed(found)}


def fill_volumes(
    engine: Engine, project: str, image: str, volumes: Mapping[str, Path], labels: Mapping[str, str]
) -> None:
    """Bring folders of this machine into volumes, through a container that is never started.

    Args:
        engine: where.
        project: whose volumes.
        image: the id of any image.
        volumes: the folders by the volume's name in the model.
        labels: what the container carries.
    """
    if not volumes:
        return
    body = {
        "Image": image,
        "Cmd": ["true"],
        "Labels": {**labels, PROJECT: project},
        "HostConfig": {
            "NetworkMode": "none",
            "Mounts": [
                {"Type": "volume", "Source": f"{project}_{name}", "Target": f"/{name}"} for name in volumes
            ],
        },
    }
    created = engine.request(
        "POST",
        "/containers/create",
        params={"name": f"{project}-files"},
        body=body,
        doing="fill the services' volumes",
    ).json()
    try:
        for name, folder in volumes.items():
            archive.put(engine, created["Id"], [Entry(".", mode=0o755), *entries_below(folder)], f"/{name}")
    finally:
        remove_container(engine, created["Id"])


def remove_project(engine: Engine, project: str) -> str:
    """Kill and remove all that is in a project; return what went wrong, empty for nothing."""
    try:
        found = _list(engine, "containers", project)
        for container in found:
            if container.get("State") in ("running", "restarting", "paused"):
                _kill(engine, container["Id"])
        problems = [remove_container(engine, container["Id"]) for container in found]
        problems += [delete(engine, f"/networks/{n['Id']}") for n in _list(engine, "networks", project)]
        problems += [delete(engine, f"/volumes/{v['Name']}") for v in _list(engine, "volumes", project)]
    except EngineRefused as refused:
        return str(refused)
    except EngineUnavailable as error:
        return str(error)
    return "; ".join(filter(None, problems))


def _kill(engine: Engine, container: str) -> None:
    try:
        kill_container(engine, container)
    except EngineRefused as refused:
        if refused.status != 404:
            raise


def _list(engine: Engine, what: str, project: str) -> list[dict[str, Any]]:
    filters = json.dumps({"label": [f"{PROJECT}={project}"]})
    path, params = f"/{what}", {"filters": filters}
    if what == "containers":
        path, params = "/containers/json", {"filters": filters, "all": "1"}
    found = engine.get(path, params=params, doing=f"list the {what} of services")
    listed: list[dict[str, Any]] = (found.get("Volumes") or []) if what == "volumes" else found
    return listed


def _number(container: dict[str, Any]) -> int:
    number = str(container["Labels"].get("com.docker.compose.container-number", ""))
    return int(number) if number.isdigit() else 0


def _check(answer: Answer, spec: BoxSpec) -> None:
    if answer.exit_code is None:
        raise StageTimeout(
            f"docker compose did not {_CREATE} within the start's time limit", detail=answer.stderr
        )
    if answer.exit_code:
        raise _failure(answer)
    check_warnings(spec, answer.stderr.splitlines())


def _failure(answer: Answer) -> SandboxFailed:
    if says_full(answer.stderr):
        return engine_full(_CREATE, answer.stderr)
    low, hint = answer.complaint.lower(), ""
    if any(words in low for words in _NO_ADDRESSES):
        hint = "other networks of this engine use the addresses: run fewer at once, or prune networks"
    # what the engine finds wrong with a field is the file's fault, and the same on the next try
    error = BoxUnfit if any(words in low for words in _WRONG_FIELDS) else SandboxFailed
    return error(f"docker compose cannot {_CREATE}: {answer.complaint}", hint=hint, detail=answer.stderr)
