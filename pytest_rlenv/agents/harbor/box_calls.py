"""What Harbor's agents ask of an environment, done with our box."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_rlenv.agents.protocol import AgentBox
from pytest_rlenv.sandboxes.model import Entry
from pytest_rlenv.text import decode

FILE_CAP = 256 * 1024 * 1024
"""Bytes of one file, or of one folder, that are brought from the box."""


class BoxCalls:
    """The box of one rollout.

    Args:
        box: as the agent may use it.
    """

    def __init__(self, box: AgentBox) -> None:
        self._box = box

    def __call__(self, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Do one operation.

        Raises:
            AgentTimedOut: the agent's time is up.
            RlenvError, OSError: it could not be done.
        """
        operations: dict[str, Callable[..., dict[str, Any]]] = {
            "exec": self._exec,
            "upload_file": self._upload_file,
            "upload_dir": self._upload_dir,
            "download_file": self._download_file,
            "download_dir": self._download_dir,
        }
        return operations[operation](**arguments)

    def _exec(
        self,
        *,
        command: str,
        cwd: str | None,
        env: dict[str, str],
        timeout: float | None,
        user: str | int | None,
    ) -> dict[str, Any]:
        done = self._box.run(command, env=env, cwd=cwd, user=user, timeout=timeout)
        return {
            "stdout": decode(done.stdout),
            "stderr": decode(done.stderr),
            "exit_code": -1 if done.exit_code is None else done.exit_code,
            "timed_out": done.timed_out,
        }

    def _upload_file(self, *, source: str, target: str) -> dict[str, Any]:
        path = Path(source)
        name = target.rstrip("/")
        if target.endswith("/") or self._is_folder(name):
            name = f"{name}/{path.name}"
        self._box.put([_entry(path, name.lstrip("/"))])
        return {}

    def _upload_dir(self, *, source: str, target: str) -> dict[str, Any]:
        root = target.strip("/")
        self._box.put([Entry(root, mode=0o755), *_entries(Path(source), root)])
        return {}

    def _download_file(self, *, source: str, target: str) -> dict[str, Any]:
        path = Path(target)
        if path.is_dir():
            path /= PurePosixPath(source).name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self._box.get(source, cap=FILE_CAP))
        return {}

    def _download_dir(self, *, source: str, target: str) -> dict[str, Any]:
        self._box.get_tree(source, Path(target), cap=FILE_CAP)
        return {}

    def _is_folder(self, path: str) -> bool:
        return self._box.run(["test", "-d", path or "/"], user="root").exit_code == 0


def _entries(root: Path, where: str) -> Iterator[Entry]:
    for folder, folders, files in os.walk(root):
        inside = Path(folder).relative_to(root)
        for name in folders:
            yield Entry(f"{where}/{(inside / name).as_posix()}", mode=0o755)
        for name in files:
            yield _entry(Path(folder, name), f"{where}/{(inside / name).as_posix()}")


def _entry(path: Path, name: str) -> Entry:
    return Entry(name, source=path, mode=stat.S_IMODE(path.stat().st_mode))
