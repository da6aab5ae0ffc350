"""What this version, or the chosen sandbox, lacks for a task: it is skipped, never run weaker in silence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_rlenv.frameworks.harbor.artifact_places import service_of
from pytest_rlenv.frameworks.harbor.artifacts import MAIN_SERVICE
from pytest_rlenv.frameworks.harbor.definitions import COMPOSE_FILE, BoxDefinition
from pytest_rlenv.frameworks.harbor.environment_config import TaskOs
from pytest_rlenv.frameworks.harbor.inside import relative_name
from pytest_rlenv.frameworks.harbor.phases import NetworkPolicy, baseline, phase_policy
from pytest_rlenv.frameworks.harbor.steps import Step, steps_of
from pytest_rlenv.frameworks.harbor.task import HarborTask
from pytest_rlenv.sandboxes.model import Capabilities


def unsupported(task: HarborTask, capabilities: Capabilities, *, enforce_limits: bool = True) -> list[str]:
    """Return why the task cannot be run here, one line each; an empty list if it can.

    Args:
        task: the task.
        capabilities: what the sandbox can hold.
        enforce_limits: False if the user drops the task's cpu and memory limits.
    """
    steps = steps_of(task)
    reasons = [*_services(task, steps, capabilities), *_users(steps, capabilities)]
    for definition in _definitions(task, steps):
        reasons += _box(task, definition, capabilities)
        if enforce_limits:
            reasons += _limits(definition, capabilities)
    reasons += _networks(task, steps, capabilities)
    return list(dict.fromkeys(reasons))


def no_listener(capabilities: Capabilities) -> list[str]:
    """Return why an agent in the box cannot call its model from there; an empty list if it can."""
    if capabilities.listeners:
        return []
    why = f": {capabilities.missing_listeners}" if capabilities.missing_listeners else ""
    return [f"the agent runs in the box, and its calls of the model cannot reach us from there{why}"]


def notes(task: HarborTask) -> list[tuple[str, str]]:
    """Return what is left out of the task without any effect on its reward, as pairs of code and text."""
    found = []
    for definition in _definitions(task, steps_of(task)):
        where, config = definition.where, definition.config
        if config.storage_mb is not None:
            text = f"[{where}] storage_mb = {config.storage_mb} is not enforced, as in Harbor on Docker"
            found.append(("storage-not-enforced", text))
        if config.gpus and config.gpu_types:
            text = f"[{where}] gpu_types = {config.gpu_types} is not checked, as in Harbor on Docker"
            found.append(("gpu-types-not-checked", text))
    return list(dict.fromkeys(found))


def _definitions(task: HarborTask, steps: Sequence[Step]) -> list[BoxDefinition]:
    own = [step.verifier_definition for step in steps]
    return [task.agent_definition, *(found for found in own if found is not None)]


def _services(task: HarborTask, steps: Sequence[Step], capabilities: Capabilities) -> Iterator[str]:
    for definition in _definitions(task, steps):
        if (file := definition.compose_file) is not None and not capabilities.services:
            yield f"{relative_name(task.root, file)}: this sandbox runs no services beside the main one"
    if task.agent_definition.compose_file is not None:
        return
    for step in steps:
        names = {service_of(artifact) for artifact in step.artifacts}
        names |= {hook.service for hook in step.collect_hooks}
        for name in sorted(names - {MAIN_SERVICE}):
            where = relative_name(task.root, task.agent_definition.folder)
            yield f"service {name!r} of artifacts or collect hooks: there is no {where}/{COMPOSE_FILE}"


def _box(task: HarborTask, definition: BoxDefinition, capabilities: Capabilities) -> Iterator[str]:
    where, config = definition.where, definition.config
    if definition.os is TaskOs.WINDOWS:
        yield f'[{where}] os = "windows": only Linux containers are supported'
    if not definition.docker_image and not capabilities.builds_images:
        name = relative_name(task.root, definition.folder)
        yield f"{name}/Dockerfile: this sandbox builds no images"
    gpus = config.gpus or 0
    if gpus > capabilities.gpus:
        have = f"has {capabilities.gpus}" if capabilities.gpus else "has no GPU"
        yield f"[{where}] gpus = {gpus}: the task needs {gpus} GPU{'s' * (gpus > 1)}, this sandbox {have}"
    if config.tpu is not None:
        yield f"[{where}.tpu] {config.tpu.type} {config.tpu.topology}: this sandbox has no TPU"


def _limits(definition: BoxDefinition, capabilities: Capabilities) -> Iterator[str]:
    where, config = definition.where, definition.config
    if config.cpus is not None and capabilities.cpus is not None and config.cpus > capabilities.cpus:
        yield f"[{where}] cpus = {config.cpus}: this machine has {capabilities.cpus:g}"
    memory, have = config.memory_mb, capabilities.memory_mb
    if memory is not None and have is not None and memory > have:
        yield f"[{where}] memory_mb = {memory}: this machine has {have} MiB"


def _users(steps: Sequence[Step], capabilities: Capabilities) -> Iterator[str]:
    if capabilities.users:
        return
    for step in steps:
        for phase, user in (("agent", step.agent_user), ("verifier", step.verifier_user)):
            if user is not None:
                yield f"[{phase}] user = {user!r}: this sandbox cannot switch users"


def _networks(task: HarborTask, steps: Sequence[Step], capabilities: Capabilities) -> Iterator[str]:
    """Yield the networks that are not there, and the changes of a box's network that cannot be made."""
    definition = task.agent_definition
    own = baseline(definition.config)
    yield from _network(definition.where, own, capabilities)
    for step in steps:
        phases = [("agent", phase_policy(step.agent_phase, own))]
        if step.verifier_definition is None:
            phases.append(("verifier", phase_policy(step.verifier_phase, own)))
        else:
            yield from _separate_network(step, step.verifier_definition, capabilities)
        for name, policy in phases:
            if policy != own:
                yield from _network(name, policy, capabilities)
                yield from _change(name, policy, own, capabilities)


def _separate_network(step: Step, definition: BoxDefinition, capabilities: Capabilities) -> Iterator[str]:
    """Yield what the box of a separate verifier lacks; it starts with the network of its phase."""
    own = baseline(definition.config)
    policy = phase_policy(step.verifier_phase, own)
    yield from _network(definition.where if policy == own else step.verifier_table, policy, capabilities)


def _network(where: str, policy: NetworkPolicy, capabilities: Capabilities) -> Iterator[str]:
    mode = policy.mode.value
    if mode not in capabilities.network_modes:
        why = capabilities.missing_networks.get(mode, "this sandbox does not have it")
        yield f'[{where}] network_mode = "{mode}": {why}'


def _change(
    name: str, policy: NetworkPolicy, own: NetworkPolicy, capabilities: Capabilities
) -> Iterator[str]:
    modes = {policy.mode.value, own.mode.value}
    if len(modes) > 1 and modes <= capabilities.network_modes and not modes <= capabilities.switches_network:
        yield (
            f'[{name}] network_mode = "{policy.mode.value}" differs from [environment], "{own.mode.value}": '
            "this sandbox cannot make that change in a running box"
        )
