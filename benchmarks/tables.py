"""Results as Markdown, with the facts of the machine that they hold for."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path


@dataclass
class Table:
    """One table of results.

    Attributes:
        title: what was measured.
        columns: heads of the columns.
        rows: cells, as text.
        notes: how to read it, and what could not be measured.
    """

    title: str
    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        """Add a row."""
        self.rows.append(cells)

    def text(self) -> str:
        """Return it as Markdown."""
        lines = [f"## {self.title}", ""]
        if self.rows:
            lines += [_row(self.columns), "|" + "---|" * len(self.columns), *map(_row, self.rows), ""]
        lines += [f"- {note}" for note in self.notes]
        return "\n".join(lines).rstrip() + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def machine_facts() -> str:
    """Return what the numbers depend on, in a few lines."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    packages = ", ".join(f"{name} {version(name)}" for name in ("pytest", "pytest-xdist", "docker"))
    return "\n".join(
        (
            f"- {platform.platform()}, {os.cpu_count()} cores ({_processor()}), {memory:.0f} GiB",
            f"- Python {platform.python_version()}, {packages}",
            f"- Docker engine: {_engine()}",
            f"- load average before: {os.getloadavg()[0]:.1f}",
        )
    )


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        text = ""
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _engine() -> str:
    import docker

    try:
        found = docker.from_env(timeout=5).version()
    except docker.errors.DockerException:
        return "none"
    return f"{found['Version']}"


def seconds(value: float) -> str:
    """Return a time: milliseconds below one second."""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"


def times(value: float) -> str:
    """Return a ratio."""
    return f"{value:.2f}"
