from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import BaseModel

STARTED = "FAKE_DOCKER"
"""A file that a container's run word is written to when one starts; without it no engine answers."""


class SubprocessConfig(BaseModel):
    type: Literal["subprocess"] = "subprocess"


class DockerConfig(BaseModel):
    type: Literal["docker"] = "docker"


class ProgramResult(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str


class Runtime:
    def __init__(self, config, env) -> None:
        self.config = config
        self.env = dict(env or {})
        self.folder = ""

    async def run(self, argv, env=None):
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=self.folder,
            env={**os.environ, **self.env, **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = await process.communicate()
        return ProgramResult(process.returncode, out.decode(), err.decode())


@contextlib.asynccontextmanager
async def provision_runtime(config, name=None, env=None):
    runtime = Runtime(config, env)
    if config.type == "docker":
        started = os.environ.get(STARTED)
        if started is None:
            raise RuntimeError("docker runtime selected but the engine is not reachable: no engine")
        with Path(started).open("a") as file:
            file.write(os.environ["VF_RUN_ID"] + "\n")
    with tempfile.TemporaryDirectory() as folder:
        runtime.folder = folder
        yield runtime
