"""What a task's boxes are made from: the agent's, and one of its own for each verifier that is kept apart.

Harbor 0.26 looks for the image of a separate verifier in this order: the step's ``docker_image``, a
definition among the step's tests, the task's ``[verifier.environment] docker_image``, a definition in
``tests/``, else a fresh copy of the agent's environment. All but the last hold the tests already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_rlenv.frameworks.harbor.config import StepConfig, TaskConfig, VerifierMode
from pytest_rlenv.frameworks.harbor.environment_config import EnvironmentConfig, TaskOs
from pytest_rlenv.sandboxes.model import ImageSpec

DOCKERFILE = "Dockerfile"
COMPOSE_FILE = "docker-compose.yaml"
DEFINITIONS = (DOCKERFILE, COMPOSE_FILE)

AGENT = "environment"


@dataclass(frozen=True)
class BoxDefinition:
    """What a box is made from.

    Attributes:
        where: the table of ``task.toml`` that says so, such as ``verifier.environment``.
        config: its limits, variables, working directory and network.
        folder: what the image is built from, where none is named.
        docker_image: a prebuilt image.
        os: its operating system.
        bundles_tests: True if the image holds a verifier's tests, so that none are brought.
    """

    where: str
    config: EnvironmentConfig
    folder: Path
    docker_image: str | None
    os: TaskOs
    bundles_tests: bool = False

    @property
    def compose_file(self) -> Path | None:
        """The ``docker-compose.yaml``, if there is one; it counts beside a prebuilt image, too."""
        path = self.folder / COMPOSE_FILE
        return path if path.is_file() else None

    @property
    def main_service(self) -> str:
        """The service of a compose file that is the box."""
        return "main"

    @property
    def compose_variables(self) -> Mapping[str, str]:
        """Further variables that a compose file is filled in with."""
        return {}

    def built(self) -> BoxDefinition:
        """Return the same, but built from its Dockerfile though an image is named; itself if it has none."""
        has_one = self.docker_image and (self.folder / DOCKERFILE).is_file()
        return replace(self, docker_image=None) if has_one else self

    def image(self, slug: str) -> ImageSpec:
        """Return the image to prepare.

        Args:
            slug: a readable word for the tag of an image that is built.
        """
        if self.docker_image:
            return ImageSpec(name=self.docker_image)
        return ImageSpec(context=self.folder, slug=slug)


def agent_definition(root: Path, config: TaskConfig) -> BoxDefinition:
    """Return what the agent's box is made from.

    Args:
        root: the task's folder.
        config: its ``task.toml``.
    """
    environment = config.environment
    return BoxDefinition(
        AGENT, environment, root / "environment", environment.docker_image or None, environment.os
    )


def verifier_definition(
    root: Path, config: TaskConfig, step: StepConfig | None = None
) -> BoxDefinition | None:
    """Return what the box of a separate verifier is made from; ``None`` if the verifier is a shared one.

    Args:
        root: the task's folder.
        config: its ``task.toml``.
        step: the step that is verified, of a task that has steps.
    """
    if config.verifier_mode(step) is VerifierMode.SHARED:
        return None
    where, environment = _environment(config, step)
    system = environment.os if "os" in environment.model_fields_set else config.environment.os
    for own, folder in _places(root, config, step):
        if own is not None and own.docker_image:
            return BoxDefinition(where, environment, folder, own.docker_image, system, bundles_tests=True)
        if any((folder / name).is_file() for name in DEFINITIONS):
            return BoxDefinition(where, environment, folder, None, system, bundles_tests=True)
    image = config.environment.docker_image or None
    return BoxDefinition(where, environment, root / "environment", image, system)


def step_table(step: StepConfig | None, name: str) -> str:
    """Return the name of a table of the task or of one of its steps, such as ``steps.build.verifier``."""
    return f"steps.{step.name}.{name}" if step else name


def _environment(config: TaskConfig, step: StepConfig | None) -> tuple[str, EnvironmentConfig]:
    if step is not None and step.verifier.environment is not None:
        return step_table(step, "verifier.environment"), step.verifier.environment
    if config.verifier.environment is not None:
        return "verifier.environment", config.verifier.environment
    return AGENT, config.environment


def _places(
    root: Path, config: TaskConfig, step: StepConfig | None
) -> Iterator[tuple[EnvironmentConfig | None, Path]]:
    if step is not None:
        yield step.verifier.environment, root / "steps" / step.name / "tests"
    yield config.verifier.environment, root / "tests"
