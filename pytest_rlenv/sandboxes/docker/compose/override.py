"""What holds for every container, network and volume of a project, whatever its file says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_rlenv.errors import Unsupported
from pytest_rlenv.sandboxes.confinement import CAPABILITIES, PIDS_LIMIT
from pytest_rlenv.sandboxes.docker.compose.model import MAIN, Model, escaped, has_keeper
from pytest_rlenv.sandboxes.docker.compose.network import HOLDER, arrange_networks, past_the_gate
from pytest_rlenv.sandboxes.docker.hostconfig import LOG_CAP
from pytest_rlenv.sandboxes.docker.networks import BoxNetwork
from pytest_rlenv.sandboxes.docker.postmortem import is_root
from pytest_rlenv.sandboxes.keeper import keeper_command
from pytest_rlenv.sandboxes.model import PUBLIC, BoxSpec, ImageRef

_OURS = frozenset(
    (
        *("build", "pull_policy", "pull_refresh_after", "platform"),
        *("develop", "attach", "profiles", "pre_stop", "post_start"),
    )
)
"""Fields that are done with, or seen to by us."""

_NO_NEW_PRIVILEGES = "no-new-privileges"


def final_model(
    model: Model,
    images: Mapping[str, ImageRef],
    spec: BoxSpec,
    *,
    project: str,
    labels: Mapping[str, str],
    network: BoxNetwork,
    as_root: bool = True,
) -> Model:
    """Return what ``docker compose`` is to create, as a Compose file.

    Args:
        model: a checked model without files; it is used up.
        images: the image of each service.
        spec: how the box, ``main``, is started.
        project: the project's name.
        labels: what everything carries.
        network: what services that share a namespace reach.
        as_root: False if the image of the box starts as another user.
    """
    hosts = arrange_networks(model, project, spec)
    services: dict[str, Model] = model["services"]
    for name, service in services.items():
        services[name] = _service(service, images[name], labels)
    user = services[MAIN].get("user")
    if not (as_root if user is None else is_root(str(user))):
        # where PID 1 is not root it would leave root, such as a verifier, without capabilities
        services[MAIN]["security_opt"].remove(_NO_NEW_PRIVILEGES)
    _fill_main(services[MAIN], spec)
    if hosts:
        _tell_of_gate(services, past_the_gate(network.variables(), hosts))
        services[HOLDER] = _holder(images[MAIN], spec, network, labels) | {"extra_hosts": hosts}
    if spec.take_listener is not None:
        _listen(services, _holder(images[MAIN], spec, network, labels), spec)
    final = {
        "name": project,
        "services": services,
        "networks": {name: each | {"labels": dict(labels)} for name, each in model["networks"].items()},
        "volumes": {
            name: _volume(each or {}, f"{project}_{name}", labels)
            for name, each in (model.get("volumes") or {}).items()
        },
    }
    result: Model = escaped(final)
    return result


def _service(service: Model, image: ImageRef, labels: Mapping[str, str]) -> Model:
    found = {name: value for name, value in service.items() if name not in _OURS and value is not None}
    dropped = {_capability(each) for each in service.get("cap_drop") or ()}
    added = {_capability(each) for each in service.get("cap_add") or ()}
    kept = set() if "ALL" in dropped else set(CAPABILITIES) - dropped
    found |= {
        "image": image.id,
        "pull_policy": "never",
        "labels": {**(service.get("labels") or {}), **labels},
        "cap_drop": ["ALL"],
        "cap_add": sorted(kept | added),
        "security_opt": _security(service),
        "logging": {"driver": "json-file", "options": {"max-size": LOG_CAP, "max-file": "1"}},
    }
    # a variable without a value is one that is not set; Compose would look for it once more
    found["environment"] = {k: v for k, v in (service.get("environment") or {}).items() if v is not None}
    found.setdefault("ipc", "private")
    limits = _limits(service)
    if not limits.get("pids"):
        asked = int(service.get("pids_limit") or 0)
        found["pids_limit"] = min(asked, PIDS_LIMIT) if asked > 0 else PIDS_LIMIT
    return found


def _security(service: Model) -> list[str]:
    """Return a service's security options; one that asks for new privileges, and was allowed to, has them."""
    asked = [str(each) for each in service.get("security_opt") or ()]
    ours = [each for each in asked if each.startswith(_NO_NEW_PRIVILEGES)]
    others = [each for each in asked if each not in ours]
    return others if any(each.endswith("false") for each in ours) else [_NO_NEW_PRIVILEGES, *others]


def _fill_main(main: Model, spec: BoxSpec) -> None:
    """Give the box its limits, where the file sets none, and its variables and keeper."""
    limits = _limits(main)
    if spec.cpus is not None and not (main.get("cpus") or limits.get("cpus")):
        main["cpus"] = spec.cpus
    if spec.memory_mb is not None and not (main.get("mem_limit") or limits.get("memory")):
        main["mem_limit"] = main["memswap_limit"] = f"{spec.memory_mb}m"  # equal: no swap beside it
    main["environment"] = {**(main.get("environment") or {}), **spec.env}
    if has_keeper(main):
        main["command"] = keeper_command(spec.lifetime)
        main["init"] = False  # the keeper does what it is for


def _tell_of_gate(services: Mapping[str, Model], variables: Mapping[str, str]) -> None:
    """Have services find the gate, if there is one; what the file says of that wins."""
    for service in services.values():
        if service.get("network_mode") == f"service:{HOLDER}":
            service["environment"] = {**variables, **service["environment"]}


def _holder(image: ImageRef, spec: BoxSpec, network: BoxNetwork, labels: Mapping[str, str]) -> Model:
    keeper = keeper_command(spec.lifetime)
    mounts = [
        {"type": "bind", "source": each["Source"], "target": each["Target"], "read_only": each["ReadOnly"]}
        for each in network.mounts
    ]
    return _service({}, image, labels) | {
        "entrypoint": network.entrypoint(keeper).get("Entrypoint", keeper),
        "command": [],
        "user": "0",
        "healthcheck": {"disable": True},
        "network_mode": "bridge" if spec.network == PUBLIC else "none",
        "volumes": mounts,
        "cap_add": [],
    }


def _listen(services: Model, holder: Model, spec: BoxSpec) -> None:
    """Have a listener in the namespace of the box, where nobody holds that one for it.

    Raises:
        Unsupported: its network is neither its own nor the shared one.
    """
    if services[MAIN].get("network_mode") == f"service:{HOLDER}":
        return
    if HOLDER in services or spec.later_networks - {spec.network}:
        raise Unsupported(
            f"services.{MAIN}: an agent beside services that have another network cannot call its model"
        )
    services[HOLDER] = holder | {"network_mode": f"service:{MAIN}"}


def _volume(volume: Model, name: str, labels: Mapping[str, str]) -> Model:
    if volume.get("external"):
        return volume
    options = {"driver_opts": volume["driver_opts"]} if volume.get("driver_opts") else {}
    driver = {"driver": volume["driver"]} if volume.get("driver") else {}
    return {"name": name, "labels": {**(volume.get("labels") or {}), **labels}, **driver, **options}


def _limits(service: Model) -> dict[str, Any]:
    deploy = service.get("deploy") or {}
    limits: dict[str, Any] = (deploy.get("resources") or {}).get("limits") or {}
    return limits


def _capability(name: Any) -> str:
    return str(name).upper().removeprefix("CAP_")
