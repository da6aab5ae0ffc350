"""The HTML report: a run in one file that works from disk, with no network and nothing to install."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_rlenv.errors import SpecError
from pytest_rlenv.reports.comparison.gate import MARGIN
from pytest_rlenv.reports.growing import may_be_replaced
from pytest_rlenv.reports.html.baseline import Against
from pytest_rlenv.reports.html.details import Links, details
from pytest_rlenv.reports.html.document import render
from pytest_rlenv.reports.html.evidence import shares
from pytest_rlenv.reports.html.payload import index, readable
from pytest_rlenv.reports.stored import StoredRun, read_run
from pytest_rlenv.verdict import Outcome

if TYPE_CHECKING:
    from pytest_rlenv.reports.comparison.compared import Comparison

__all__ = ["check_target", "write_html", "write_report"]


def write_html(
    run_folder: Path, target: Path, baseline: Path | None = None, *, margin: float = MARGIN
) -> None:
    """Write the report of a stored run, also of one that was interrupted or killed.

    Args:
        run_folder: the run's folder, or its ``results.jsonl``.
        target: the file to write; its folder is made if need be.
        baseline: an earlier run to compare with, in any of its stored forms.
        margin: the fall that "no regression" rules out, as a share of the range of rewards.

    Raises:
        SpecError: there is no run or no baseline, or the report cannot be written.
    """
    run = read_run(run_folder)
    comparison = None
    if baseline is not None:
        from pytest_rlenv.reports.comparison.baseline import read_baseline
        from pytest_rlenv.reports.comparison.compared import compare_runs

        names = (str(baseline), str(run_folder))
        comparison = compare_runs(read_baseline(baseline), run, names=names, margin=margin)
    write_report(run, target, comparison)


def write_report(run: StoredRun, target: Path, comparison: Comparison | None) -> None:
    """Write the report of a run that has been read. A file is replaced in one go; a pipe or a device stays.

    Args:
        run: the run.
        target: the file to write.
        comparison: what became of each task since the baseline, if there is one.

    Raises:
        SpecError: the report cannot be written.
    """
    records, results, problems = readable(run)
    first = index(run, records, results, problems, Against(comparison) if comparison else None)
    links = Links(run.folder, target)
    allowed = shares([result.verdict is Outcome.PASSED for result in results])
    rest = (details(record, run.folder, share, links) for record, share in zip(records, allowed, strict=True))
    partial = _partial(target) if may_be_replaced(target) else target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("w", encoding="utf-8") as file:
            file.writelines(render(first["title"], first, rest))
        if partial != target:
            partial.replace(target)
    except OSError as error:
        if partial != target:
            with suppress(OSError):
                partial.unlink()
        raise _not_written(target, error) from error


def check_target(target: Path) -> None:
    """See that a report can be written there.

    Raises:
        SpecError: it cannot.
    """
    try:
        if target.is_dir():
            raise IsADirectoryError(0, "it is a folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        if may_be_replaced(target):
            _partial(target).touch()
            _partial(target).unlink()
    except OSError as error:
        raise _not_written(target, error) from error


def _partial(target: Path) -> Path:
    return target.with_name(f".{target.name}.part")


def _not_written(target: Path, error: OSError) -> SpecError:
    return SpecError(
        f"the HTML report cannot be written to {target}: {error.strerror}",
        hint="name a file in a folder that can be written to",
    )
