"""What a framework is given to run one rollout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_rlenv.agents.protocol import Agent
from pytest_rlenv.frameworks.kept import Kept
from pytest_rlenv.rollout import Rollout, StageClock
from pytest_rlenv.sandboxes.protocol import Sandbox
from pytest_rlenv.settings import Settings

if TYPE_CHECKING:
    from pytest_rlenv.model_proxy.proxy import ModelProxy


@dataclass(frozen=True)
class RolloutContext:
    """One rollout's surroundings; the framework writes what happens into ``rollout``.

    Attributes:
        agent: a fresh instance for this rollout.
        sandbox: the maker of boxes.
        rollout: the record to fill in.
        clock: its stage clock.
        folder: where this rollout's logs go, on this machine; exists and is empty.
        environ: the caller's environment, from which ``${VAR}`` templates are filled.
        timeout_multiplier: every time limit of the task is multiplied by it.
        enforce_limits: False drops the task's cpu and memory limits.
        verifier_level: how far the verifier of a task that says nothing of it is kept from what the agent
            left: ``shared``, ``quiesce`` or ``fresh``.
        build: build images from their Dockerfiles, also where the task names prebuilt ones.
        extra_instructions: texts for the agent after the task's own.
        prompt_template: the words around these, as :mod:`pytest_rlenv.prompt_template` fills them in.
        model: the server of the agent's model, for one that needs it.
        settings: the run's, for what only one framework has options for.
        kept: what this process keeps up between rollouts.
        session: the run's name, by which what it leaves behind is found.
    """

    agent: Agent
    sandbox: Sandbox
    rollout: Rollout
    clock: StageClock
    folder: Path
    environ: Mapping[str, str]
    timeout_multiplier: float = 1.0
    enforce_limits: bool = True
    verifier_level: str = "shared"
    build: bool = False
    extra_instructions: tuple[str, ...] = ()
    prompt_template: str | None = None
    model: ModelProxy | None = None
    settings: Settings = field(default_factory=lambda: Settings(sources={}))
    kept: Kept = field(default_factory=Kept)
    session: str = ""
