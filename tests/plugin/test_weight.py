"""A pytest run that has nothing to do with us pays next to nothing for us."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from support.project import Project, outcomes

HEAVY = ("docker", "huggingface_hub", "pydantic", "yaml", "requests", "filelock", "hypothesis.database")
PROGRAM = """
import sys, pytest
code = pytest.main(sys.argv[1:])
print("heavy:", [name for name in {heavy!r} if name in sys.modules])
print("ours:", sorted(name for name in sys.modules if name.startswith("pytest_rlenv")))
sys.exit(code)
"""


@pytest.mark.parametrize(
    "args", [["--version"], ["-q", "test_plain.py"], ["-q", "-n1", "test_plain.py"], ["--help"]]
)
def test_an_unrelated_run_imports_nothing_heavy(pytester: pytest.Pytester, args: list[str]) -> None:
    pytester.makepyfile(test_plain="def test_it(): pass")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(heavy=HEAVY), "-p", "no:hypothesispytest", *args],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "heavy: []" in done.stdout
    if args != ["--version"]:  # since pytest 9, that one loads no plugin at all
        assert "pytest_rlenv.plugin" in done.stdout
    assert "pytest_rlenv.run'" not in done.stdout


def test_our_modules_are_not_compiled_anew_by_pytest(pytester: pytest.Pytester) -> None:
    """As they would be in every process of a first run, and in each run that may not write compiled code."""
    pytester.makepyfile(
        test_plain="""
        import sys

        def test_it(request):
            ours = [m for name, m in sys.modules.items() if name.startswith("pytest_rlenv.")]
            loaders = {name: type(m.__loader__).__name__ for m in ours for name in [m.__name__]}
            rewritten = {name for name, loader in loaders.items() if loader == "AssertionRewritingHook"}
            assert len(ours) > 5
            assert rewritten <= {f"pytest_rlenv.{name}" for name in ("_version", "plugin", "plain_imports")}
        """
    )
    # pytest marks the files of an installed distribution so by itself, those of a development install not
    command = [sys.executable, "-c", "import pytest, sys; pytest.register_assert_rewrite('pytest_rlenv')\n"]
    command[-1] += "sys.exit(pytest.main(['-q', 'test_plain.py']))"
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_what_became_of_a_rollout_is_not_kept_in_memory(project: Project) -> None:
    project.tasks(a="# scripted: reward=1", b="# scripted: reward=1", c="# scripted: reward=1")
    project.pytester.makeconftest(
        """
        import gc
        import pytest

        @pytest.hookimpl(tryfirst=True)
        def pytest_sessionfinish(session):
            from pytest_rlenv.rollout import Rollout

            gc.collect()
            kept = [each for each in gc.get_objects() if isinstance(each, Rollout)]
            terminal = session.config.pluginmanager.get_plugin("terminalreporter")
            reports = [report for found in terminal.stats.values() for report in found]
            print("kept:", len(kept), sum("rlenv" in vars(report) for report in reports), len(reports) > 5)
        """
    )
    done = project.run("--rlenv", "envs/demo", "-s", process=True)
    done.stdout.fnmatch_lines(["*kept: 0 0 True"])  # after a failure Python keeps the last exception's frames


COUNTING = """
import json, threading
from pathlib import Path
from pytest_rlenv.frameworks.harbor import steps

found = {"read": [], "threads": []}
read_folder, start = steps.read_folder, threading.Thread.start

def noting_read(root, folder):
    found["read"].append(folder.name)
    return read_folder(root, folder)

def noting_start(thread):
    found["threads"].append(thread.name)
    start(thread)

steps.read_folder, threading.Thread.start = noting_read, noting_start

def pytest_unconfigure(config):
    Path("counts.json").write_text(json.dumps(found))
"""


def test_a_rollout_reads_its_files_once_and_starts_one_thread(project: Project) -> None:
    project.tasks(a="# scripted: reward=1", b="# scripted: reward=1")
    project.pytester.makeconftest(COUNTING)
    done = project.run("--rlenv", "envs/demo", process=True)
    assert outcomes(done) == {"passed": 2}
    counts = json.loads((project.path / "counts.json").read_text())
    assert sorted(counts["read"]) == ["solution", "solution", "tests", "tests"]
    assert counts["threads"].count("rlenv-agent") == 2
