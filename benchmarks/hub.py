"""From the Hub: a cold fetch and a warm start, against ``snapshot_download``, from a fake Hub on loopback."""

from __future__ import annotations

import shutil
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.environments import FILES
from benchmarks.measure import Cost, alternate, median_cpu, median_wall, run
from benchmarks.tables import Table, seconds, times

if TYPE_CHECKING:
    from support.fake_hub import FakeHub

LATENCY = 0.05
"""Seconds that each answer takes, as over a network."""

OURS = """
import sys
from pathlib import Path
from pytest_rlenv.environments import resolve as front
from pytest_rlenv.environments.selection import Selection
cache = Path(sys.argv[1])
[found] = front.resolve(["org/repo"], base=cache, rootdir=cache, cache_dir=cache, selection=Selection())
front.fetch(found, found.tasks, cache)
print(sum(1 for task in found.tasks for _ in found.folder(task).rglob("*.*")))
"""
THEIRS = """
import sys
from huggingface_hub import snapshot_download
print(snapshot_download("org/repo", repo_type="dataset", cache_dir=sys.argv[1]))
"""


def measure(folder: Path, *, quick: bool) -> Table:
    """Fetch 100 tasks of 8 files each into an empty cache, and then once more."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from support.fake_hub import FakeHub

    count, rounds = (10, 1) if quick else (100, 3)
    table = Table(
        f"{count} tasks of 8 files from the Hub",
        ("start", "snapshot_download", "ours", "ours / theirs", "its requests", "our requests", "our CPU"),
        notes=[f"a fake Hub on loopback that takes {LATENCY * 1000:.0f} ms for each answer, real client"],
    )
    with FakeHub() as hub:
        hub.add("org/repo", _files(count))
        hub.latency = LATENCY
        for start in ("cold", "warm"):
            requests: dict[str, int] = {}
            theirs, ours = alternate(
                rounds,
                *(
                    partial(_start, hub, folder / name, script, requests, cold=start == "cold")
                    for name, script in (("theirs", THEIRS), ("ours", OURS))
                ),
            )
            low, high = median_wall(ours), median_wall(theirs)
            table.add(
                start,
                seconds(high),
                seconds(low),
                times(low / high),
                str(requests["theirs"]),
                str(requests["ours"]),
                seconds(median_cpu(ours)),
            )
    return table


def _start(hub: FakeHub, cache: Path, script: str, requests: dict[str, int], *, cold: bool) -> Cost:
    """Run a script once; how many requests it took goes to ``requests``, by the cache's name."""
    home = cache.with_name(f"{cache.name}-home")  # the client keeps files there too
    if cold:
        shutil.rmtree(cache, ignore_errors=True)
        shutil.rmtree(home, ignore_errors=True)
    cache.mkdir(exist_ok=True)
    before = hub.count()
    cost = run([sys.executable, "-c", script, str(cache)], env=hub.environ(home))
    requests[cache.name] = hub.count() - before
    return cost


def _files(count: int) -> dict[str, str]:
    files = {"README.md": "---\ntags:\n- rl-environment\n- harbor\n---\n"}
    for number in range(count):
        folder = f"tasks/hello-{number:04}"
        for name, text in FILES.items():
            files[f"{folder}/{name}"] = f"{text}# {number}\n"
        for extra in ("environment/data.txt", "tests/expected.txt", "README.md"):
            files[f"{folder}/{extra}"] = f"{extra} of {number}\n"
    return files
