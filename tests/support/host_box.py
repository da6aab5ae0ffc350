"""A box without a sandbox: commands run on this machine, in a folder of the test's. For agents' own parts."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from pytest_rlenv.agents.protocol import AgentBox, AgentContext
from pytest_rlenv.sandboxes.model import Completed, Entry
from pytest_rlenv.sandboxes.protocol import Box

TIME_IS_UP = "# the time is up"
"""At the end of a command: the agent's time runs out while it runs."""


class HostBox:
    """What an :class:`AgentBox` asks of a box; ``/`` of the files that are put is the folder, too."""

    id = "host"
    agent_box: AgentBox | None = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ran: list[list[str]] = []
        folder.mkdir(parents=True, exist_ok=True)

    def run(
        self,
        argv: Sequence[str],
        *,
        user: str | int | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        cap: int = 1 << 20,
    ) -> Completed:
        self.ran.append(list(argv))
        begin = time.monotonic()
        process = subprocess.Popen(
            argv,
            cwd=cwd or self.folder,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=timeout)
            late = False
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            output, _ = process.communicate()
            late = True
        kept = output
        if len(output) > cap:
            kept = output[: cap // 2] + b"\n[... %d bytes left out ...]\n" % (len(output) - cap)
            kept += output[-(cap // 2) :]
        if argv[-1].endswith(TIME_IS_UP) and self.agent_box is not None:
            self.agent_box.revoke()
            late = True
        return Completed(
            None if late else process.returncode,
            output=kept,
            output_bytes=len(output),
            timed_out=late,
            seconds=time.monotonic() - begin,
        )

    def put(self, entries: Iterable[Entry], dest: str = "/") -> None:
        for entry in entries:
            path = self.folder / dest.strip("/") / entry.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(entry.content or b"")


def context_of(
    tmp: Path, instruction: str = "Do it.", *, deadline: float | None = None, **more: Any
) -> AgentContext:
    """Return a context whose box is a folder below ``tmp``, and whose logs are beside it.

    Args:
        tmp: the test's own folder.
        instruction: for the agent.
        deadline: seconds that the agent has; ``None`` is no limit.
        more: other fields of the context.
    """
    logs = tmp / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    box = HostBox(tmp / "box")
    end = None if deadline is None else time.monotonic() + deadline
    box.agent_box = AgentBox(cast("Box", box), user=None, env={}, cwd=None, deadline=end)
    return AgentContext(instruction=instruction, box=box.agent_box, logs=logs, **more)


def host_box(context: AgentContext) -> HostBox:
    return cast("HostBox", context.box._box)
