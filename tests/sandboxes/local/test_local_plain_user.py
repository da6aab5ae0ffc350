"""The same cases as a user who is nobody on this machine, by running the other tests as one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

UID = 65534
LOCAL = "tests/sandboxes/local"
CONFORMANCE = "tests/sandboxes/conformance"
TESTS = {
    "no engine": (
        CONFORMANCE,
        f"{LOCAL}/test_local_box.py",
        f"{LOCAL}/test_local_isolation.py",
        f"{LOCAL}/test_local_leftovers.py",
    ),
    "engine": (f"{LOCAL}/test_local_images.py",),
}
CHOSEN = (
    "isolation or leftovers or images or users or root_by or fork_bomb or process_id or memory or trap"
    " or put_owner or replaces or locked or tree_t or lead_nowhere or entrypoint_that_becomes"
    " or entrypoint_that_waits or closed or stopped or killed or descriptors or allowed_hosts"
)
"""What goes another way without root: owners, modes, limits and the ends of processes."""
DOCKER_SOCKET = Path("/var/run/docker.sock")


def python_for_others() -> str | None:
    """An interpreter of this version that everybody may run."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for path in (sys.executable, shutil.which(version, path="/usr/bin:/usr/local/bin:/bin")):
        try:
            if path and as_nobody([path, "-c", "import ctypes"]).returncode == 0:
                return path
        except PermissionError:
            continue
    return None


def as_nobody(argv: list[str], **options: object) -> subprocess.CompletedProcess[str]:
    groups = [DOCKER_SOCKET.stat().st_gid] if DOCKER_SOCKET.exists() else []
    return subprocess.run(
        argv,
        capture_output=True,
        text=True,
        user=UID,
        group=UID,
        extra_groups=groups,
        cwd="/",
        check=False,
        **options,
    )


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that another user can get to, unlike pytest's own temporary ones."""
    with tempfile.TemporaryDirectory(prefix="rlenv-test-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="these tests are run by a plain user already")
@pytest.mark.parametrize("which", ["no engine", pytest.param("engine", marks=pytest.mark.docker)])
def test_as_a_plain_user(which: str, home: Path) -> None:
    python = python_for_others()
    if python is None:
        pytest.skip("no interpreter of this version that another user may run")
    root = Path(__file__).parents[3]
    shutil.copytree(root, home / "project", ignore=_all_but_the_package_and_its_tests)
    subprocess.run(["chown", "-R", f"{UID}:{UID}", str(home)], check=True)
    site = [path for path in sys.path if path.endswith("site-packages")]
    done = as_nobody(
        [
            *(python, "-B", "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-p", "no:xdist"),
            *("--rootdir", str(home / "project"), "-c", str(home / "project/pyproject.toml")),
            *(
                "-k",
                CHOSEN,
                "--basetemp",
                str(home / "tmp"),
                "-m",
                "docker" if which == "engine" else "not docker",
            ),
            *(str(home / "project" / name) for name in TESTS[which]),
        ],
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(home),
            "PYTHONPATH": ":".join([str(home / "project"), *site]),
        },
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    summary = done.stdout.strip().splitlines()[-1]
    assert "passed" in summary
    assert "no local boxes on this machine" not in done.stdout


def _all_but_the_package_and_its_tests(folder: str, names: list[str]) -> list[str]:
    kept = {"pytest_rlenv", "tests", "pyproject.toml", "README.md", "LICENSE"}
    if Path(folder) == Path(__file__).parents[3]:
        return [name for name in names if name not in kept]
    return [name for name in names if name == "__pycache__"]
