"""Notice that pytest took a value of ours for a test path, and so read another project's configuration.

pytest looks for its ini file before it knows any plugin's options: in ``--rlenv DIR`` it sees a path, and
goes by that. ``--rlenv=DIR`` it does not see.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_rlenv.errors import SpecError
from pytest_rlenv.options import OPTIONS

_ALWAYS = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini")
_WITH_SECTION = (("pyproject.toml", "[tool.pytest"), ("tox.ini", "[pytest]"), ("setup.cfg", "[tool:pytest]"))


def check_configuration_file(config: pytest.Config) -> None:
    """See that the ini file in use is the one of the folder that pytest was called in.

    Raises:
        SpecError: it is not, because of a value of ours.
    """
    value = next(_values_taken_for_paths(config), None)
    if value is None or config.getoption("inifilename", None):
        return
    expected = _ini_above(config.invocation_params.dir)
    if expected is not None and config.inipath != expected:
        flag, path = value
        raise SpecError(
            f"pytest took {path} for a test path and read "
            f"{config.inipath or 'no ini file'} instead of {expected}",
            hint=f"write {flag}={path}, with the equals sign",
        )


def _values_taken_for_paths(config: pytest.Config) -> Iterator[tuple[str, str]]:
    args = [str(arg) for arg in config.invocation_params.args]
    flags = {option.cli_flag for option in OPTIONS if option.metavar}
    for flag, value in itertools.pairwise(args):
        if flag in flags and (config.invocation_params.dir / value).exists():
            yield flag, value


def _ini_above(folder: Path) -> Path | None:
    for place in (folder, *folder.parents):
        for name in _ALWAYS:
            if (place / name).is_file():
                return place / name
        for name, section in _WITH_SECTION:
            try:
                if section in (place / name).read_text(encoding="utf-8"):
                    return place / name
            except (OSError, UnicodeDecodeError):
                continue
    return None
