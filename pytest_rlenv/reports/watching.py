"""The hooks of the progress line: it gives way to whatever pytest writes, and knows what runs in workers."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator

import pytest

from pytest_rlenv.arguments import PREFIX
from pytest_rlenv.fixtures import plan_of
from pytest_rlenv.reports.progress import LiveLine, Progress
from pytest_rlenv.run import Run
from pytest_rlenv.state import NOTICES, is_distributed

_NAME = "rlenv-watching"
FILE_ENDING = ".rlenv.toml::"


def watch(
    config: pytest.Config, run: Run, fd: int, *, done: Callable[[], int], tick: Callable[[], None]
) -> None:
    """Show what is under way from now on, if that is not so already; the arguments are those of the class."""
    if not config.pluginmanager.has_plugin(_NAME):
        config.pluginmanager.register(Watching(config, run, fd, done=done, tick=tick), _NAME)


class Watching:
    """Shows what is under way while tests run.

    Args:
        config: pytest's.
        run: the run.
        fd: what was stdout before pytest captured it.
        done: returns how many rollouts have ended.
        tick: called about once a second while tests run and pytest does not report.
    """

    def __init__(
        self, config: pytest.Config, run: Run, fd: int, *, done: Callable[[], int], tick: Callable[[], None]
    ) -> None:
        self._config = config
        self._run = run
        self._done = done
        self._total = 0
        self._of_workers = is_distributed(config)
        quiet = config.option.verbose < -1
        live = None if quiet else self._live_line(fd)
        self._progress = Progress(
            running=run.under_way.now,
            counts=self._counts,
            live=live,
            say=config.stash[NOTICES].say,
            heartbeat=0.0 if quiet or live is not None else run.settings.heartbeat,
            tick=tick,
        )
        config.stash[NOTICES].around = self._progress.paused

    def _live_line(self, fd: int) -> LiveLine | None:
        config = self._config
        suits = os.isatty(fd) and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")
        # without capture, and with live logs, others write where nobody can make room for them
        captured = getattr(config.option, "capture", "no") != "no"
        alone = captured and not _live_logs(config) and config.pluginmanager.has_plugin("terminalreporter")
        if self._run.settings.progress == "off" or not (suits and alone):
            return None
        writer = config.get_terminal_writer()
        # the writer's own width is that of a file while pytest captures
        return LiveLine(fd, column=lambda: writer.width_of_current_line, width=lambda: _columns(fd))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Be there while tests run."""
        self._count(session)
        self._progress.begin()
        try:
            return (yield)
        finally:
            self._progress.end()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> Generator[None, None, None]:
        """Make room for pytest; under xdist this is all that is known of a begin."""
        if self._of_workers:
            self._run.under_way.begin(nodeid, nodeid.partition("::")[2] or nodeid)
        with self._progress.paused():
            yield

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self) -> Generator[None, None, None]:
        """Make room for pytest."""
        with self._progress.paused():
            yield

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> Generator[None, None, None]:
        """Make room for pytest."""
        self._run.under_way.end(nodeid)
        with self._progress.paused():
            yield

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collectreport(self) -> Generator[None, None, None]:
        """Make room for pytest."""
        with self._progress.paused():
            yield

    @pytest.hookimpl(optionalhook=True, wrapper=True, tryfirst=True)
    def pytest_testnodedown(self) -> Generator[None, None, None]:
        """Make room for xdist."""
        with self._progress.paused():
            yield

    @pytest.hookimpl(optionalhook=True, wrapper=True, tryfirst=True)
    def pytest_handlecrashitem(self, crashitem: str) -> Generator[None, None, None]:
        """Take note that a rollout's worker has died."""
        self._run.under_way.end(crashitem)
        with self._progress.paused():
            yield

    @pytest.hookimpl(tryfirst=True)
    def pytest_enter_pdb(self) -> None:
        """Leave the terminal to the debugger, for good."""
        self._progress.end()

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self) -> None:
        """Leave the terminal to pytest."""
        self._progress.end()

    @pytest.hookimpl(tryfirst=True)
    def pytest_internalerror(self) -> None:
        """Leave the terminal to pytest."""
        self._progress.end()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Take note of how many tests the workers have."""
        self._total = sum(nodeid.startswith(PREFIX) or FILE_ENDING in nodeid for nodeid in ids)

    def _count(self, session: pytest.Session) -> None:
        self._total = sum(plan_of(item) is not None for item in getattr(session, "items", ()))

    def _counts(self) -> tuple[int, int]:
        done = self._done()
        return done, self._total if self._total >= done else 0


def _columns(fd: int) -> int:
    """Return the terminal's columns; 0 if it is gone, or does not know."""
    try:
        return os.get_terminal_size(fd).columns
    except OSError:
        return 0


def _live_logs(config: pytest.Config) -> bool:
    if not config.pluginmanager.has_plugin("logging-plugin"):
        return False
    return bool(config.getini("log_cli")) or config.getoption("log_cli_level", None) is not None
