"""A box whose fixed places are in a folder of the test, where programs find them by their variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from support.host_box import HostBox, context_of

from pytest_rlenv.agents.protocol import AgentBox, AgentContext
from pytest_rlenv.errors import SandboxFailed
from pytest_rlenv.sandboxes.model import Completed, Entry
from pytest_rlenv.sandboxes.protocol import Box

PLACES = ("/tmp/rlenv-agent", "/logs/agent", "/opt/rlenv-agents")


class MovedBox(HostBox):
    def run(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, **more: Any) -> Completed:
        moved = {name: self.moved(value) for name, value in (env or {}).items()}
        done = super().run([self.moved(each) for each in argv], env=moved, **more)
        return replace(done, stdout=done.output)

    def get(self, path: str, *, cap: int) -> bytes:
        try:
            return (self.folder / path.lstrip("/")).read_bytes()
        except OSError as error:
            raise SandboxFailed(str(error)) from error

    def put(self, entries: Iterable[Entry], dest: str = "/") -> None:
        for entry in entries:
            path = self.folder / entry.path
            if entry.is_dir:
                path.mkdir(parents=True, exist_ok=True)
            elif entry.source is not None:
                super().put([replace(entry, content=entry.source.read_bytes(), source=None)], dest)
            else:
                super().put([entry], dest)

    def moved(self, text: str) -> str:
        for place in PLACES:
            text = text.replace(place, f"{self.folder}{place}")
        return text


def moved_context(tmp: Path, *args: Any, **more: Any) -> AgentContext:
    """Return a context with such a box; see :func:`support.host_box.context_of`."""
    context = context_of(tmp, *args, **more)
    deadline = context.box._deadline
    context.box = AgentBox(cast("Box", MovedBox(tmp / "box")), user=None, env={}, cwd=None, deadline=deadline)
    return context
