"""What the plugin keeps on pytest's config and items: the stash keys, and the run of a config."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from contextlib import ExitStack

    from pytest_rlenv.execution import Judged
    from pytest_rlenv.identity import Identity
    from pytest_rlenv.jobs.ahead import Ahead
    from pytest_rlenv.jobs.pool import Pool
    from pytest_rlenv.notices import Notices
    from pytest_rlenv.run import Run
    from pytest_rlenv.settings import Settings

RUN: pytest.StashKey[Run] = pytest.StashKey()
IDENTITY: pytest.StashKey[Identity] = pytest.StashKey()
SETTINGS: pytest.StashKey[Settings] = pytest.StashKey()
JUDGED: pytest.StashKey[Judged] = pytest.StashKey()
"""What became of an item's rollout, until its test has ended: a run of 10,000 must not keep them all."""
RECORD: pytest.StashKey[str] = pytest.StashKey()
"""On an item: the JSON record of its last rollout, not yet handed to a report."""

POOL: pytest.StashKey[Pool] = pytest.StashKey()
"""Where rollouts run ahead of their tests, while any do."""
AHEAD: pytest.StashKey[Ahead] = pytest.StashKey()
"""On an item: its rollout, begun before the item's turn."""
SECONDS_AHEAD: pytest.StashKey[float] = pytest.StashKey()
"""On an item: how long such a rollout took, not yet added to a report's own time."""

NOTICES: pytest.StashKey[Notices] = pytest.StashKey()
ASIDE: pytest.StashKey[ExitStack] = pytest.StashKey()
"""What takes in again, at the end, what no search for cycles looks at during a run."""

STARTED: pytest.StashKey[float] = pytest.StashKey()
"""When a run that may have a time budget was started, on the monotonic clock of this machine."""

INI_MARKS: pytest.StashKey[frozenset[str]] = pytest.StashKey()
"""The marks of the user's ini file."""
TAKEN_MARKS: pytest.StashKey[frozenset[str]] = pytest.StashKey()
"""The marks that mean something to pytest or a plugin."""

WORKER_INPUT = "rlenv"
"""Key of what the controller hands to a worker."""


def is_worker(config: pytest.Config) -> bool:
    """Return whether this process is an xdist worker."""
    return hasattr(config, "workerinput")


def is_distributed(config: pytest.Config) -> bool:
    """Return whether xdist's workers run the tests."""
    return getattr(config.option, "dist", "no") != "no" and bool(getattr(config.option, "tx", None))


def is_dry(config: pytest.Config) -> bool:
    """Return whether this run only lists or plans: nothing is fetched, started or written."""
    option = config.option
    return bool(
        option.collectonly
        or getattr(option, "setupplan", False)
        or getattr(option, "show_fixtures_per_test", False)
        or getattr(option, "showfixtures", False)
    )


def get_settings(config: pytest.Config) -> Settings:
    """Return the checked settings.

    Raises:
        SpecError: an option's value is wrong.
    """
    if SETTINGS not in config.stash:
        from pytest_rlenv.options import read_options
        from pytest_rlenv.settings import load_settings

        config.stash[SETTINGS] = load_settings(read_options(config))
    return config.stash[SETTINGS]


def get_identity(config: pytest.Config) -> Identity:
    """Return the run's identity: made by the controller, read by workers."""
    if IDENTITY not in config.stash:
        from pytest_rlenv.identity import Identity
        from pytest_rlenv.options import read_options

        if given := _given(config):
            paths = {name: Path(given["identity"][name]) for name in ("run_dir", "rootdir", "base")}
            config.stash[IDENTITY] = Identity(session=given["identity"]["session"], **paths)
        else:
            output = read_options(config).get("output")
            config.stash[IDENTITY] = Identity.new(
                # Without an ini file pytest's rootdir follows from the arguments: two ways to name an
                # environment would give it two names.
                rootdir=config.rootpath if config.inipath else config.invocation_params.dir,
                base=config.invocation_params.dir,
                output=str(output.raw) if output else None,
            )
    return config.stash[IDENTITY]


def get_run(config: pytest.Config) -> Run:
    """Return this process's run, made at first use.

    Raises:
        SpecError: an option's value is wrong.
    """
    if RUN not in config.stash:
        from pytest_rlenv.environments.model import loads
        from pytest_rlenv.identity import MAIN
        from pytest_rlenv.rules.of_run import Rules
        from pytest_rlenv.run import Run
        from pytest_rlenv.secrets import SECRETS

        SECRETS.learn(os.environ)
        for name, password in get_settings(config).passwords.items():
            SECRETS.add(name, password)
        worker = getattr(config, "workerinput", {}).get("workerid", MAIN)
        run = Run(get_identity(config), get_settings(config), worker=worker)
        if NOTICES in config.stash and config.option.verbose >= 0:
            run.notify = config.stash[NOTICES].say
        given = _given(config)
        started = given["started"] if given else config.stash.get(STARTED, None)
        if started is not None and run.settings.max_seconds is not None:
            run.deadline = started + run.settings.max_seconds
        run.rules = (
            Rules.load(given["rules"])
            if given and given["rules"]
            else Rules.read(run.settings, base=run.identity.base, rootdir=run.identity.rootdir)
        )
        if given:
            run.environments = loads(given["environments"])
            run.chosen = given["chosen"]
            run.sandbox_name = given["sandbox"] or run.sandbox_name
        config.stash[RUN] = run
    return config.stash[RUN]


def worker_input(config: pytest.Config) -> str:
    """Return what a worker needs to be part of this run, as text."""
    from pytest_rlenv.environments.model import dumps

    run = config.stash.get(RUN, None)
    return json.dumps(
        {
            "identity": {name: str(value) for name, value in asdict(get_identity(config)).items()},
            "environments": dumps(run.environments if run else []),
            "chosen": run.chosen if run else {},
            "sandbox": run.sandbox_name if run else None,
            "started": config.stash.get(STARTED, None),
            "rules": run.rules.dump() if run else None,
        }
    )


def _given(config: pytest.Config) -> dict[str, Any] | None:
    """Return what the controller handed to this worker; ``None`` elsewhere."""
    text = getattr(config, "workerinput", {}).get(WORKER_INPUT)
    found: dict[str, Any] | None = json.loads(text) if text else None
    return found
