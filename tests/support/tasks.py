"""Write task folders for tests."""

from __future__ import annotations

from pathlib import Path

SOLVES = "# scripted: touch=/app/answer"
JUDGES = "# scripted: reward-if=/app/answer"


def write_task(
    folder: Path,
    *,
    solve: str | None = SOLVES,
    test: str | None = JUDGES,
    config: str = 'schema_version = "1.4"\n',
    dockerfile: str = "FROM debian:bookworm-slim\nWORKDIR /app\n",
    instruction: str = "Write the answer.\n",
) -> Path:
    """Write a Harbor task and return its folder; scripts are bodies below a shebang."""
    files = {"task.toml": config, "instruction.md": instruction, "environment/Dockerfile": dockerfile}
    if solve is not None:
        files["solution/solve.sh"] = f"#!/bin/bash\n{solve}\n"
    if test is not None:
        files["tests/test.sh"] = f"#!/bin/bash\n{test}\n"
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def write_tasks(root: Path, **bodies: str) -> Path:
    """Write several tasks whose verifier's body is given by name; underscores in names become hyphens."""
    for name, body in bodies.items():
        write_task(root / name.replace("_", "-"), test=body)
    return root
