"""What this version, or the chosen sandbox, lacks for a task: it is skipped, never run weaker in silence."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_rlenv.frameworks.harbor.config import EnvironmentConfig, PhaseConfig, TaskConfig, VerifierMode
from pytest_rlenv.frameworks.harbor.environment_config import TaskOs
from pytest_rlenv.frameworks.harbor.network import NetworkMode
from pytest_rlenv.frameworks.harbor.task import HarborTask
from pytest_rlenv.sandboxes.protocol import Capabilities


def network_mode(config: TaskConfig) -> str:
    """Return the network mode of the task's box, in the sandboxes' words, which are Harbor's."""
    return config.environment.network_mode.value


def unsupported(
    task: HarborTask,
    capabilities: Capabilities,
    *,
    agent_has_tools: bool = False,
    enforce_limits: bool = True,
) -> list[str]:
    """Return why the task cannot be run here, one line each; an empty list if it can.

    Args:
        task: the task.
        capabilities: what the sandbox can hold.
        agent_has_tools: True for an agent that the task's MCP servers, skills and earlier trajectory are
            meant for. The reference solution and ``nop`` ignore these, in Harbor too.
        enforce_limits: False if the user drops the task's cpu and memory limits.
    """
    environment = task.config.environment
    reasons = [*_features(task), *_network(task.config, capabilities), *_devices(environment, capabilities)]
    reasons += _users(task.config, capabilities)
    if not environment.docker_image and not capabilities.builds_images:
        reasons.append("environment/Dockerfile: this sandbox builds no images")
    if enforce_limits:
        reasons += _limits(environment, capabilities)
    if agent_has_tools:
        reasons += _agent_features(task)
    return reasons


def notes(task: HarborTask) -> list[tuple[str, str]]:
    """Return what is left out of the task without any effect on its reward, as pairs of code and text."""
    environment = task.config.environment
    found = []
    if environment.storage_mb is not None:
        text = f"[environment] storage_mb = {environment.storage_mb} is not enforced, as in Harbor on Docker"
        found.append(("storage-not-enforced", text))
    if environment.gpus and environment.gpu_types:
        text = f"[environment] gpu_types = {environment.gpu_types} is not checked, as in Harbor on Docker"
        found.append(("gpu-types-not-checked", text))
    return found


def _features(task: HarborTask) -> Iterator[str]:
    config = task.config
    if config.steps:
        yield f"[[steps]]: multi-step tasks ({len(config.steps)} steps) are not supported yet"
    modes = [config.verifier_mode(step) for step in config.steps or []] or [config.verifier_mode()]
    if VerifierMode.SEPARATE in modes:
        yield "[verifier]: a separate verifier environment is not supported yet"
    elif config.artifacts:
        yield f"artifacts: {len(config.artifacts)} path(s) to collect; only /logs/artifacts is supported yet"
    if task.compose_file is not None:
        yield "environment/docker-compose.yaml: services beside the main one are not supported yet"
    if config.verifier.collect:
        yield "[[verifier.collect]]: commands between agent and verifier are not supported yet"
    if config.environment.os is TaskOs.WINDOWS:
        yield '[environment] os = "windows": only Linux containers are supported'


def _network(config: TaskConfig, capabilities: Capabilities) -> Iterator[str]:
    baseline = config.environment
    mode = baseline.network_mode
    if mode is NetworkMode.ALLOWLIST:
        yield '[environment] network_mode = "allowlist": lists of allowed hosts are not supported yet'
    elif mode.value not in capabilities.network_modes:
        yield f'[environment] network_mode = "{mode.value}": this sandbox does not have it'
    phases: tuple[tuple[str, PhaseConfig], ...] = (("agent", config.agent), ("verifier", config.verifier))
    for name, phase in phases:
        if phase.network_mode is not None and not _same_network(phase, baseline):
            yield (
                f'[{name}] network_mode = "{phase.network_mode.value}" differs from [environment], '
                f'"{mode.value}": a change of network within a rollout is not supported yet'
            )


def _same_network(phase: PhaseConfig, baseline: EnvironmentConfig) -> bool:
    return phase.network_mode is baseline.network_mode and (phase.allowed_hosts or []) == (
        baseline.allowed_hosts or []
    )


def _devices(environment: EnvironmentConfig, capabilities: Capabilities) -> Iterator[str]:
    gpus = environment.gpus or 0
    if gpus > capabilities.gpus:
        have = f"has {capabilities.gpus}" if capabilities.gpus else "has no GPU"
        yield f"[environment] gpus = {gpus}: the task needs {gpus} GPU{'s' * (gpus > 1)}, this sandbox {have}"
    if environment.tpu is not None:
        yield f"[environment.tpu] {environment.tpu.type} {environment.tpu.topology}: this sandbox has no TPU"


def _limits(environment: EnvironmentConfig, capabilities: Capabilities) -> Iterator[str]:
    if (
        environment.cpus is not None
        and capabilities.cpus is not None
        and environment.cpus > capabilities.cpus
    ):
        yield f"[environment] cpus = {environment.cpus}: this machine has {capabilities.cpus:g}"
    memory, have = environment.memory_mb, capabilities.memory_mb
    if memory is not None and have is not None and memory > have:
        yield f"[environment] memory_mb = {memory}: this machine has {have} MiB"


def _users(config: TaskConfig, capabilities: Capabilities) -> Iterator[str]:
    for name, phase in (("agent", config.agent), ("verifier", config.verifier)):
        if phase.user is not None and not capabilities.users:
            yield f"[{name}] user = {phase.user!r}: this sandbox cannot switch users"


def _agent_features(task: HarborTask) -> Iterator[str]:
    environment = task.config.environment
    if environment.mcp_servers:
        names = ", ".join(server.name for server in environment.mcp_servers)
        yield f"[[environment.mcp_servers]] {names}: MCP servers are not supported yet"
    if environment.skills_dir:
        yield f"[environment] skills_dir = {environment.skills_dir!r}: skills are not supported yet"
    if (task.root / "trajectory.json").is_file():
        yield "trajectory.json: an earlier trajectory for the agent is not supported yet"
