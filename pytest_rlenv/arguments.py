"""Our part of pytest's command line: which environments, and which of pytest's own arguments remain.

``--rlenv X`` counts as a positional argument does: alone it replaces the implicit ``.`` and ``testpaths``;
beside paths it adds to them. The ini key ``rlenv_repos`` is to environments what ``testpaths`` is to folders.
``--rlenv-taskset`` without an environment is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from pytest_rlenv.environments.layouts import TASKSET_PREFIX

PREFIX = "rlenv:"

NARROWING = ("keyword", "markexpr", "lf", "deselect", "stepwise")
"""Options of pytest's with which some of the tasks that are collected are not run."""


@dataclass
class Arguments:
    """What a command line names.

    Attributes:
        specs: environments, as given to ``--rlenv`` or found in the ini file.
        chosen: positional ``rlenv:ENV[::task[::agent][::attempt]]`` arguments: the text of ENV, and what
            follows it.
        from_ini: True when the specs are the ini file's: relative ones are meant from the rootdir.
    """

    specs: list[str] = field(default_factory=list)
    from_ini: bool = False
    chosen: list[tuple[str, str]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.specs or self.chosen)


ARGUMENTS: pytest.StashKey[Arguments] = pytest.StashKey()


def take_arguments(config: pytest.Config) -> bool:
    """Take our arguments out of pytest's, and return whether there are any.

    Runs in every process alike: workers parse the same command line.
    """
    source = config.args_source
    paths, chosen = split_positional(config.args)
    specs: list[str] = list(config.option.rlenv_repos or ())
    if not specs and not chosen and config.option.rlenv_taskset:
        specs = [TASKSET_PREFIX + config.option.rlenv_taskset]
    by_command_line = bool(specs or chosen)
    # Like testpaths, the ini key counts only where pytest is called without paths, in the rootdir.
    in_rootdir = config.invocation_params.dir == config.rootpath
    from_ini = not by_command_line and in_rootdir and source is not pytest.Config.ArgsSource.ARGS
    if from_ini:
        specs = list(config.getini("rlenv_repos") or ())
    found = Arguments(specs, from_ini, chosen)
    config.stash[ARGUMENTS] = found
    if found:
        testpaths_given = source is pytest.Config.ArgsSource.TESTPATHS and bool(config.getini("testpaths"))
        keep = source is pytest.Config.ArgsSource.ARGS or (testpaths_given and not by_command_line)
        config.args[:] = paths if keep else []
    return bool(found)


def split_positional(args: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Tell ``rlenv:...`` arguments from paths."""
    paths: list[str] = []
    chosen: list[tuple[str, str]] = []
    for arg in args:
        while arg.startswith("../") and PREFIX in arg:  # as pytest prints an id in a folder below the rootdir
            arg = arg.removeprefix("../")
        if arg.startswith(PREFIX):
            spec, _, rest = arg[len(PREFIX) :].partition("::")
            chosen.append((spec, rest))
        else:
            paths.append(arg)
    return paths, chosen


def is_narrowed(config: pytest.Config) -> bool:
    """Return whether an option of pytest's leaves fewer tasks than an environment lists."""
    return any(getattr(config.option, name, None) for name in NARROWING)


def is_active(config: pytest.Config) -> bool:
    """Return whether the command line or the ini file names an environment."""
    return bool(config.stash.get(ARGUMENTS, None))


def is_meant(config: pytest.Config, *names: str) -> bool:
    """Return whether an option speaks of this run from its start: tasks are named, or the option itself is.

    A value of an ini file or a variable is there in runs of other tests, too, and waits for a test of a task.

    Args:
        config: pytest's.
        names: options, of which one is enough.
    """
    given = any(getattr(config.option, f"rlenv_{name}", None) is not None for name in names)
    return given or is_active(config)
