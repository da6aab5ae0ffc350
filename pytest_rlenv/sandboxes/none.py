"""The sandbox of a run whose tasks need no boxes: servers or interpreters of their own stand behind them."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_rlenv.errors import Unsupported
from pytest_rlenv.sandboxes.model import BoxSpec, Capabilities, Entry, ImageRef, ImageSpec, SandboxContext
from pytest_rlenv.sandboxes.protocol import Box

_WHY = "this run has no boxes (sandbox none)"


class NoSandbox:
    """No boxes. Chosen by itself where no task of the run needs one."""

    name = "none"

    def __init__(self, context: SandboxContext) -> None:
        self.capabilities = Capabilities()

    def check(self) -> None:
        """Nothing is needed."""

    def describe(self) -> str:
        """Return the header's words."""
        return "none (no task needs one)"

    def prepare(self, image: ImageSpec, *, timeout: float | None = None) -> ImageRef:
        """Refuse.

        Raises:
            Unsupported: always.
        """
        raise Unsupported(_WHY)

    def start(self, image: ImageRef, spec: BoxSpec, entries: Iterable[Entry] = ()) -> Box:
        """Refuse.

        Raises:
            Unsupported: always.
        """
        raise Unsupported(_WHY)

    def close(self) -> None:
        """Nothing is up."""
