"""The floor without an engine: two bubblewrap commands over an image's files, with an overlay for each task.

    python -m benchmarks.bare_bwrap FOLDER ROOTFS PARALLEL

Runs each task's own scripts once and prints the sum of the rewards. The network is the machine's, as for
tasks that say nothing of it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pytest_rlenv.sandboxes.local.bwrap import candidates


def main() -> None:
    """Run all tasks of a folder."""
    folder, root, parallel = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    binary = next(str(binary.path) for binary in candidates() if binary.overlay)
    tasks = sorted(path.parent for path in folder.glob("*/task.toml"))
    with tempfile.TemporaryDirectory(dir=root.parent) as base, ThreadPoolExecutor(parallel) as pool:
        print(sum(pool.map(lambda task: _rollout(task, root, binary, Path(base)), tasks)))


def _rollout(task: Path, root: Path, binary: str, base: Path) -> float:
    folder = base / task.name
    for name in ("upper/solution", "upper/tests", "upper/logs/verifier", "work"):
        (folder / name).mkdir(parents=True)
    shutil.copy(task / "solution/solve.sh", folder / "upper/solution")
    _execute(binary, root, folder, "/solution/solve.sh")
    shutil.copy(task / "tests/test.sh", folder / "upper/tests")
    _execute(binary, root, folder, "/tests/test.sh")
    reward = float((folder / "upper/logs/verifier/reward.txt").read_text())
    shutil.rmtree(folder)
    return reward


def _execute(binary: str, root: Path, folder: Path, script: str) -> None:
    overlay = ("--overlay-src", str(root), "--overlay", str(folder / "upper"), str(folder / "work"), "/")
    spaces = ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent")
    mounts = ("--proc", "/proc", "--dev", "/dev", "--chdir", "/app", "--clearenv")
    command = [binary, *overlay, *spaces, *mounts, "/bin/bash", script]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True)


if __name__ == "__main__":
    main()
