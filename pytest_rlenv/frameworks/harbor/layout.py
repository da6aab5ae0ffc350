"""What must be in a task's folder for it to be a task; each thing that is missing is named.

Harbor 0.26 drops a folder that breaks one of these rules without a word.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pytest_rlenv.errors import TaskInvalid
from pytest_rlenv.frameworks.harbor.artifact_places import overlap_warnings
from pytest_rlenv.frameworks.harbor.artifacts import MAIN_SERVICE, Artifact
from pytest_rlenv.frameworks.harbor.config import StepConfig, TaskConfig, VerifierConfig
from pytest_rlenv.frameworks.harbor.context_files import context_warnings
from pytest_rlenv.frameworks.harbor.definitions import (
    COMPOSE_FILE,
    DEFINITIONS,
    DOCKERFILE,
    verifier_definition,
)
from pytest_rlenv.frameworks.harbor.environment_config import TaskOs
from pytest_rlenv.frameworks.harbor.files import TaskFolder, read_folder
from pytest_rlenv.frameworks.harbor.inside import holding, relative_name, resolve_inside
from pytest_rlenv.frameworks.harbor.instruction import read_instruction

_FOR_AGENTS = ("healthcheck", "mcp_servers", "skills_dir")


def script_name(word: str, system: TaskOs) -> str:
    """Return the file name of a script, such as ``test.sh``; there is no other name and no ``test.py``."""
    return f"{word}.bat" if system is TaskOs.WINDOWS else f"{word}.sh"


def check_environment(root: Path, config: TaskConfig) -> list[str]:
    """Check that a sandbox can be made from the task; return warnings.

    Raises:
        TaskInvalid: neither an image nor anything to build one from, or a definition that leaves the task.
    """
    folder = root / "environment"
    if not folder.is_dir():
        if config.environment.docker_image:
            return []
        raise TaskInvalid(
            f"environment/: not found ({holding(root, root)}), and task.toml sets no environment.docker_image"
        )
    definitions = [
        folder / name for name in DEFINITIONS if (folder / name).exists() or (folder / name).is_symlink()
    ]
    for path in definitions:
        if not resolve_inside(root, path).is_file():
            raise TaskInvalid(f"{relative_name(root, path)}: not a regular file")
    if not definitions and not config.environment.docker_image:
        raise TaskInvalid(
            f"environment/: neither {DOCKERFILE} nor {COMPOSE_FILE} ({holding(root, folder)}), "
            "and task.toml sets no environment.docker_image"
        )
    return context_warnings(root, folder)


def check_tests(root: Path, config: TaskConfig, step: StepConfig | None = None) -> list[str]:
    """Check that the task, or one of its steps, has a script that verifies; return warnings.

    Raises:
        TaskInvalid: no script of the right name, or one that ``.harborignore`` keeps out.
    """
    folders = ([root / "steps" / step.name / "tests"] if step else []) + [root / "tests"]
    found = {folder: read_folder(root, folder) for folder in folders}
    warnings = [warning for files in found.values() for warning in files.warnings]
    definition = verifier_definition(root, config, step)
    if definition is not None and definition.bundles_tests:
        return warnings
    script = script_name("test", definition.os if definition else config.environment.os)
    present = [folder for folder in folders if (folder / script).exists()]
    if not present:
        raise TaskInvalid(_no_script(root, folders, script))
    _check_script(root, present[0] / script, found[present[0]])
    return warnings


def check_solution(root: Path, system: TaskOs, folder: Path) -> list[str]:
    """Check the reference solution, if there is one; return warnings.

    Raises:
        TaskInvalid: its script is there, but ``.harborignore`` keeps it out, or it is no regular file.
    """
    files = read_folder(root, folder)
    script = folder / script_name("solve", system)
    if script.exists():
        _check_script(root, script, files)
    return files.warnings


def check_services(root: Path, config: TaskConfig) -> None:
    """Check that there is a file that can define the services which artifacts and collect hooks name.

    Raises:
        TaskInvalid: there is none.
    """
    if (root / "environment" / COMPOSE_FILE).is_file():
        return
    for field, service in _named_services(config):
        if service not in (None, MAIN_SERVICE):
            raise TaskInvalid(
                f"task.toml: {field}.service = {service!r}: there is no environment/{COMPOSE_FILE} "
                "that could define it"
            )


def check_artifacts(config: TaskConfig) -> list[str]:
    """Return a warning for each artifact that another one leaves no place for."""
    if not config.steps:
        return overlap_warnings(config.artifacts, "task.toml: artifacts")
    found = []
    for number, step in enumerate(config.steps):
        where = f"task.toml: steps[{number}].artifacts"
        found += overlap_warnings([*config.artifacts, *step.artifacts], where)
    return found


def check_verifier_environments(config: TaskConfig) -> list[str]:
    """Return a warning for each field of a verifier's environment that means something for an agent only."""
    tables = {"verifier": config.verifier}
    tables |= {f"steps[{number}].verifier": step.verifier for number, step in enumerate(config.steps or [])}
    return [
        f"task.toml: {where}.environment.{field}: not used for a verifier, as in Harbor"
        for where, verifier in tables.items()
        for field in _FOR_AGENTS
        if verifier.environment is not None and field in verifier.environment.model_fields_set
    ]


def check_steps(root: Path, config: TaskConfig) -> list[str]:
    """Check the folder of every step of a multi-step task; return warnings.

    Raises:
        TaskInvalid: a step without folder, instruction or test script, or with a link that leaves the task.
    """
    warnings: list[str] = []
    for step in config.steps or []:
        folder = root / "steps" / step.name
        if not resolve_inside(root, folder).is_dir():
            raise TaskInvalid(
                f"{relative_name(root, folder)}/: not found, but task.toml has a step of that name"
            )
        warnings += read_folder(root, folder).warnings
        warnings += read_instruction(root, f"steps/{step.name}/instruction.md")[1]
        warnings += check_tests(root, config, step)
        warnings += check_solution(root, config.environment.os, folder / "solution")
    return warnings


def _has(folder: TaskFolder, name: str) -> bool:
    return any(file.path == name and not file.is_dir for file in folder.files)


def _check_script(root: Path, script: Path, folder: TaskFolder) -> None:
    if not script.is_file():
        raise TaskInvalid(f"{relative_name(root, script)}: not a regular file")
    if not _has(folder, script.name):
        raise TaskInvalid(f"{relative_name(root, script)}: kept out by .harborignore, but required")


def _no_script(root: Path, folders: list[Path], script: str) -> str:
    looked = " or ".join(relative_name(root, folder / script) for folder in folders)
    there = "; ".join(holding(root, folder) for folder in folders)
    return f"{looked}: not found ({there})"


def _named_services(config: TaskConfig) -> Iterator[tuple[str, str | None]]:
    """Yield each field that may name a service, and the service."""
    tables: list[tuple[str, list[Artifact], VerifierConfig]] = [("", config.artifacts, config.verifier)]
    for number, step in enumerate(config.steps or []):
        tables.append((f"steps[{number}].", step.artifacts, step.verifier))
    for where, artifacts, verifier in tables:
        for number, artifact in enumerate(artifacts):
            yield f"{where}artifacts[{number}]", artifact.service
        for number, hook in enumerate(verifier.collect):
            yield f"{where}verifier.collect[{number}]", hook.service
