"""The file of pytest's ``--junitxml``, written during the run too: pytest does so at the end only.

A run that is killed leaves a valid file of what had ended. It is made by pytest's own writer, whose hook for
the end of the session is called earlier; where a version of pytest has no such thing, nothing is done.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from pytest_rlenv.reports.growing import SHARE, may_be_replaced


class InterimJUnit:
    """Writes pytest's JUnit file while the run goes on.

    Args:
        writer: pytest's plugin that writes it.
        path: the file.
    """

    def __init__(self, writer: Any, path: Path) -> None:
        self._writer: Any = writer
        self._path = path
        self._due = 0.0
        self._stale = True

    @classmethod
    def of(cls, config: pytest.Config) -> InterimJUnit | None:
        """Return it, if this run writes such a file."""
        for plugin in config.pluginmanager.get_plugins():
            if type(plugin).__name__ == "LogXML" and hasattr(plugin, "pytest_sessionfinish"):
                path = getattr(plugin, "logfile", None)
                return cls(plugin, Path(path)) if path and may_be_replaced(Path(path)) else None
        return None

    def changed(self) -> None:
        """Take note that a test has ended."""
        self._stale = True
        self.refresh()

    def refresh(self) -> None:
        """Write the file, if there is something new and it is time. What fails here, fails at the end too."""
        began = time.monotonic()
        if self._writer is None or not self._stale or began < self._due:
            return
        partial = self._path.with_name(f".{self._path.name}.part")
        self._writer.logfile = str(partial)
        try:
            self._writer.pytest_sessionfinish()
            partial.replace(self._path)
        except (AttributeError, TypeError):  # it is not what we took it for
            self._writer.logfile, self._writer = str(self._path), None
            return
        except (OSError, RuntimeError):
            pass  # of the first pytest itself will tell; the second is a test that adds to it just now
        finally:
            partial.unlink(missing_ok=True)
        self._writer.logfile = str(self._path)
        ended = time.monotonic()
        self._stale = False
        self._due = ended + SHARE * (ended - began)
