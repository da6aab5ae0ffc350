"""``results.jsonl`` and ``run.json``: the stored truth of a run, written as it happens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_rlenv._version import __version__
from pytest_rlenv.environments.model import Environment
from pytest_rlenv.errors import SpecError
from pytest_rlenv.identity import Identity
from pytest_rlenv.reports.harbor_job import leave_trial
from pytest_rlenv.rollout import SCHEMA_VERSION
from pytest_rlenv.run import Run
from pytest_rlenv.run_folder import SHARED, clear_earlier_run, machine
from pytest_rlenv.secrets import SECRETS

if TYPE_CHECKING:
    from filelock import FileLock


class ResultsFolder:
    """The folder of one run, written by the controller alone.

    Each line of ``results.jsonl`` is flushed as its rollout ends, so a killed run leaves what it had.
    """

    def __init__(self, run: Run) -> None:
        self.path = run.identity.run_dir
        self._session = run.identity.session
        self._environments: dict[str, dict[str, Any]] = {e.name: _facts(e) for e in run.environments}
        self._facts: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "run": self._session,
            "started_at": _now(),
            "finished_at": None,
            "pytest_rlenv": __version__,
            "settings": run.settings.model_dump(mode="json", exclude={"sources"}),
            "machine": machine(),
            "sandbox": None,
        }
        self._goes_on = run.earlier is not None and run.earlier.is_continued
        self.replaces = False
        """True if the results of an earlier run were there, and are not any more."""
        self._started = False
        self._lock: FileLock | None = None

    def claim(self) -> None:
        """See that nobody else writes to the folder, now or until this run ends.

        Raises:
            SpecError: another run does, or the folder cannot be made.
        """
        from filelock import FileLock, Timeout

        shared = self.path / SHARED
        try:
            shared.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(shared / "lock")
            self._lock.acquire(blocking=False)
        except Timeout:
            raise SpecError(
                f"--rlenv-output {self.path}: another run is writing there",
                hint="wait for it, or choose another folder",
            ) from None
        except OSError as error:
            raise SpecError(
                f"results cannot be written to {self.path}: {error.strerror}",
                hint="choose another folder with --rlenv-output",
            ) from error

    def clear(self, sandbox: str) -> None:
        """Remove what an earlier run left in the same folder, and begin.

        Args:
            sandbox: the description of the run's sandbox.

        Raises:
            SpecError: what is there is no run's of ours, or nothing can be written.
        """
        self._facts["sandbox"] = sandbox
        self.replaces = clear_earlier_run(self.path, self._session, resumed=self._goes_on)
        try:
            self._start()
        except OSError as error:
            raise SpecError(
                f"results cannot be written to {self.path}: {error.strerror}",
                hint="choose another folder with --rlenv-output",
            ) from error

    def _start(self) -> None:
        if self._started:
            return
        self._started = True
        self.path.mkdir(parents=True, exist_ok=True)
        if self.path.parent.name == ".rlenv":
            (self.path.parent / ".gitignore").write_text("*\n")
        self._write_facts()
        (self.path / "results.jsonl").touch()

    def add(self, record: Mapping[str, Any]) -> None:
        """Append one rollout's record, and leave it in the rollout's own folder too."""
        self._start()
        text = _text(self._session, record)
        with (self.path / "results.jsonl").open("a", encoding="utf-8") as file:
            file.write(text + "\n")
        _leave(self.path, record, self._session)
        if record["environment"] not in self._environments:  # one that a mark or a file named
            self._environments[record["environment"]] = {
                "name": record["environment"],
                "revision": record.get("revision"),
            }
            self._write_facts()

    def finish(self, exit_code: int) -> None:
        """Write the end into ``run.json``."""
        if self._started:
            self._facts |= {"finished_at": _now(), "exit_code": int(exit_code)}
            self._write_facts()
        if self._lock is not None:
            self._lock.release()

    def _write_facts(self) -> None:
        facts = SECRETS.redact_json(self._facts | {"environments": list(self._environments.values())})
        partial = self.path / ".run.json.part"
        partial.write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        partial.replace(self.path / "run.json")


def leave_result(identity: Identity, record: Mapping[str, Any]) -> None:
    """Leave the record of a rollout that no test reports in the rollout's own folder only."""
    _leave(identity.run_dir, {**record, "outcome": None}, identity.session)


def _text(session: str, record: Mapping[str, Any]) -> str:
    return json.dumps({"run": session, **record}, ensure_ascii=False, allow_nan=False)


def _leave(run_dir: Path, record: Mapping[str, Any], session: str) -> None:
    folder = run_dir / str(record["logs"]) if record.get("logs") else None
    if folder is not None and folder.is_dir():
        leave_trial(folder, record, session)


def _facts(environment: Environment) -> dict[str, Any]:
    return {
        "name": environment.name,
        "source": environment.source,
        "revision": environment.revision,
        "requested_revision": environment.requested_revision,
        "tasks_found": environment.found,
        "tasks_selected": len(environment.tasks),
    }


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
