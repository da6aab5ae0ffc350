"""``--rlenv-resume``: what an earlier run has scored is taken over, where it would be run the same.

Only rollouts with a reward are, since an error or a skip says nothing of the agent. They are judged again by
what is expected now: a reward is a fact, and a verdict is an opinion on it.
"""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from pytest_rlenv.amounts import show_reasons
from pytest_rlenv.errors import SpecError
from pytest_rlenv.reports.stored import RESULTS, StoredRun, read_run
from pytest_rlenv.rollout import Origin, Rollout, RunAgain
from pytest_rlenv.verdict import Outcome

NOT_RECORDED = "how it was run is not recorded"


class Key(NamedTuple):
    """Which rollout."""

    environment: str
    task: str
    agent: str
    attempt: int


@dataclass(frozen=True)
class TakenOver:
    """A rollout of an earlier run.

    Attributes:
        rollout: it, with where it comes from.
        folder: its logs, in this run's folder.
    """

    rollout: Rollout
    folder: Path


class Earlier:
    """The run that is resumed, as one process of the present run sees it. Read when it is first asked for.

    Args:
        path: its folder, or its ``results.jsonl``.
        session: the present run, whose records may be in the same file by now.
        run_dir: the present run's folder; it may be the same.
    """

    def __init__(self, path: Path, *, session: str, run_dir: Path) -> None:
        self.path = path
        self._session = session
        self._run_dir = run_dir
        self._lock = threading.Lock()
        self._stored: StoredRun | None = None
        self._left: dict[Key, list[dict[str, Any]]] = {}
        self._scored: set[tuple[str, str]] = set()

    @property
    def is_continued(self) -> bool:
        """Whether the present run goes on in the earlier one's folder."""
        folder = self.path if self.path.name != RESULTS else self.path.parent
        return folder.resolve() == self._run_dir.resolve()

    def read(self) -> StoredRun:
        """Read it, once; one that is to be continued and was never begun is empty.

        Raises:
            SpecError: there is nothing there, or it is no run.
        """
        with self._lock:
            if self._stored is None:
                self._stored = self._read()
                for record in self._stored.records:
                    self._left.setdefault(_key(record), []).append(record)
                    if is_scored(record):
                        self._scored.add((record["environment"], record["task"]))
            return self._stored

    def _read(self) -> StoredRun:
        if self.is_continued and not (self._run_dir / RESULTS).exists():
            return StoredRun(None, {}, [])
        if self.path.suffix.lower() == ".xml":
            raise SpecError(
                f"--rlenv-resume {self.path}: a JUnit file does not hold whole rollouts",
                hint="name the run's folder",
            )
        found = read_run(self.path)
        records = [record for record in found.records if record.get("run") != self._session]
        return StoredRun(found.folder, found.facts, records, found.problems)

    def has(self, environment: str, task: str) -> bool:
        """Return whether it has scored the task, so that its image may not be needed."""
        self.read()
        return (environment, task) in self._scored

    def take_over(self, fresh: Rollout, folder: Path) -> TakenOver | None:
        """Return its rollout in the place of one that is about to run; each is given once.

        If there is one that is not good for it, ``fresh`` is told why it is run again.

        Args:
            fresh: the rollout that is about to run.
            folder: where the logs go; removed if they are in this run's folder already.

        Raises:
            OSError: its logs cannot be brought here.
        """
        record = self._next(fresh)
        if record is None:
            return None
        origin = {"run": str(record.get("run") or ""), "node": str(record["node"])}
        reason = why_again(record, fresh)
        if reason:
            fresh.run_again = RunAgain(**origin, reason=reason)
            return None
        kept = _rollout(record)
        if kept is None:
            fresh.run_again = RunAgain(**origin, reason="its record cannot be read")
            return None
        kept.resumed_from = Origin(**origin)
        kept.run_again = None
        kept.reward_key = fresh.reward_key
        kept.notes = [note for note in kept.notes if note.code != "task-warning"] + fresh.notes
        return TakenOver(kept, self._bring(kept, folder))

    def _next(self, fresh: Rollout) -> dict[str, Any] | None:
        """Return the record for a rollout, a scored one if there is any. Each is given once.

        A test that a plugin runs again in this process is to have a rollout of its own.
        """
        self.read()
        key = Key(fresh.environment, fresh.task, fresh.agent, fresh.attempt)
        with self._lock:
            left = self._left.get(key)
            if not left:
                return None
            chosen = next(filter(is_scored, left), left[0])
            left.remove(chosen)
            return chosen

    def _bring(self, kept: Rollout, folder: Path) -> Path:
        """Have the logs in this run's folder, and return where."""
        source = self._logs(kept.logs)
        if source is not None and source.is_relative_to(self._run_dir.resolve()):
            folder.rmdir()
            return self._run_dir / (kept.logs or "")
        if source is not None:
            shutil.copytree(source, folder, symlinks=True, dirs_exist_ok=True)
        for number, each in enumerate(kept.tries, start=1):
            logs = self._logs(each.logs)
            each.logs = None
            if logs is not None:
                target = folder.with_name(f"{folder.name}-try{number}")
                shutil.copytree(logs, target, symlinks=True)
                each.logs = target.relative_to(self._run_dir).as_posix()
        return folder

    def _logs(self, logs: str | None) -> Path | None:
        """Return a folder of logs of the earlier run, if it is one and still there."""
        root = self.read().folder
        if root is None or not logs:
            return None
        found = (root / logs).resolve()
        inside = found != root.resolve() and found.is_relative_to(root.resolve())
        return found if inside and found.is_dir() else None


def is_scored(record: Mapping[str, Any]) -> bool:
    """Return whether a stored rollout has a reward that was judged."""
    judged = record["verdict"] in (Outcome.PASSED.value, Outcome.FAILED.value)
    return judged and record.get("reward") is not None


def why_again(record: Mapping[str, Any], fresh: Rollout) -> str:
    """Return why a stored rollout does not stand for one that is about to run; empty if it does."""
    if not is_scored(record):
        return str(record["verdict"])
    if not record.get("task_digest") or record["task_digest"] != fresh.task_digest:
        return "the task has changed"
    for field in ("agent_version", "model", "sandbox"):
        was, is_now = record.get(field), getattr(fresh, field)
        if was != is_now:
            return f"{field} was {was}, is {is_now}"
    return why_conditions_differ(record, fresh.conditions)


def why_conditions_differ(record: Mapping[str, Any], present: Mapping[str, Any]) -> str:
    """Return which setting that a result depends on was another; empty if none."""
    was = record.get("conditions") or {}
    if not was:
        return NOT_RECORDED
    differing = sorted(name for name in {*was, *present} if was.get(name) != present.get(name))
    return ", ".join(f"{name} was {was.get(name)}, is {present.get(name)}" for name in differing)


def outlook(records: Sequence[Mapping[str, Any]], present: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is known of an earlier run's rollouts before any task is looked at.

    Args:
        records: the earlier run's.
        present: the conditions of the present run.
    """
    reasons = Counter(
        why_conditions_differ(each, present) if is_scored(each) else str(each["verdict"]) for each in records
    )
    good = reasons.pop("", 0)
    yield f"{good} of {len(records)} rollouts are scored and were run as now"
    if reasons:
        yield f"{reasons.total()} run again if asked for ({show_reasons(reasons)})"


def _key(record: Mapping[str, Any]) -> Key:
    return Key(record["environment"], record["task"], record["agent"], record.get("attempt", 1))


def _rollout(record: Mapping[str, Any]) -> Rollout | None:
    """Return the rollout that a record was made of, without what its test and verdict added."""
    try:
        return Rollout.model_validate(
            {name: value for name, value in record.items() if name in Rollout.model_fields}
        )
    except ValidationError:
        return None
