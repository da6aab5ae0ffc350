from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from support.environments import CARD, Resolve, repo_files, task_files
from support.fake_hub import FakeHub, quoted

from pytest_rlenv.environments.model import Environment, TaskRef
from pytest_rlenv.environments.resolve import fetch
from pytest_rlenv.errors import FetchFailed, RlenvError, SpecError

POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n"


def contents(folder: Path) -> dict[str, str]:
    return {p.relative_to(folder).as_posix(): p.read_text() for p in folder.rglob("*") if p.is_file()}


def expected(files: dict[str, str], task: str) -> dict[str, str]:
    return {path[len(task) + 1 :]: text for path, text in files.items() if path.startswith(f"{task}/")}


def refused(environment: Environment, tasks: Sequence[TaskRef], cache_dir: Path) -> RlenvError:
    with pytest.raises(RlenvError) as raised:
        fetch(environment, tasks, cache_dir)
    return raised.value


def test_only_the_selected_tasks_are_fetched(hub: FakeHub, resolve_one: Resolve, cache_dir: Path) -> None:
    files = repo_files(*(f"t{i:02}" for i in range(100))) | {"data/big.bin": "x"}
    hub.add("org/repo", files)
    environment = resolve_one("org/repo")
    selected = environment.tasks[10:13]
    hub.clear()
    fetch(environment, selected, cache_dir)
    for task in selected:
        assert contents(environment.folder(task)) == expected(files, task.path)
    assert hub.count("/resolve/") == 3 * 8 * 2
    assert hub.count("/resolve/.*/tasks/t1[012]/") == 3 * 8 * 2
    assert hub.count() <= 3 * 8 * 2 + 3
    assert sorted(p.name for p in (environment.root / "tasks").iterdir()) == ["t10", "t11", "t12"]

    hub.clear()
    fetch(environment, selected, cache_dir)
    assert hub.count() == 0
    fetch(environment, [*selected, environment.tasks[0]], cache_dir)
    assert hub.count("/resolve/") == 8 * 2


def test_a_few_tasks_of_many_do_not_list_the_whole_tree(
    hub: FakeHub, resolve_one: Resolve, cache_dir: Path
) -> None:
    hub.add("org/repo", repo_files(*(f"t{i:04}" for i in range(1000))))
    environment = resolve_one("org/repo")
    hub.clear()
    fetch(environment, environment.tasks[:3], cache_dir)
    assert hub.count("/tree/") == 3


def test_all_tasks_of_many_list_the_tree_once(hub: FakeHub, resolve_one: Resolve, cache_dir: Path) -> None:
    hub.page_size = 50
    hub.add("org/repo", repo_files(*(f"t{i:02}" for i in range(20))))
    environment = resolve_one("org/repo")
    hub.clear()
    fetch(environment, environment.tasks, cache_dir)
    assert all(environment.folder(task).is_dir() for task in environment.tasks)
    assert hub.count("/tree/") == 5  # 161 files and 81 folders in pages of 50


def test_files_are_real_and_scripts_can_be_run(hub: FakeHub, resolve_one: Resolve, cache_dir: Path) -> None:
    hub.add("org/repo", repo_files("a"))
    environment = resolve_one("org/repo")
    fetch(environment, environment.tasks, cache_dir)
    folder = environment.folder(environment.tasks[0])
    modes = {
        p.relative_to(folder).as_posix(): p.stat().st_mode & 0o777 for p in folder.rglob("*") if p.is_file()
    }
    assert not any(path.is_symlink() for path in environment.root.rglob("*"))
    scripts = {"environment/run", "tests/test.sh", "solution/solve.sh"}
    assert {path for path, mode in modes.items() if mode == 0o755} == scripts
    assert {mode for path, mode in modes.items() if path not in scripts} == {0o644}
    assert subprocess.run([folder / "environment/run"], check=True).returncode == 0


def test_equal_files_are_stored_apart(hub: FakeHub, resolve_one: Resolve, cache_dir: Path) -> None:
    hub.add("org/repo", {"README.md": CARD, "a/task.toml": "x", "a/run.sh": "x", "b/task.toml": "x"})
    environment = resolve_one("org/repo")
    fetch(environment, environment.tasks, cache_dir)
    a, b = (environment.root / path for path in ("a/task.toml", "b/task.toml"))
    a.write_text("changed")
    assert b.read_text() == "x"
    assert b.stat().st_mode & 0o777 == 0o644


def test_a_repository_that_is_one_task(hub: FakeHub, resolve_one: Resolve, cache_dir: Path) -> None:
    files = {"task.toml": "", "instruction.md": "Do", "tests/test.sh": "true", "README.md": CARD}
    hub.add("org/repo", files)
    environment = resolve_one("org/repo")
    fetch(environment, environment.tasks, cache_dir)
    assert environment.tasks[0].id == "repo"
    assert environment.folder(environment.tasks[0]) == environment.root
    assert contents(environment.root) == files


def test_odd_names(hub: FakeHub, resolve_one: Resolve, cache_dir: Path) -> None:
    names = ["[x]", "a b", "é→ü", "50%", "a%5Bb", "x*?", "q#1&2+3", "-dash"]
    files = {"README.md": CARD}
    for name in names:
        files |= {f"tasks/{name}/task.toml": name, f"tasks/{name}/in [1]/ü.txt": name}
    files["tasks/x/task.toml"] = "would match [x] as a glob"
    hub.add("org/repo", files)
    environment = resolve_one("org/repo")
    wanted = [task for task in environment.tasks if task.id != "x"]
    fetch(environment, wanted, cache_dir)
    assert {task.path.removeprefix("tasks/") for task in wanted} == set(names)
    for task in wanted:
        assert contents(environment.folder(task)) == expected(files, task.path)
    assert hub.count(f"/resolve/.*/{quoted('tasks')}/x/") == 0


def test_large_files_come_from_another_store(hub: FakeHub, resolve_one: Resolve, cache_dir: Path) -> None:
    files = {"README.md": CARD, "a/task.toml": "", "a/data.bin": "0123456789" * 100_000}
    hub.add("org/repo", files, lfs=["*.bin"])
    environment = resolve_one("org/repo")
    fetch(environment, environment.tasks, cache_dir)
    assert contents(environment.root / "a") == expected(files, "a")
    assert hub.count("GET /lfs/") == 1


def test_a_pointer_in_place_of_a_file(hub: FakeHub, resolve_one: Resolve, cache_dir: Path) -> None:
    files = repo_files("good", "bad") | {"tasks/bad/environment/model.bin": POINTER}
    hub.add("org/repo", files)
    environment = resolve_one("org/repo")
    error = refused(environment, environment.tasks, cache_dir)
    assert isinstance(error, FetchFailed)
    assert "bad could not be fetched: environment/model.bin is a Git LFS pointer" in error.message
    assert "git lfs" in error.hint
    bad, good = environment.tasks
    assert environment.folder(good).is_dir()
    assert not environment.folder(bad).exists()


def test_a_task_with_a_problem_is_not_fetched(hub: FakeHub, resolve_one: Resolve, cache_dir: Path) -> None:
    hub.add("org/repo", repo_files("a") | {"tasks/b/instruction.md": "", "tasks/b/tests/test.sh": ""})
    environment = resolve_one("org/repo")
    hub.clear()
    fetch(environment, [task for task in environment.tasks if task.problem], cache_dir)
    assert hub.count() == 0


def test_local_tasks_are_where_they_are(resolve_one: Resolve, tmp_path: Path, cache_dir: Path) -> None:
    (tmp_path / "envs/a").mkdir(parents=True)
    (tmp_path / "envs/a/task.toml").touch()
    environment = resolve_one("envs")
    fetch(environment, environment.tasks, cache_dir)
    assert not cache_dir.exists()


# ---- what can go wrong

Break = Callable[[FakeHub], object]


@pytest.mark.parametrize(
    "fault",
    [
        lambda hub: hub.limit_rate("HEAD .*/resolve/", times=3, bucket="resolvers"),
        lambda hub: hub.limit_rate("GET .*/resolve/", times=3, bucket="resolvers"),
        lambda hub: hub.fail("HEAD .*/resolve/", times=4, status=503),
        lambda hub: hub.fail("GET .*/resolve/.*/tests/test.sh", times=1, status=500),
        lambda hub: hub.fail("GET .*/resolve/", times=3, truncate=5),
        lambda hub: hub.fail("GET .*/resolve/", times=3, truncate=0),
        lambda hub: hub.fail("/tree/", times=2, status=500),
    ],
)
def test_what_passes_soon_leaves_no_trace(
    fault: Break, hub: FakeHub, resolve_one: Resolve, cache_dir: Path, naps: list[float]
) -> None:
    files = repo_files("a", "b")
    hub.add("org/repo", files)
    environment = resolve_one("org/repo")
    fault(hub)
    fetch(environment, environment.tasks, cache_dir)
    for task in environment.tasks:
        assert contents(environment.folder(task)) == expected(files, task.path)


@pytest.mark.parametrize(
    ("fault", "kind", "message", "hint"),
    [
        (lambda hub: hub.limit_rate("/resolve/", times=-1), FetchFailed, "limits our rate (429)", "HF_TOKEN"),
        (
            lambda hub: hub.fail("/resolve/", times=-1, status=503),
            FetchFailed,
            "answers 503",
            "try again later",
        ),
        (lambda hub: hub.fail("/tree/", times=-1, status=503), FetchFailed, "answers 503", "try again later"),
        (
            lambda hub: hub.fail("GET .*/resolve/", times=-1, truncate=0),
            FetchFailed,
            "does not answer",
            "HF_ENDPOINT",
        ),
        (lambda hub: hub.stop(), FetchFailed, "does not answer", "HF_HUB_OFFLINE=1"),
        (
            lambda hub: hub.fail("/resolve/", times=-1, status=403),
            SpecError,
            "may not be read without a token",
            "HF_TOKEN",
        ),
        (
            lambda hub: hub.fail("/resolve/", times=-1, status=403, headers={"X-Error-Code": "GatedRepo"}),
            SpecError,
            "org/repo is gated",
            "accept its terms",
        ),
    ],
)
def test_what_does_not_pass(
    fault: Break,
    kind: type[RlenvError],
    message: str,
    hint: str,
    hub: FakeHub,
    resolve_one: Resolve,
    cache_dir: Path,
    naps: list[float],
) -> None:
    hub.add("org/repo", repo_files(*(f"t{i}" for i in range(9))))
    environment = resolve_one("org/repo")
    fault(hub)
    error = refused(environment, environment.tasks, cache_dir)
    assert isinstance(error, kind)
    assert message in error.message
    assert hint in error.hint
    assert not environment.root.exists()
    assert "\n" not in error.message


def test_many_refusals_are_not_asked_one_by_one(
    hub: FakeHub, resolve_one: Resolve, cache_dir: Path, naps: list[float]
) -> None:
    hub.add("org/repo", repo_files(*(f"t{i:03}" for i in range(100))))
    environment = resolve_one("org/repo")
    hub.fail("/resolve/", times=-1, status=403)
    hub.clear()
    refused(environment, environment.tasks, cache_dir)
    assert hub.count("/resolve/") < 200


def test_one_bad_file_spoils_one_task(
    hub: FakeHub, resolve_one: Resolve, cache_dir: Path, naps: list[float]
) -> None:
    hub.add("org/repo", repo_files("a", "b", "c"))
    environment = resolve_one("org/repo")
    headers = {"X-Error-Code": "EntryNotFound"}
    hub.fail("/resolve/.*/tasks/b/README.md", times=-1, status=404, headers=headers)
    error = refused(environment, environment.tasks, cache_dir)
    assert "b could not be fetched: there is no 'tasks/b/README.md' in org/repo@" in error.message
    assert [environment.folder(task).is_dir() for task in environment.tasks] == [True, False, True]
    hub.heal()
    fetch(environment, environment.tasks, cache_dir)
    assert all(environment.folder(task).is_dir() for task in environment.tasks)


def test_offline_what_is_cached_is_used_and_the_rest_is_named(
    hub: FakeHub, resolve_one: Resolve, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import snapshot_download

    from pytest_rlenv.environments.hub_client import HubClient

    files = repo_files("a", "b", "c")
    sha = hub.add("org/repo", files)
    for patterns in (["README.md", "tasks/a/*"], ["tasks/b/t*"]):
        snapshot_download(
            "org/repo",
            repo_type="dataset",
            endpoint=hub.endpoint,
            cache_dir=HubClient().cache_dir,
            allow_patterns=patterns,
        )
    hub.stop()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    environment = resolve_one("org/repo")
    error = refused(environment, environment.tasks, cache_dir)
    assert isinstance(error, FetchFailed)
    assert error.message == (
        f"org/repo@{sha[:12]}: b, c could not be fetched: offline (HF_HUB_OFFLINE) and not cached"
    )
    assert error.hint == f"run once online, or: hf download org/repo --repo-type dataset --revision {sha}"
    a, b, c = environment.tasks
    assert contents(environment.folder(a)) == expected(files, "tasks/a")
    assert not environment.folder(b).exists()
    assert not environment.folder(c).exists()


def test_a_cache_that_cannot_be_written(hub: FakeHub, resolve_one: Resolve, cache_dir: Path) -> None:
    hub.add("org/repo", repo_files("a"))
    environment = resolve_one("org/repo")
    environment.root.write_text("in the way")
    error = refused(environment, environment.tasks, cache_dir)
    assert "cannot be written" in error.message
    assert "RLENV_CACHE" in error.hint


def test_a_path_that_leaves_the_task(
    hub: FakeHub, resolve_one: Resolve, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add("org/repo", repo_files("a") | {"tasks/a/../../../../evil": "x"})
    environment = resolve_one("org/repo")
    with pytest.raises(RlenvError):
        fetch(environment, environment.tasks, cache_dir)
    assert not any(path.name == "evil" for path in cache_dir.rglob("*"))


# ---- at the same time

CHILD = """
import sys
from pathlib import Path
from pytest_rlenv.environments.model import loads
from pytest_rlenv.environments.resolve import fetch
(environment,) = loads(Path(sys.argv[1]).read_text())
print("ready", flush=True)
sys.stdin.readline()
fetch(environment, environment.tasks, Path(sys.argv[2]))
print(sum((environment.folder(task) / "tests/test.sh").is_file() for task in environment.tasks), flush=True)
"""


def start(hub: FakeHub, environment: Environment, tmp_path: Path, cache_dir: Path) -> subprocess.Popen[str]:
    from pytest_rlenv.environments.model import dumps

    (tmp_path / "environment.json").write_text(dumps([environment]))
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path / "environment.json"), str(cache_dir)],
        env={**os.environ, **hub.environ(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_two_processes_fetch_each_file_once(
    hub: FakeHub, resolve_one: Resolve, tmp_path: Path, cache_dir: Path
) -> None:
    hub.add("org/repo", repo_files(*(f"t{i}" for i in range(6))))
    environment = resolve_one("org/repo")
    hub.clear()
    hub.latency = 0.01
    processes = [start(hub, environment, tmp_path, cache_dir) for _ in range(2)]
    done = [process.communicate("go\n", timeout=120)[0] for process in processes]
    assert done == ["6\n", "6\n"]
    assert hub.count("/resolve/") == 6 * 8 * 2
    assert not list((cache_dir / "hub/org--repo").glob(".*"))


def test_a_killed_fetch_leaves_whole_tasks_only(
    hub: FakeHub, resolve_one: Resolve, tmp_path: Path, cache_dir: Path
) -> None:
    files = repo_files(*(f"t{i}" for i in range(6)))
    hub.add("org/repo", files)
    environment = resolve_one("org/repo")
    hub.clear()
    hub.latency = 0.05
    process = start(hub, environment, tmp_path, cache_dir)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while hub.count("GET .*/resolve/") < 10 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdin.close()
    process.stdout.close()
    for task in environment.tasks:
        folder = environment.folder(task)
        assert not folder.exists() or contents(folder) == expected(files, task.path)
    fetch(environment, environment.tasks, cache_dir)
    for task in environment.tasks:
        assert contents(environment.folder(task)) == expected(files, task.path)


def test_threads_fetch_each_their_task(hub: FakeHub, resolve_one: Resolve, cache_dir: Path) -> None:
    files = repo_files(*(f"t{i}" for i in range(6)))
    hub.add("org/repo", files)
    environment = resolve_one("org/repo")
    failures: list[BaseException] = []

    def run(task: TaskRef) -> None:
        try:
            fetch(environment, [task], cache_dir)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(task,)) for task in environment.tasks * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    for task in environment.tasks:
        assert contents(environment.folder(task)) == expected(files, task.path)


def test_fetching_is_told_when_it_waits(
    hub: FakeHub, resolve_one: Resolve, cache_dir: Path, naps: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_rlenv.environments.hub_waits import RelayedWaits

    monkeypatch.setattr(RelayedWaits, "_last_told", float("-inf"))
    hub.add("org/repo", repo_files("a"))
    environment = resolve_one("org/repo")
    hub.limit_rate("GET .*/resolve/", times=1, seconds=250, bucket="resolvers")
    told: list[str] = []
    fetch(environment, environment.tasks, cache_dir, notify=told.append)
    assert told == ["the Hub limits our rate: waiting 251 s (a token raises the limit)"]
    assert 251.0 in naps


def test_no_progress_bars(
    hub: FakeHub, resolve_one: Resolve, cache_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    hub.add("org/repo", task_files("a"))
    environment = resolve_one("org/repo")
    fetch(environment, environment.tasks, cache_dir)
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_a_lock_that_is_never_given_back(
    hub: FakeHub, resolve_one: Resolve, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_rlenv.environments import hub_cache

    hub.add("org/repo", repo_files("a"))
    environment = resolve_one("org/repo")
    monkeypatch.setattr(hub_cache, "_LOCK_TIMEOUT_SEC", 0.1)
    with hub_cache.RepoCache(cache_dir, "org/repo").locked(str(environment.revision)):
        error = refused(environment, environment.tasks, cache_dir)
    assert "another process has been fetching" in error.message
    assert str(cache_dir) in error.hint


def test_a_cache_below_a_file(hub: FakeHub, resolve_one: Resolve, cache_dir: Path) -> None:
    hub.add("org/repo", repo_files("a"))
    cache_dir.write_text("not a folder")
    environment = resolve_one("org/repo")
    error = refused(environment, environment.tasks, cache_dir)
    assert error.message.startswith(f"the cache {cache_dir}")
    assert "RLENV_CACHE" in error.hint


def test_downloads_under_way_when_another_is_refused_are_kept(
    hub: FakeHub, resolve_one: Resolve, cache_dir: Path
) -> None:
    hub.add("org/repo", repo_files("a", "b"))
    environment = resolve_one("org/repo")
    hub.fail("/resolve/.*/tasks/b/instruction.md", times=-1, status=403)
    hub.latency = 0.02
    refused(environment, environment.tasks, cache_dir)
    hub.heal()
    hub.clear()
    fetch(environment, environment.tasks, cache_dir)
    assert 2 <= hub.count("/resolve/") < 2 * 8 * 2


def test_offline_with_a_part_of_a_snapshot_only(
    hub: FakeHub, resolve_one: Resolve, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add("org/repo", repo_files("a"))
    environment = resolve_one("org/repo")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    error = refused(environment, environment.tasks, cache_dir)
    assert "a could not be fetched: no files of tasks/a are cached" in error.message
