"""A server in a container of its own."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_rlenv.frameworks.openenv.server import Server
from pytest_rlenv.sandboxes.model import Completed, Entry
from pytest_rlenv.sandboxes.protocol import ServerBox

_SCRIPT = "rlenv-oracle"


class ContainerServer(Server):
    """A server in a container of its own."""

    def __init__(self, box: ServerBox, image: str) -> None:
        host, port = box.address
        super().__init__(f"http://{host}:{port}", "docker", image)
        self._box = box

    def ended(self) -> str | None:
        """Return how its container ended."""
        return self._box.ended()

    def tail(self) -> str:
        """Return the last lines that it printed."""
        return self._box.tail()

    def close(self) -> None:
        """Remove the container."""
        self._box.close()

    def run_script(self, argv: Sequence[str], script: bytes, *, timeout: float) -> Completed:
        """Put a file into the container and run a command there, whose last argument becomes its path."""
        self._box.put([Entry(_SCRIPT, content=script, mode=0o755)], "/tmp")
        return self._box.run([*argv, f"/tmp/{_SCRIPT}"], timeout=timeout)
