"""Runs in Harbor's interpreter, never in ours: one agent of Harbor's, on a box that our process holds.

It speaks JSON, a line for each message, over what were its standard input and output. It is asked to prepare,
run and finish; meanwhile it asks for commands and files in the box.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sys
import traceback
import uuid
from collections.abc import Awaitable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from harbor.agents.factory import AgentFactory
from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.models.agent.context import AgentContext
from harbor.models.task.config import EnvironmentConfig, MCPServerConfig
from harbor.models.trial.config import AgentConfig
from harbor.models.trial.error_policy import ERROR_POLICIES
from harbor.models.trial.paths import TrialPaths

_LINE_LIMIT = 256 * 1024 * 1024


class Channel:
    """The messages to and from our process."""

    def __init__(self, reader: asyncio.StreamReader, output: Any) -> None:
        self._reader = reader
        self._output = output
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._number = 0

    async def ask(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """Have something done with the box, and return what came of it."""
        self._number += 1
        number = self._number
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            self.send({"call": number, "operation": operation, "arguments": arguments})
            return await future
        finally:
            self._waiting.pop(number, None)

    def send(self, message: dict[str, Any]) -> None:
        """Send a message."""
        self._output.write(json.dumps(message).encode() + b"\n")
        self._output.flush()

    async def requests(self) -> Any:
        """Yield what is asked of us; answers go to who waits for them. Ends when our process lets go."""
        while line := await self._reader.readline():
            message = json.loads(line)
            if "answer" not in message:
                yield message
                continue
            future = self._waiting.get(message["answer"])
            if future is None or future.done():
                continue
            if "error" in message:
                future.set_exception(RuntimeError(message["error"]))
            else:
                future.set_result(message["result"])


class Bridge(BaseEnvironment):
    """The box, as Harbor's agents know one."""

    channel: Channel

    @staticmethod
    def type() -> str:
        """Return what kind of environment it is."""
        return "rlenv"

    def _validate_definition(self) -> None:
        pass

    async def start(self, force_build: bool) -> None:
        """Do nothing: it is up."""

    async def stop(self, delete: bool) -> None:
        """Do nothing: its end is not the agent's affair."""

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        """Run a command, by the agent's user unless another one is named."""
        done = await self.channel.ask(
            "exec",
            command=command,
            cwd=cwd,
            env=self._merge_env(env) or {},
            timeout=timeout_sec,
            user=self._resolve_user(user),
        )
        if done["timed_out"]:
            raise RuntimeError(f"Command timed out after {timeout_sec} seconds")
        return ExecResult(stdout=done["stdout"], stderr=done["stderr"], return_code=done["exit_code"])

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        """Bring a file into the box."""
        await self._transfer("upload_file", source_path, target_path)

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        """Bring what is in a folder into the box."""
        await self._transfer("upload_dir", source_dir, target_dir)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        """Bring a file here."""
        await self._transfer("download_file", source_path, target_path)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        """Bring what is in a folder here."""
        await self._transfer("download_dir", source_dir, target_dir)

    async def _transfer(self, operation: str, source: Path | str, target: Path | str) -> None:
        await self.channel.ask(operation, source=str(source), target=str(target))


class Runner:
    """The agent, from its making to its end."""

    def __init__(self, channel: Channel, folder: Path) -> None:
        self._channel = channel
        self._folder = folder
        self._agent: Any = None
        self._environment: Any = None
        self._context = AgentContext()
        self._running: asyncio.Task[None] | None = None

    async def prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        """Make the agent and let it set itself up."""
        paths = TrialPaths(self._folder)
        self._environment = Bridge(
            environment_dir=self._folder,
            environment_name=request["task"],
            session_id=f"{request['session']}__env",
            trial_paths=paths,
            task_env_config=EnvironmentConfig(),
        )
        self._environment.channel = self._channel
        self._environment.default_user = request["user"]
        tools: dict[str, Any] = {}
        if request["mcp_servers"]:
            tools["mcp_servers"] = [MCPServerConfig(**server) for server in request["mcp_servers"]]
        if request["skills_dir"]:
            tools["skills_dir"] = request["skills_dir"]
        self._agent = AgentFactory.create_agent_from_config(
            AgentConfig(name=request["agent"], model_name=request["model"]),
            logs_dir=Path(request["logs"]),
            **tools,
        )
        self._agent.session_id = f"{request['session']}__agent"
        self._agent.context_id = uuid.uuid4()
        with self._environment.scoped_exec_env(self._agent.extra_env):
            await self._agent.setup(environment=self._environment)
        return {"version": self._agent.version()}

    async def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Let the agent act on an instruction."""
        agent, self._context = self._agent, AgentContext()
        agent.logs_dir = Path(request["logs"])
        act = agent.resume if request["resume"] and agent.capabilities.resume else agent.run
        with self._environment.scoped_exec_env(agent.extra_env):
            self._running = asyncio.ensure_future(
                act(
                    instruction=request["instruction"],
                    environment=self._environment,
                    context=self._context,
                )
            )
            await self._running
        return {}

    async def finish(self, request: dict[str, Any]) -> dict[str, Any]:
        """Let the agent read its logs, which are here by now, and tell what it has used."""
        if self._context.is_empty():
            self._agent.populate_context_post_run(self._context)
        found = self._context.model_dump(mode="json", exclude_none=True)
        return {"usage": {name: value for name, value in found.items() if not isinstance(value, list)}}

    def cancel(self) -> None:
        """End what the agent is doing."""
        if self._running is not None:
            self._running.cancel()


async def answer(channel: Channel, number: int, work: Awaitable[dict[str, Any]]) -> None:
    """Do what was asked for, and say how it ended."""
    try:
        channel.send({"done": number, "result": await work})
    except (Exception, asyncio.CancelledError) as error:
        names = [kind.__name__ for kind in type(error).__mro__]
        known = next((ERROR_POLICIES[name] for name in names if name in ERROR_POLICIES), None)
        channel.send(
            {
                "done": number,
                "failed": {
                    "type": type(error).__name__,
                    "message": str(error),
                    "detail": traceback.format_exc(),
                    "judged": bool(known and known.should_grade and known.has_valid_reward),
                },
            }
        )


async def serve(source: Any, output: Any, folder: Path) -> None:
    """Answer requests until our process closes the pipe."""
    reader = asyncio.StreamReader(limit=_LINE_LIMIT)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
    channel = Channel(reader, output)
    runner = Runner(channel, folder)
    tasks: set[asyncio.Task[None]] = set()
    async for request in channel.requests():
        if request["do"] == "cancel":
            runner.cancel()
            continue
        work = getattr(runner, request["do"])(request)
        task = asyncio.ensure_future(answer(channel, request["id"], work))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def check(agent: str) -> None:
    """Print which Harbor this is; fail if it has no such agent."""
    AgentFactory.get_agent_class_from_config(AgentConfig(name=agent))
    sys.stdout.write(f"{version('harbor')}\n")


def main() -> None:
    """Take the standard streams for the messages; whatever prints goes to the error stream."""
    sys.path.insert(0, str(Path.cwd()))
    if sys.argv[1] == "check":
        check(sys.argv[2])
        return
    source, output = os.fdopen(os.dup(0), "rb", 0), os.fdopen(os.dup(1), "wb", 0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    folder = Path(sys.argv[2])
    try:
        with contextlib.suppress(BrokenPipeError):
            asyncio.run(serve(source, output, folder))
    finally:  # our process removes it too, unless it was killed
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
