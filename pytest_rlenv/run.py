"""One pytest run with rlenv in use, as one of its processes sees it: who it is, and what it shares.

Knows nothing of pytest. The controller makes the identity; workers are handed it, so that all of them lock,
cache and label alike.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pytest_rlenv.agents.loading import load_agent, split_agent, version_with_variant
from pytest_rlenv.agents.protocol import Agent
from pytest_rlenv.environments.model import Environment
from pytest_rlenv.errors import RlenvError, SandboxFailed, SpecError, Stage
from pytest_rlenv.execution import SelectedTask
from pytest_rlenv.fetching import Fetching
from pytest_rlenv.frameworks.kept import Kept
from pytest_rlenv.identity import MAIN, Identity, cache_root
from pytest_rlenv.images_ahead import ImagesAhead
from pytest_rlenv.resuming.earlier import Earlier
from pytest_rlenv.rules.budgets import time_is_up
from pytest_rlenv.rules.of_run import Rules
from pytest_rlenv.rules.retries import Retries
from pytest_rlenv.run_folder import SHARED, new_rollout_dir, unfinished_dirs
from pytest_rlenv.sandboxes.loading import AUTO
from pytest_rlenv.sandboxes.model import SandboxContext
from pytest_rlenv.sandboxes.protocol import Sandbox
from pytest_rlenv.settings import Settings
from pytest_rlenv.stop_flag import StopFlag
from pytest_rlenv.under_way import UnderWay


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
        self.fetching = Fetching(self.cache_dir, notify=self._say)
        self.notify: Callable[[str], None] | None = None
        """Told in one line when something makes everybody wait, such as the Hub's rate limit."""
        self.under_way = UnderWay()
        self.following: SelectedTask | None = None
        """The task of the test after the current one, whose images can be prepared meanwhile."""
        self._shared = identity.run_dir / SHARED / identity.session
        self._stop = StopFlag(self._shared)
        self._images = ImagesAhead(build=settings.build, stopped=self.stopped)
        self.deadline: float | None = None
        """On this machine's monotonic clock, when no more rollouts are started."""
        self.rules = Rules()
        self._closing = threading.Event()
        self.retries = Retries(
            settings.retries, settings.retry_on, stopped=self.stopped, closing=self._closing, notify=self._say
        )
        self.earlier: Earlier | None = None
        """The run that this one resumes."""
        if settings.resume is not None:
            path = identity.base / settings.resume.expanduser()
            self.earlier = Earlier(path, session=identity.session, run_dir=identity.run_dir)
        self.kept = Kept()
        """What this process keeps up between rollouts."""
        self.sandbox_name = None if settings.sandbox == AUTO else settings.sandbox
        """By which name all processes of the run make their sandbox; ``None`` while it is to be chosen."""
        self._sandbox: Sandbox | None = None
        self._sandbox_lock = threading.Lock()
        self._closed = False

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
        from pytest_rlenv.frameworks.finders import others

        chosen = settings or self.settings
        found = front.resolve(
            specs,
            base=base or self.identity.base,
            rootdir=self.identity.rootdir,
            cache_dir=self.cache_dir,
            selection=front.Selection(include=chosen.task, exclude=chosen.exclude_task, limit=chosen.limit),
            dataset=chosen.dataset,
            others=others(chosen, self.sandbox_context, self.kept),
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
            settings.framework,
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

    def fetch_environments(self) -> None:
        """Bring the files of all selected tasks of the run's environments here.

        Raises:
            RlenvError: as :meth:`Fetching.fetch`.
        """
        self.fetching.fetch(
            [SelectedTask(environment, ref) for environment in self.environments for ref in environment.tasks]
        )

    # ---- stopping early

    def stop(self, why: str) -> None:
        """Have all processes of this run start no more rollouts."""
        self._stop.set(why)

    def stopped(self) -> str | None:
        """Return why no more rollouts are started, or ``None``."""
        if self.deadline is not None and time.monotonic() >= self.deadline:
            self.stop(time_is_up(self.settings.max_seconds or 0.0))
        return self._stop.get()

    def _say(self, line: str) -> None:
        if self.notify is not None:
            self.notify(line)

    # ---- folders

    def shared_dir(self) -> Path:
        """Return the folder of the run's own locks and notes between processes."""
        self._shared.mkdir(parents=True, exist_ok=True)
        return self._shared

    def make_rollout_dir(self, task: SelectedTask, agent: str, attempt: int) -> Path:
        """Make the folder of one rollout's logs and return it; it is empty and nobody else's."""
        key = _key(task.environment.name, task.environment.revision, task.id, agent, attempt)
        return new_rollout_dir(self.identity.run_dir, task.id, key)

    def unfinished_dirs(
        self, environment: str, revision: str | None, task: str, agent: str, attempt: int
    ) -> list[Path]:
        """Return the folders of one rollout's logs that no record tells of."""
        key = _key(environment, revision, task, agent, attempt)
        return unfinished_dirs(self.identity.run_dir, task, key)

    # ---- agents and sandbox

    def make_agent(self, name: str) -> Agent:
        """Return a fresh agent by name or import path.

        Raises:
            SpecError: there is none of that name, or its class cannot be made.
        """
        cls = load_agent(name)
        try:
            agent = cls(model=self.settings.model)
        except Exception as error:
            raise SpecError(f"agent {name}: {type(error).__name__}: {error}") from error
        agent.variant = split_agent(name).variant
        if agent.variant:
            agent.version = version_with_variant(agent.version, agent.variant)
        return agent

    def check_agents(self) -> None:
        """See that each agent has what it needs, before anything is started.

        Raises:
            SpecError: what one lacks: a model, a key, a file, a program.
        """
        for name in self.settings.agent:
            agent = self.make_agent(name)
            try:
                if agent.needs_model:
                    from pytest_rlenv.model_proxy.access import ModelAccess

                    ModelAccess.of(self.settings, os.environ)
                agent.check()
            except RlenvError:
                raise
            except Exception as error:
                raise SpecError(f"agent {name}: its check raised {type(error).__name__}: {error}") from error

    def check_sandbox(self) -> None:
        """See that boxes can be started, and choose where if the user did not.

        Raises:
            EngineUnavailable: none can. SpecError: the sandbox cannot be made.
        """
        if self.sandbox_name is None:
            from pytest_rlenv.sandbox_choice import choose_for_tasks

            self.sandbox_name, self._sandbox = choose_for_tasks(self)
        else:
            self.sandbox.check()

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox of this process, made at first use; raises as :meth:`check_sandbox` does."""
        with self._sandbox_lock:
            if self._sandbox is None:
                if self._closed:
                    raise SandboxFailed("the run has ended: no sandbox is made any more", stage=Stage.START)
                from pytest_rlenv.sandbox_choice import sandbox_of

                self.sandbox_name, self._sandbox = sandbox_of(self)
            return self._sandbox

    def sandbox_context(self) -> SandboxContext:
        """Return what a sandbox is told of this run."""
        return SandboxContext(
            session=self.identity.session,
            worker=self.worker,
            cache_dir=self.cache_dir,
            run_dir=self.shared_dir(),
            min_free=self.settings.min_free,
            notify=self.notify,
            allow_unsafe_compose=self.settings.allow_unsafe_compose,
        )

    def prepare_following(self, task: SelectedTask, sandbox: Sandbox) -> None:
        """Begin with the images of the next test's task, now that this one's is about to run."""
        following = self.following
        if following is not None and self.earlier is not None:
            following = None if self.earlier.has(following.environment.name, following.id) else following
        if following is not None and sandbox is self._sandbox:
            self._images.begin(sandbox, task, following)

    def close(self) -> None:
        """Let go of the sandbox and all that is kept: what is up is removed, nothing is started any more.

        May be called twice.
        """
        self._closing.set()
        with self._sandbox_lock:
            sandbox = None if self._closed else self._sandbox
            self._closed = True
        self._images.close()
        self.kept.close()
        if sandbox is not None:
            sandbox.close()


def _key(environment: str, revision: str | None, task: str, agent: str, attempt: int) -> tuple[str, ...]:
    """Return what tells a rollout's folder from others."""
    return (environment, revision or "", task, agent, str(attempt))
