"""One pytest run with rlenv in use, as one of its processes sees it: who it is, and what it shares.

Knows nothing of pytest. The controller makes the identity; workers are handed it, so that all of them lock,
cache and label alike.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_rlenv.agents.loading import load_agent
from pytest_rlenv.agents.protocol import Agent
from pytest_rlenv.environments.model import Environment, TaskRef
from pytest_rlenv.errors import FetchFailed, RlenvError, SpecError
from pytest_rlenv.execution import Judged, SelectedTask, execute
from pytest_rlenv.identity import MAIN, Identity, cache_root
from pytest_rlenv.sandboxes.protocol import Sandbox, SandboxContext
from pytest_rlenv.settings import Settings
from pytest_rlenv.verdict import Expectation

SHARED = ".rlenv-shared"
"""Folder of a run's own locks and notes between its processes, in the run's folder."""

STOP = "stop"
"""File among these that says why no more rollouts are started."""

REFUSALS = 3
"""Fetches in a row that may fail before the rest of a run's tasks are not asked for any more."""


class Run:
    """The run in this process."""

    def __init__(self, identity: Identity, settings: Settings, *, worker: str = MAIN) -> None:
        self.identity = identity
        self.settings = settings
        self.worker = worker
        self.cache_dir = cache_root()
        self.environments: list[Environment] = []
        self.chosen: dict[str, list[str]] = {}
        """Exact ids below an environment's name that positional arguments chose."""
        self.fetch_problem: RlenvError | None = None
        self.notify: Callable[[str], None] | None = None
        """Told in one line when something makes everybody wait, such as the Hub's rate limit."""
        self._shared = identity.run_dir / SHARED / identity.session
        self._refusals = 0
        self._sandbox: Sandbox | None = None

    # ---- environments

    def resolve(
        self,
        specs: Sequence[str],
        *,
        read_metadata: bool,
        base: Path | None = None,
        settings: Settings | None = None,
    ) -> list[Environment]:
        """Find and pin environments with their selected tasks.

        Args:
            specs: as given to ``--rlenv``.
            read_metadata: read the tasks' own metadata, for ``-m``.
            base: what relative local paths are meant against; the invocation's folder by default.
            settings: the selection to apply; the run's own by default.

        Raises:
            SpecError: with the cure, before anything is started.
        """
        import pytest_rlenv.environments.resolve as front

        chosen = settings or self.settings
        found = front.resolve(
            specs,
            base=base or self.identity.base,
            rootdir=self.identity.rootdir,
            cache_dir=self.cache_dir,
            selection=front.Selection(include=chosen.task, exclude=chosen.exclude_task, limit=chosen.limit),
            dataset=chosen.dataset,
            notify=self.notify,
        )
        if read_metadata:
            found = [
                front.read_metadata(environment, self.cache_dir, notify=self.notify) for environment in found
            ]
        return found

    def resolve_once(self, spec: str, *, read_metadata: bool, base: Path, settings: Settings) -> Environment:
        """Resolve one environment for all processes of this run: the first one asks, the others read.

        For environments that the controller does not know, because only a marker or a file names them.
        """
        from filelock import FileLock

        from pytest_rlenv.environments.model import dumps, loads

        shared = self.shared_dir()
        asked = (
            base,
            spec,
            read_metadata,
            settings.task,
            settings.exclude_task,
            settings.limit,
            settings.dataset,
        )
        key = hashlib.sha256(repr(asked).encode()).hexdigest()[:20]
        stored = shared / f"environment-{key}.json"
        with FileLock(shared / f"environment-{key}.lock"):
            if not stored.exists():
                found = self.resolve([spec], read_metadata=read_metadata, base=base, settings=settings)
                partial = stored.with_suffix(".part")
                partial.write_text(dumps(found), encoding="utf-8")
                partial.replace(stored)
        return loads(stored.read_text(encoding="utf-8"))[0]

    def fetch(self, tasks: Sequence[SelectedTask]) -> None:
        """Bring the files of the given tasks here, all of one environment in one go.

        Raises:
            RlenvError: the Hub refuses or cannot be reached.
        """
        import pytest_rlenv.environments.resolve as front

        chosen: dict[int, tuple[Environment, list[TaskRef]]] = {}
        for task in tasks:
            chosen.setdefault(id(task.environment), (task.environment, []))[1].append(task.ref)
        for environment, refs in chosen.values():
            front.fetch(environment, refs, self.cache_dir, notify=self.notify)

    def fetch_environments(self) -> None:
        """Bring the files of all selected tasks of the run's environments here.

        Raises:
            RlenvError: as :meth:`fetch`.
        """
        self.fetch(
            [SelectedTask(environment, ref) for environment in self.environments for ref in environment.tasks]
        )

    def ensure_fetched(self, task: SelectedTask) -> None:
        """Bring one task's files here, if they are not.

        A task that an earlier fetch of many did not bring is asked for once more by itself, since another
        task may have been the reason; after a few refusals in a row nobody is asked any more.

        Raises:
            FetchFailed: with what :meth:`fetch` said.
        """
        if task.folder.is_dir():
            return
        problem = self.fetch_problem
        if problem is not None and self._refusals >= REFUSALS:
            raise FetchFailed(problem.message, hint=problem.hint)
        try:
            self.fetch([task])
        except RlenvError as error:
            self.fetch_problem = error
            self._refusals += 1
            raise FetchFailed(error.message, hint=error.hint, detail=error.detail) from error
        self._refusals = 0

    # ---- stopping early

    def stop(self, why: str) -> None:
        """Have all processes of this run start no more rollouts."""
        (self.shared_dir() / STOP).write_text(why, encoding="utf-8")

    def stopped(self) -> str | None:
        """Return why no more rollouts are started, or ``None``."""
        try:
            return (self._shared / STOP).read_text(encoding="utf-8")
        except OSError:
            return None

    # ---- folders

    def shared_dir(self) -> Path:
        """Return the folder of the run's own locks and notes between processes."""
        self._shared.mkdir(parents=True, exist_ok=True)
        return self._shared

    def make_rollout_dir(self, task: SelectedTask, agent: str, attempt: int) -> Path:
        """Make the folder of one rollout's logs and return it; it is empty and nobody else's."""
        key = "\0".join(
            (task.environment.name, task.environment.revision or "", task.id, agent, str(attempt))
        )
        digest = hashlib.sha256(key.encode()).hexdigest()[:7]
        slug = re.sub(r"[^A-Za-z0-9._-]+", "-", task.id)[:32].strip("-.") or "task"
        rollouts = self.identity.run_dir / "rollouts"
        rollouts.mkdir(parents=True, exist_ok=True)
        for again in itertools.count(1):
            # More than one test may ask for the same rollout, in several processes at once.
            folder = rollouts / (f"{slug}__{digest}" if again == 1 else f"{slug}__{digest}-{again}")
            try:
                folder.mkdir()
            except FileExistsError:
                continue
            break
        return folder

    # ---- agents and sandbox

    def make_agent(self, name: str) -> Agent:
        """Return a fresh agent by name or import path.

        Raises:
            SpecError: there is none of that name, or its class cannot be made.
        """
        cls = load_agent(name)
        try:
            return cls(model=self.settings.model)
        except Exception as error:
            raise SpecError(f"agent {name}: {type(error).__name__}: {error}") from error

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox of this process, made at first use."""
        if self._sandbox is None:
            from pytest_rlenv.sandboxes.loading import create

            self._sandbox = create(self.settings.sandbox, self.sandbox_context())
        return self._sandbox

    def sandbox_context(self) -> SandboxContext:
        """Return what a sandbox is told of this run."""
        return SandboxContext(
            session=self.identity.session,
            worker=self.worker,
            cache_dir=self.cache_dir,
            run_dir=self.shared_dir(),
        )

    def execute(
        self,
        task: SelectedTask,
        agent: Agent,
        *,
        agent_name: str,
        sandbox: Sandbox,
        expectation: Expectation | None = None,
        attempt: int = 1,
    ) -> Judged:
        """Fetch the task if need be, run one rollout, judge it, and leave its record in its folder."""
        try:
            self.ensure_fetched(task)
        except RlenvError as error:
            task = replace(task, problem=error)
        judged = execute(
            task,
            agent,
            agent_name=agent_name,
            sandbox=sandbox,
            settings=self.settings,
            make_folder=lambda: self.make_rollout_dir(task, agent_name, attempt),
            expectation=expectation,
            attempt=attempt,
        )
        if judged.folder is not None:
            judged.rollout.logs = judged.folder.relative_to(self.identity.run_dir).as_posix()
        return judged

    def close(self) -> None:
        """Let go of the sandbox; a box still up is removed."""
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None


def clear_earlier_run(run_dir: Path, session: str) -> None:
    """Remove what an earlier run left in an output folder that is used again; nothing else in it.

    Args:
        run_dir: the folder.
        session: the run that begins; its own things stay.

    Raises:
        SpecError: the folder has files by our names that are no run's of ours.
    """
    present = [name for name in ("results.jsonl", "run.json", "rollouts") if (run_dir / name).exists()]
    if present and not _is_ours(run_dir / "run.json"):
        raise SpecError(
            f"--rlenv-output {run_dir}: it holds {', '.join(present)}, and not from a run of ours",
            hint="choose another folder; these would be overwritten",
        )
    old = [run_dir / name for name in present]
    old += [path for path in (run_dir / SHARED).glob("*") if path.name not in (session, "lock")]
    for path in old:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _is_ours(facts_file: Path) -> bool:
    try:
        facts = json.loads(facts_file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(facts, dict) and {"run", "pytest_rlenv"} <= facts.keys()


def machine() -> dict[str, str]:
    """Return the facts of this machine that a result depends on."""
    import platform

    return {
        "platform": platform.platform(),
        "architecture": platform.machine(),
        "python": sys.version.split()[0],
        "cpus": str(os.cpu_count() or ""),
    }
