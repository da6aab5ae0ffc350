"""NeMo Gym behind the one interface that the rest of the package knows."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_rlenv.agents.episode import Player
from pytest_rlenv.agents.protocol import Agent
from pytest_rlenv.errors import RewardMissing, SandboxFailed, SpecError, Stage, TaskInvalid, Unsupported
from pytest_rlenv.frameworks.context import RolloutContext
from pytest_rlenv.frameworks.nemo_gym.acting import Act, plan, replays_rows
from pytest_rlenv.frameworks.nemo_gym.finding import SERVERS
from pytest_rlenv.frameworks.nemo_gym.index import Index, find_python, index_of
from pytest_rlenv.frameworks.nemo_gym.judging import Judgement
from pytest_rlenv.frameworks.nemo_gym.recorded import RESPONSE, Recorded, recorded_rollout
from pytest_rlenv.frameworks.nemo_gym.resolving import ServerSpec, resolve_server
from pytest_rlenv.frameworks.nemo_gym.rows import read_row
from pytest_rlenv.frameworks.nemo_gym.server import RunningServer, Server
from pytest_rlenv.frameworks.nemo_gym.session import Session
from pytest_rlenv.frameworks.nemo_gym.sharing import Sharing
from pytest_rlenv.frameworks.nemo_gym.started_server import START_LIMIT, Start, StartedServer
from pytest_rlenv.frameworks.protocol import NOTHING
from pytest_rlenv.sandboxes.model import ImageSpec
from pytest_rlenv.verdict import number

if TYPE_CHECKING:
    from pytest_rlenv.settings import Settings

MARKS_FAILURES = (0, 5)
"""The version of NeMo Gym from which on servers say that their judge failed."""


class LoadedRow:
    """A row, ready to run.

    Args:
        root: the environment's.
        name: the row's id.
        data: what the finder noted of it.
        row: the row itself.
    """

    reward_key: str | None = None
    reward_range: tuple[float, float] | None = None
    warnings: tuple[str, ...] = ()

    def __init__(self, root: Path, name: str, data: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        self._root = root
        self._name = name
        self._data = data
        self._row = row

    @cached_property
    def digest(self) -> str:
        """``sha256:...`` over the row, however it is written."""
        text = json.dumps(self._row, sort_keys=True, separators=(",", ":"))
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

    @property
    def expectations(self) -> Mapping[str, str]:
        """None: a row has no place for them."""
        return {}

    def expected_of(self, agent: Agent, attempt: int) -> tuple[str, str] | None:
        """Return what the reward must be: the recorded one, for an agent that replays.

        Raises:
            RlenvError: what is replayed cannot be read.
        """
        recorded = self._recorded(agent, attempt)
        if recorded is None or recorded.reward is None or recorded.expectation is None:
            return None
        return recorded.expectation, f"the recorded reward {number(recorded.reward)}, {recorded.where}"

    def run(self, context: RolloutContext) -> None:
        """Run one rollout.

        Raises:
            Unsupported: the agent has nothing to do with this row, or its server needs what is not there.
            RlenvError: there is no reward.
        """
        python = find_python(context.settings.nemo_python) or sys.executable
        spec, index = self._server_of(context.settings, python)
        act = plan(context, self._row, spec, lambda: self._recorded(context.agent, context.rollout.attempt))
        sharing = self._sharing(context, spec, index)
        try:
            try:
                self._run_on(sharing.with_others(), context, act)
            except _EndedForAnother:
                self._run_on(sharing.with_others(), context, act, last=True)
            except _DiedInCompany:
                with sharing.alone() as server:
                    self._run_on(server, context, act, last=True)
        except RewardMissing as error:
            if context.settings.nemo_judge_url is None and _lacks_judge(error, spec):
                raise _needs_judge(spec) from error
            raise

    def _run_on(self, server: Server, context: RolloutContext, act: Act, *, last: bool = False) -> None:
        log_begin = server.log_size
        with server.visit() as visit:
            session = Session(server, self._row, context.agent.name, multiplier=context.timeout_multiplier)
            try:
                with context.clock.stage(Stage.AGENT_SETUP):
                    session.begin()
                response = act(session)
                self._tell(context, response or session.response())
                with context.clock.stage(Stage.VERIFY):
                    judgement = session.judge(response)
            except SandboxFailed as error:
                if last or _plays(context.agent):
                    raise
                if server.ended_for_hanging:
                    raise _EndedForAnother(error.message, detail=error.detail, stage=error.stage) from error
                if server.died and visit.accompanied:
                    raise _DiedInCompany(error.message, detail=error.detail, stage=error.stage) from error
                raise
            finally:
                session.close()
                if log := server.log_from(log_begin):
                    _leave(context.folder / "verifier" / "server.log", log)
        _write(context, judgement)

    def _tell(self, context: RolloutContext, response: Mapping[str, Any]) -> None:
        """Leave what is judged, and a trajectory for readers."""
        from pytest_rlenv.frameworks.nemo_gym.retelling import leave_trajectory
        from pytest_rlenv.trajectory.model import AgentInfo

        folder, rollout = context.folder / "agent", context.rollout
        _leave(folder / RESPONSE, response)
        agent = AgentInfo(name=rollout.agent, version=rollout.agent_version or "0", model_name=rollout.model)
        leave_trajectory(folder, agent, self._row, response)

    # ---- its server

    def _server_of(self, settings: Settings, python: str) -> tuple[ServerSpec, Index | None]:
        """Return the row's server, and the index it is in where it is to be started."""
        own = self._root if (self._root / SERVERS).is_dir() else None
        if settings.nemo_url is not None and settings.nemo_python is None:
            return self._at_url(settings), None
        index = index_of(python, own)
        try:
            spec = resolve_server(index, self._data, environment=self._root, option=settings.nemo_server)
        except (SpecError, TaskInvalid):
            if settings.nemo_url is None:
                raise
            spec = self._at_url(settings)
        return spec, index

    def _at_url(self, settings: Settings) -> ServerSpec:
        """Return what is known of a server that is up, without an index: its name, for the oracle."""
        agent = str(self._data.get("agent") or "")
        name = (
            settings.nemo_server or agent.removesuffix("_agent").removesuffix("_simple") or "a running server"
        )
        return ServerSpec(name, name, self._root)

    def _sharing(self, context: RolloutContext, spec: ServerSpec, index: Index | None) -> Sharing:
        settings = context.settings
        limit = START_LIMIT * context.timeout_multiplier
        if settings.nemo_url is not None:
            url = settings.nemo_url
            context.rollout.runner = f"{spec.name} (url)"
            return Sharing(context, ("nemo-gym", url), lambda: RunningServer(url, limit), limit)
        assert index is not None
        start = _start(context, spec, index, limit)
        version = f"nemo-gym {index.version}, " if start.root is not None else ""
        context.rollout.runner = f"{spec.name} ({version}python {index.python_version})"
        environ = context.environ
        key = ("nemo-gym", start)
        return Sharing(context, key, lambda: StartedServer(start, environ), limit, counted=True)

    def _recorded(self, agent: Agent, attempt: int) -> Recorded | None:
        source = replays_rows(agent)
        if source is None:
            return None
        index = int(self._data["line"]) - 1  # but for empty lines
        return recorded_rollout(source, self._row, self._name, attempt, index)


class NemoGymFramework:
    """Rows of JSONL files."""

    def uses_boxes(self, settings: Settings) -> bool:
        """Never: a row is judged by a server."""
        return False

    def load(self, folder: Path, name: str, data: Mapping[str, Any] = NOTHING) -> LoadedRow:
        """Read a row again.

        Raises:
            TaskInvalid: it is not there any more, or broken.
        """
        row = read_row(folder / data["file"], data["offset"], data["line"])
        return LoadedRow(folder, name, data, row)

    def images(self, folder: Path, name: str, *, build: bool = False) -> tuple[ImageSpec, ...]:
        """Return none."""
        return ()


def _plays(agent: Agent) -> bool:
    """Return whether an agent acts by itself: what a model has said is not to be paid for twice."""
    return isinstance(agent, Player) and replays_rows(agent) is None


class _EndedForAnother(SandboxFailed):
    """The server was ended under this rollout, since it did not answer another one."""


class _DiedInCompany(SandboxFailed):
    """The server died while others were there, too: it is not known whose call did it."""


def _start(context: RolloutContext, spec: ServerSpec, index: Index, limit: float) -> Start:
    settings = context.settings
    if not spec.trusted and not settings.trust_code:
        raise SpecError(
            f"the server {spec.name} comes with the environment ({spec.folder / spec.entry}), and would run "
            "on this machine outside of a container",
            hint="add --rlenv-trust-code if you trust it, or name one that is up in --rlenv-nemo-url",
            stage=Stage.START,
        )
    if spec.needs_judge and settings.nemo_judge_url is None:
        raise _needs_judge(spec)
    ray = spec.trusted and spec.uses_ray
    if ray and not settings.nemo_ray:
        raise Unsupported(
            f"the server {spec.name} starts Ray, which takes 2 GB: allow it with --rlenv-nemo-ray"
        )
    if spec.needs_judge and index.version is not None and _version(index.version) < MARKS_FAILURES:
        context.rollout.note(
            "judge-unmarked", f"NeMo Gym {index.version} gives 0 where its judge fails, and does not say so"
        )
    root = index.root if spec.on_nemo_gym else None
    return Start(index.python, spec, root, judge_url=settings.nemo_judge_url, ray=ray, limit=limit)


def _needs_judge(spec: ServerSpec) -> Unsupported:
    return Unsupported(
        f"the server {spec.name} asks a model to judge ({', '.join(spec.judges)}): name a model server "
        "in --rlenv-nemo-judge-url"
    )


def _lacks_judge(error: RewardMissing, spec: ServerSpec) -> bool:
    """Return whether a server broke since it looked in vain for the address of its judge."""
    return any(f"Missing key {judge}" in error.message for judge in spec.judges)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2] if part.isdigit())


def _write(context: RolloutContext, judgement: Judgement) -> None:
    _leave(context.folder / "verifier" / "verify.json", judgement.answer)
    context.rollout.rewards = judgement.rewards
    if judgement.facts:
        context.rollout.note("verifier", judgement.facts)


def _leave(file: Path, content: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(
        content if isinstance(content, bytes) else json.dumps(content, indent=1).encode() + b"\n"
    )
