"""Our modules are loaded as any others are.

pytest compiles every module of a plugin's package anew, to rewrite its asserts: 0.6 s of CPU in each process
of a first run, and 0.25 s in every run where Python may not write compiled code, as in many CI images. There
is no assert to rewrite here. To import this module is enough.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

PACKAGE = "pytest_rlenv."


class PlainImports:
    """Finds the package's modules before pytest's own finder sees them."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how Python itself would load one of our modules, ``None`` for all others."""
        return PathFinder.find_spec(name, path, target) if name.startswith(PACKAGE) else None


sys.meta_path.insert(0, PlainImports)
