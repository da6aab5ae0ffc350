from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HEAVY = (
    "huggingface_hub",
    "yaml",
    "pydantic",
    "docker",
    "requests",
    "httpx",
    "httpx2",
    "packaging",
    "filelock",
)
CHILD = f"""
import sys
from pathlib import Path
from pytest_rlenv.environments.resolve import Selection, resolve
where = Path(sys.argv[1])
resolve([str(where)], base=where, rootdir=where, cache_dir=where, selection=Selection())
print([name for name in {HEAVY} if name in sys.modules])
"""


def test_a_local_environment_needs_nothing_heavy(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/task.toml").touch()
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path)],
        env=os.environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"
