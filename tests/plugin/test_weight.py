"""A pytest run that has nothing to do with us pays next to nothing for us."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
