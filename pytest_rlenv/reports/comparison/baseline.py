"""What a run is compared with: a run's folder, a ``results.jsonl``, or a JUnit file that pytest wrote."""

from __future__ import annotations

from pathlib import Path

from pytest_rlenv.reports.stored import StoredRun, read_run


def read_baseline(path: Path) -> StoredRun:
    """Read a run in any of its stored forms.

    Raises:
        SpecError: there is nothing there, it is of another form, or it holds no rollout.
    """
    if path.suffix.lower() == ".xml":
        from pytest_rlenv.reports.comparison.junit_file import read_junit_run

        return read_junit_run(path)
    return read_run(path)
