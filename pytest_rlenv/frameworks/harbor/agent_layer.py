"""An agent's own layer on the image of its box: what it needs is installed once, not in each rollout."""

from __future__ import annotations

from pytest_rlenv.agents.install_failures import install_error
from pytest_rlenv.agents.protocol import Agent
from pytest_rlenv.errors import BuildFailed, Stage, StageTimeout
from pytest_rlenv.sandboxes.model import ImageRef
from pytest_rlenv.sandboxes.protocol import Sandbox, SandboxWithLayers
from pytest_rlenv.verdict import number

LAYER_TIMEOUT = 1800.0
"""Seconds for an agent's layer: it is made once for a run, and whoever needs it waits as long."""


def with_agent_layer(image: ImageRef, agent: Agent, sandbox: Sandbox, timeout: float) -> ImageRef:
    """Return the image with what the agent wants in it; as it is where none or no layer is to be had.

    Args:
        image: the task's, prepared.
        agent: who acts in the box.
        sandbox: who made the image.
        timeout: seconds for making the layer.

    Raises:
        AgentFailed: what the agent wants cannot be installed into this image. AgentUnavailable: nor can it
            be reached.
        StageTimeout, SandboxFailed, DiskFull, EngineUnavailable.
    """
    layer = agent.image_layer()
    if layer is None or image.services is not None:
        return image
    if not (sandbox.capabilities.extends_images and isinstance(sandbox, SandboxWithLayers)):
        return image
    try:
        return sandbox.extend(image, layer, timeout=timeout)
    except BuildFailed as error:
        raise install_error(
            agent.name,
            f"it cannot be installed into the task's image {image.name}",
            error.detail or error.message,
            hint="see the installer's output; have the agent in the image, or take another version of it",
        ) from error
    except StageTimeout as late:
        raise StageTimeout(
            f"agent {agent.name}: it was not installed into the task's image {image.name} "
            f"within {number(timeout)} s",
            stage=Stage.AGENT_SETUP,
        ) from late
