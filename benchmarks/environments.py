"""Environments to measure with: tasks whose scripts do next to nothing, so that what is seen is ours."""

from __future__ import annotations

from pathlib import Path

SOLVE = "#!/bin/bash\nset -e\necho hello > /app/answer.txt\n"
TEST = """\
#!/bin/bash
if [ "$(cat /app/answer.txt 2>/dev/null)" = hello ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""
DOCKERFILE = "FROM debian:bookworm-slim\nWORKDIR /app\n"
CONFIG = """\
schema_version = "1.4"

[metadata]
difficulty = "easy"
tags = ["hello"]

[agent]
timeout_sec = 120.0

[verifier]
timeout_sec = 120.0

[environment]
build_timeout_sec = 600.0
cpus = 1
memory_mb = 512
"""

FILES = {
    "task.toml": CONFIG,
    "instruction.md": "Write `hello` to `/app/answer.txt`.\n",
    "environment/Dockerfile": DOCKERFILE,
    "solution/solve.sh": SOLVE,
    "tests/test.sh": TEST,
}
"""A task, by path."""


def write_environment(folder: Path, count: int) -> Path:
    """Write ``count`` equal tasks below ``folder`` and return it."""
    for number in range(count):
        write_task(folder / f"hello-{number:05}")
    return folder


def write_task(folder: Path) -> Path:
    """Write one task and return its folder."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if path.suffix == ".sh":
            path.chmod(0o755)
    return folder
