"""Files of environments for tests: a usual task has eight."""

from __future__ import annotations

from collections.abc import Callable

from pytest_rlenv.environments.model import Environment

Resolve = Callable[..., Environment]

CARD = "---\ntags:\n- rl-environment\n- harbor\n---\n# Tasks\n"


def task_files(folder: str, *, mark: str = "") -> dict[str, str]:
    """Return the eight files of a usual task, no two of one content."""
    return {
        f"{folder}/task.toml": f'[metadata]\ndifficulty = "easy"\ntags = ["{folder}"]\n# {mark}\n',
        f"{folder}/instruction.md": f"Do {folder} {mark}\n",
        f"{folder}/environment/Dockerfile": f"FROM scratch\n# {folder}\n",
        f"{folder}/environment/run": f"#!/bin/sh\n# {folder}\n",
        f"{folder}/tests/test.sh": f"#!/bin/bash\n# {folder}\n",
        f"{folder}/tests/test_it.py": f"# {folder}\n",
        f"{folder}/solution/solve.sh": f"echo {folder}\n",
        f"{folder}/README.md": f"# About {folder}\n",
    }


def repo_files(*names: str) -> dict[str, str]:
    """Return the files of a repository with a card and these tasks below ``tasks/``."""
    files = {"README.md": CARD}
    for name in names:
        files.update(task_files(f"tasks/{name}"))
    return files


def ids(environment: Environment) -> list[str]:
    """Return the ids of the selected tasks."""
    return [task.id for task in environment.tasks]
