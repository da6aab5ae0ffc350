"""Harbor's own package, where it is installed, and the beginning of an agent that is written for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

HARBOR_PYTHON = Path(__file__).parents[2] / ".matrix" / "harbor-0.26.0" / "bin" / "python"

OWN_AGENT = """
from harbor.agents.base import BaseAgent


class Own(BaseAgent):
    @staticmethod
    def name():
        return "own"

    def version(self):
        return "3.1"
"""
"""What its methods are put behind."""

Test = TypeVar("Test", bound=Callable[..., Any])


def needs_harbor(test: Test) -> Test:
    """Mark a test, or a class of them, that runs Harbor."""
    missing = pytest.mark.skipif(
        not HARBOR_PYTHON.exists(), reason="Harbor is not installed: bash scripts/setup_harbor.sh"
    )
    return pytest.mark.harbor(missing(test))
