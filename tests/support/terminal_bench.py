"""Write Terminal-Bench 1 tasks for tests."""

from __future__ import annotations

from pathlib import Path

CONFIG = """\
instruction: Write the answer.
difficulty: hard
category: file-operations
tags: [slow, tool use]
max_agent_timeout_sec: 900.0
max_test_timeout_sec: 180.0
"""
COMPOSE = """\
services:
  client:
    build:
      dockerfile: Dockerfile
    image: ${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}
    environment:
      - TEST_DIR=${T_BENCH_TEST_DIR}
"""
SUMMARY = "# scripted: print=== short test summary info ==\n"
PASSES = f"{SUMMARY}# scripted: print=PASSED test_outputs.py::test_it\n"
FAILS = f"{SUMMARY}# scripted: print=FAILED test_outputs.py::test_it - assert 0\n"


def write_terminal_bench_task(folder: Path, files: dict[str, str | None] | None = None) -> Path:
    """Write a task whose tests pass in the scripted sandbox, and return its folder.

    Args:
        folder: the task's.
        files: further files, or other texts for the usual ones, by path; ``None`` leaves one out.
    """
    found: dict[str, str | None] = {
        "task.yaml": CONFIG,
        "docker-compose.yaml": COMPOSE,
        "Dockerfile": "FROM debian:bookworm-slim\nWORKDIR /app\n",
        "run-tests.sh": PASSES,
        "tests/test_outputs.py": "def test_it(): pass\n",
        "solution.sh": "echo 42 > /app/answer\n",
        **(files or {}),
    }
    for name, text in found.items():
        if text is not None:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return folder
