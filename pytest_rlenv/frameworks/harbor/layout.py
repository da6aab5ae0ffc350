"""What must be in a task's folder for it to be a task; each thing that is missing is named.

Harbor 0.26 drops a folder that breaks one of these rules without a word.
"""

from __future__ import annotations

from pathlib import Path

from pytest_rlenv.errors import TaskInvalid
from pytest_rlenv.frameworks.harbor.config import StepConfig, TaskConfig, VerifierMode
from pytest_rlenv.frameworks.harbor.environment_config import TaskOs
from pytest_rlenv.frameworks.harbor.files import TaskFolder, is_lfs_pointer, read_folder
from pytest_rlenv.frameworks.harbor.inside import holding, relative_name, resolve_inside
from pytest_rlenv.frameworks.harbor.instruction import read_instruction

DOCKERFILE = "Dockerfile"
COMPOSE_FILE = "docker-compose.yaml"
_DEFINITIONS = (DOCKERFILE, COMPOSE_FILE)
_LFS_POINTER_MAX = 1024


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
        folder / name for name in _DEFINITIONS if (folder / name).exists() or (folder / name).is_symlink()
    ]
    for path in definitions:
        if not resolve_inside(root, path).is_file():
            raise TaskInvalid(f"{relative_name(root, path)}: not a regular file")
    if not definitions and not config.environment.docker_image:
        raise TaskInvalid(
            f"environment/: neither {DOCKERFILE} nor {COMPOSE_FILE} ({holding(root, folder)}), "
            "and task.toml sets no environment.docker_image"
        )
    return _lfs_warnings(root, folder)


def check_tests(root: Path, config: TaskConfig, step: StepConfig | None = None) -> list[str]:
    """Check that the task, or one of its steps, has a script that verifies; return warnings.

    Raises:
        TaskInvalid: no script of the right name, or one that ``.harborignore`` keeps out.
    """
    folders = ([root / "steps" / step.name / "tests"] if step else []) + [root / "tests"]
    found = {folder: read_folder(root, folder) for folder in folders}
    warnings = [warning for files in found.values() for warning in files.warnings]
    if bundles_tests(root, config, step):
        return warnings
    script = script_name("test", _verifier_os(config, step))
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


def bundles_tests(root: Path, config: TaskConfig, step: StepConfig | None = None) -> bool:
    """True if a separate verifier's image holds the tests, so that none are needed here."""
    if config.verifier_mode(step) is VerifierMode.SHARED:
        return False
    places = [(config.verifier.environment, root / "tests")]
    if step is not None:
        places.insert(0, (step.verifier.environment, root / "steps" / step.name / "tests"))
    return any(
        (environment is not None and environment.docker_image)
        or any((folder / name).is_file() for name in _DEFINITIONS)
        for environment, folder in places
    )


def _verifier_os(config: TaskConfig, step: StepConfig | None) -> TaskOs:
    if config.verifier_mode(step) is VerifierMode.SHARED:
        return config.environment.os
    own = (step.verifier.environment if step else None) or config.verifier.environment
    return own.os if own is not None and "os" in own.model_fields_set else config.environment.os


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


def _lfs_warnings(root: Path, folder: Path) -> list[str]:
    """Name git-lfs pointers in a build context: the image would hold them instead of the files."""
    found = []
    for path in sorted(folder.rglob("*")):
        try:
            small = path.is_file() and path.stat().st_size < _LFS_POINTER_MAX
            if small and is_lfs_pointer(path.read_bytes()):
                found.append(f"{relative_name(root, path)}: a git-lfs pointer, not the file itself")
        except OSError:
            continue  # the build will say so
    return found
