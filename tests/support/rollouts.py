"""Run one rollout of a Harbor task in the scripted sandbox, without pytest around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from support.scripted import ScriptedBox, ScriptedSandbox

from pytest_rlenv.agents.oracle import OracleAgent
from pytest_rlenv.agents.protocol import Agent, AgentContext, AgentOutcome
from pytest_rlenv.errors import RlenvError, Unsupported
from pytest_rlenv.frameworks.context import RolloutContext
from pytest_rlenv.frameworks.harbor.lifecycle import HarborRollout
from pytest_rlenv.frameworks.harbor.task import load_task
from pytest_rlenv.rollout import Rollout, StageClock
from pytest_rlenv.sandboxes.model import Entry, SandboxContext


@dataclass
class Done:
    """What became of a rollout."""

    rollout: Rollout
    folder: Path
    sandbox: ScriptedSandbox
    error: RlenvError | None = None
    skipped: str = ""

    @property
    def boxes(self) -> list[ScriptedBox]:
        return self.sandbox.boxes

    def codes(self) -> list[str]:
        return [note.code for note in self.rollout.notes]


class Scripted(Agent):
    """Writes files into the box, by step; remembers what it was given."""

    def __init__(self, *files: str, model: str | None = None) -> None:
        super().__init__(model)
        self.files = files
        self.given: list[AgentContext] = []
        self.seen: list[set[str]] = []
        self.prepared = 0

    def prepare(self, context: AgentContext) -> None:
        self.prepared += 1

    def run(self, context: AgentContext) -> AgentOutcome:
        self.given.append(context)
        box = context.box._box
        assert isinstance(box, ScriptedBox)
        self.seen.append(set(box.files))
        context.box.put([Entry(name, b"made by the agent") for name in self.files])
        (context.logs / "own.log").write_text(context.step)
        return AgentOutcome(usage={"tokens": 10, "model": f"m{len(self.given)}"})


@dataclass
class Runner:
    """Runs rollouts below a folder."""

    tmp: Path
    count: int = 0
    environ: Mapping[str, str] = field(default_factory=dict)

    def __call__(
        self, task: Path, agent: Agent | None = None, *, level: str = "shared", extra: tuple[str, ...] = ()
    ) -> Done:
        self.count += 1
        base = self.tmp / f"run{self.count}"
        folder = base / "rollout"
        folder.mkdir(parents=True)
        rollout = Rollout(environment="env", framework="harbor", task="t", agent="a")
        done = Done(rollout, folder, ScriptedSandbox(SandboxContext("s", "main", base / "cache", base)))
        context = RolloutContext(
            agent=agent or OracleAgent(),
            sandbox=done.sandbox,
            rollout=rollout,
            clock=StageClock(rollout),
            folder=folder,
            environ=self.environ,
            verifier_level=level,
            extra_instructions=extra,
        )
        try:
            HarborRollout(load_task(task, "t"), context).run()
        except RlenvError as error:
            done.error = error
        except Unsupported as reason:
            done.skipped = reason.reason
        assert not any(box.mark.exists() for box in done.boxes), "a box was left"
        return done


def write_steps(root: Path, config: str, steps: Mapping[str, Mapping[str, str]], **files: str) -> Path:
    """Write a task with steps; files are bodies of scripts below a shebang, or texts, by path.

    Args:
        root: its folder.
        config: its ``task.toml``.
        steps: files of each step, relative to its folder; an instruction is written if there is none.
        files: further files of the task, with ``__`` for ``/``.
    """
    found = {"task.toml": config, "environment/Dockerfile": "FROM debian:bookworm-slim\nWORKDIR /app\n"}
    for name, own in steps.items():
        found |= {
            f"steps/{name}/{path}": text for path, text in {"instruction.md": f"do {name}", **own}.items()
        }
    found |= {path.replace("__", "/"): text for path, text in files.items()}
    for path, text in found.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"#!/bin/bash\n{text}\n" if path.endswith(".sh") else text)
    return root
