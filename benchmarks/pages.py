"""The HTML report of many rollouts: how long it takes to write, its size, and when a browser shows it."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from statistics import median

from benchmarks.tables import Table, seconds
from pytest_rlenv.reports.html import write_html

LOG = "".join(f"tests/test_outputs.py::test_case_{number} PASSED\n" for number in range(300))
"""What each verifier and each agent printed: 14 KiB."""
ROUNDS = 5

TIMES = """() => {
  const shown = performance.getEntriesByName("first-contentful-paint")[0].startTime;
  return [shown, performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd];
}"""


def measure(folder: Path, *, quick: bool) -> Table:
    """Write pages of 2,000 and 10,000 rollouts with their logs, and open each."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from support.browser import chromium

    table = Table(
        "The HTML report",
        ("rollouts", "to write", "size", "shown after", "read to its end after"),
        notes=[
            f"medians of {ROUNDS} openings from disk in headless Chromium, without its own start",
            "one rollout in seven failed; each has 28 KiB of logs, of which the page holds its share",
        ],
    )
    with chromium() as browser:
        for count in (20, 200) if quick else (2000, 10_000):
            run = _make_run(folder / f"run-{count}", count)
            target = folder / f"report-{count}.html"
            begin = time.perf_counter()
            write_html(run, target)
            spent = time.perf_counter() - begin
            opened = []
            for _ in range(ROUNDS):
                page = browser.new_page(viewport={"width": 1280, "height": 800})
                page.goto(target.as_uri())
                opened.append(page.evaluate(TIMES))
                page.close()
            shown, read = (median(column) / 1000 for column in zip(*opened, strict=True))
            size = f"{target.stat().st_size / 2**20:.1f} MiB"
            table.add(f"{count:,}", seconds(spent), size, seconds(shown), seconds(read))
    return table


def _make_run(folder: Path, count: int) -> Path:
    from support.report_runs import failed, leave, passed, write_run

    names = [f"task-{number:05}" for number in range(count)]
    records = [passed(name) if number % 7 else failed(name) for number, name in enumerate(names)]
    run = write_run(folder, records)
    for record in records:
        leave(run, record, {"verifier/test-stdout.txt": LOG, "agent/oracle.txt": LOG})
    return run
