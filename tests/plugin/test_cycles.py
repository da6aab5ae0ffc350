"""The search for cycles is left out for a while, and all is as it was afterwards."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.project import Project

IN_A_PROCESS = """
import gc, weakref
from pytest_rlenv.cycles import no_search, set_aside

class Node: pass

gone = []
first, second = Node(), Node()
first.other, second.other = second, first
weakref.finalize(first, gone.append, True)

gc.collect()
young = sum(map(len, (gc.get_objects(0), gc.get_objects(1))))
with no_search():
    assert not gc.isenabled()
    kept = [Node() for _ in range(5000)]
assert gc.isenabled() and gc.get_freeze_count() == 0
assert len(gc.get_objects(0)) + len(gc.get_objects(1)) < 5000, "what was made counts as old"
back = set_aside()
assert gc.get_freeze_count() > 5000
with no_search():
    pass
set_aside()()
assert gc.get_freeze_count() > 5000, "what somebody set aside stays so"
del first, second
gc.collect()
assert not gone
back()
assert gc.get_freeze_count() == 0
set_aside()()
assert gone, "what went meanwhile is found when pytest is run again"
gc.disable()
with no_search():
    pass
assert not gc.isenabled(), "who wants none gets none"
"""


def test_no_search_and_set_aside() -> None:
    done = subprocess.run([sys.executable, "-c", IN_A_PROCESS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


LOOKING = """
import gc

def pytest_runtest_setup(item):
    print("aside:", gc.get_freeze_count() > 0)
"""


@pytest.mark.parametrize("others", [False, True])
def test_only_a_run_of_nothing_but_tasks_sets_aside(project: Project, others: bool) -> None:
    project.tasks(one="# scripted: reward=1")
    project.pytester.makeconftest(LOOKING)
    args = []
    if others:
        args = [str(project.pytester.makepyfile(test_plain="def test_it(): pass"))]
    script = (
        "import gc, sys, pytest\n"
        "code = pytest.main(sys.argv[1:])\n"
        "print('left aside:', gc.get_freeze_count(), gc.isenabled())\n"
        "sys.exit(code)"
    )
    options = ["-s", "--rlenv=envs/demo", "--rlenv-sandbox=support.scripted:ScriptedSandbox", *args]
    command = [sys.executable, "-c", script, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=project.path)
    assert done.returncode == 0, done.stdout
    assert f"aside: {not others}" in done.stdout
    assert "left aside: 0 True" in done.stdout
