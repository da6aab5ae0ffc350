"""pytest's hooks, each a line or two: options, collection, reporting. The logic is elsewhere.

Imported at every pytest start, so this module imports nothing but pytest and the option table.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, nullcontext
from pathlib import Path

import pytest

from pytest_rlenv import plain_imports  # noqa: F401 - before our other modules, which it is about
from pytest_rlenv.arguments import is_active, take_arguments
from pytest_rlenv.cycles import no_search, set_aside
from pytest_rlenv.notices import Notices
from pytest_rlenv.options import RULES, add_options, read_options, replace_aliases
from pytest_rlenv.state import ASIDE, INI_MARKS, JUDGED, NOTICES, RECORD, RUN, SECONDS_AHEAD, is_worker

MARKS = (
    "rlenv(repo, agent=..., task=...): run this test, which takes `rollout`, once for each task",
    "rlenv_task(agent, framework, ...): set on each rollout's item, with its task's metadata",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the option table."""
    add_options(parser)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(parser: pytest.Parser, args: list[str]) -> Generator[None, None, None]:
    """Accept the short flags where no plugin or conftest owns them."""
    yield
    replace_aliases(parser, args)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register marks, fixtures and the controller; take our arguments out of pytest's."""
    from pytest_rlenv import fixtures

    config.stash[INI_MARKS] = frozenset(config.getini("markers"))
    for mark in MARKS:
        config.addinivalue_line("markers", mark)
    config.pluginmanager.register(fixtures, "rlenv-fixtures")
    config.stash[ASIDE] = ExitStack()
    config.add_cleanup(config.stash[ASIDE].close)  # after pytest's own last search: last in, first out
    config.stash[NOTICES] = Notices()
    config.add_cleanup(config.stash[NOTICES].close)
    if take_arguments(config):
        from pytest_rlenv.signals import end_on_sigterm

        config.add_cleanup(end_on_sigterm())
        with no_search():
            _register_hooks(config)
    else:
        _register_hooks(config)


def _register_hooks(config: pytest.Config) -> None:
    given = read_options(config)
    if not is_worker(config):
        from pytest_rlenv.controller import Controller

        config.pluginmanager.register(Controller(config), "rlenv-controller")
        if config.option.collectonly:
            from pytest_rlenv.listing import Listing

            config.pluginmanager.register(Listing(config), "rlenv-listing")
        if "baseline" in given or "fail_on" in given:
            from pytest_rlenv.reports.comparison.hooks import BaselineGate

            config.pluginmanager.register(BaselineGate(config), "rlenv-baseline")
        if "resume" in given:
            from pytest_rlenv.resuming.hooks import Resuming

            config.pluginmanager.register(Resuming(config), "rlenv-resuming")
        if "html" in given:
            from pytest_rlenv.reports.html.hooks import HtmlReport

            config.pluginmanager.register(HtmlReport(config), "rlenv-html")
        if given.keys() & set(RULES):
            from pytest_rlenv.rules.hooks import RunRules

            config.pluginmanager.register(RunRules(config), "rlenv-rules")
        if "jobs" in given:
            from pytest_rlenv.jobs.loop import Jobs

            config.pluginmanager.register(Jobs(config), "rlenv-jobs")
    if "baseline" in given:
        from pytest_rlenv.reports.comparison.hooks import Selecting

        config.pluginmanager.register(Selecting(config), "rlenv-selecting")
    if "shard" in given:
        from pytest_rlenv.sharding.hooks import Sharding

        config.pluginmanager.register(Sharding(config), "rlenv-sharding")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Add a virtual module per environment to what pytest's arguments produced."""
    with no_search() if is_active(collector.config) else nullcontext():
        report = yield
    if isinstance(collector, pytest.Session) and is_active(collector.config) and report.passed:
        from pytest_rlenv.collection import top_nodes

        report.result = [*report.result, *top_nodes(collector, report.result)]
    return report


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect ``*.rlenv.toml``."""
    if not file_path.name.endswith(".rlenv.toml"):
        return None
    from pytest_rlenv.collection import FileNode

    node: pytest.Collector = FileNode.from_parent(parent, path=file_path)
    return node


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that is marked with ``rlenv`` once for each task."""
    if metafunc.definition.get_closest_marker("rlenv") is not None:
        from pytest_rlenv.marked import parametrize

        parametrize(metafunc)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Bring the files of the selected tasks here, all in one go."""
    if RUN in session.config.stash:
        from pytest_rlenv.collection import RolloutItem, fetch_selected

        fetch_selected(session)
        if all(isinstance(item, RolloutItem) for item in session.items):
            session.config.stash[ASIDE].callback(set_aside())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Take note of the next task: its images may be prepared meanwhile."""
    if RUN in item.config.stash:
        from pytest_rlenv.fixtures import look_ahead

        look_ahead(item.config, nextitem)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Hand the rollout's record to the report that decides the item."""
    report = yield
    if SECONDS_AHEAD in item.stash:
        report.duration += item.stash[SECONDS_AHEAD]
        del item.stash[SECONDS_AHEAD]
    if report.when == "setup" and not report.passed:
        from pytest_rlenv.fixtures import settle

        settle(item, call, report)
    if RUN in item.config.stash:
        from pytest_rlenv.reports.capture import redact_report

        redact_report(report)
    if RECORD in item.stash and (report.when == "call" or not report.passed):
        vars(report)["rlenv"] = item.stash[RECORD]
        del item.stash[RECORD]
    if report.when == "teardown" and JUDGED in item.stash:
        del item.stash[JUDGED]
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> Generator[None, None, None]:
    """Take the record off a report that everybody has seen: pytest keeps reports to the end."""
    yield
    vars(report).pop("rlenv", None)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Let go of the sandbox."""
    if RUN in config.stash:
        config.stash[RUN].close()
