"""A server of an environment's, however it was started, as long as it is kept up."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from pytest_rlenv.errors import SandboxFailed, Unsupported
from pytest_rlenv.sandboxes.model import Completed

_DEATH_SEC, _LOOK_SEC = 1.0, 0.05


class Server(ABC):
    """A server that is up. Kept between rollouts; a spoilt one is given to nobody any more.

    Args:
        url: its address, ``http://host:port``.
        words: what runs it, for records.
        image: its image, for records.
    """

    def __init__(self, url: str, words: str, image: str | None = None) -> None:
        self.url = url
        self.words = words
        self.image = image
        self._spoilt = False

    @property
    def is_near(self) -> bool:
        """True if it is on this machine, so that no proxy is to be asked."""
        return is_loopback(self.url)

    @property
    def alive(self) -> bool:
        """False once nothing more can be had of it."""
        return not self._spoilt and self.ended() is None

    def spoil(self) -> None:
        """Take it out of use: something that nobody waits for any more may still run in it."""
        self._spoilt = True

    def failed(self, what: str) -> SandboxFailed:
        """Return the error for a server that did not do as it should; it is taken out of use."""
        self.spoil()
        ended = self._ended_by_now()
        died = f"the server died ({ended})" if ended else f"the server at {self.url} {what}"
        return SandboxFailed(died, detail=self.tail())

    def _ended_by_now(self) -> str | None:
        """Return how it ended; a server that dies closes its connections a moment before it is seen dead."""
        give_up = time.monotonic() + _DEATH_SEC
        while (ended := self.ended()) is None and time.monotonic() < give_up:
            time.sleep(_LOOK_SEC)
        return ended

    @abstractmethod
    def ended(self) -> str | None:
        """Return how it ended, such as ``exit code 1``; ``None`` while it runs."""

    @abstractmethod
    def tail(self) -> str:
        """Return the end of what it printed."""

    @abstractmethod
    def close(self) -> None:
        """End it."""

    def run_script(self, argv: Sequence[str], script: bytes, *, timeout: float) -> Completed:
        """Put a file where the server runs and run a command there, whose last argument becomes its path.

        Raises:
            Unsupported: it does not run in a container of ours.
        """
        raise Unsupported(f"a reference that is a script needs a server in a container, not {self.words}")


class UrlServer(Server):
    """A server that somebody else keeps up."""

    def __init__(self, url: str) -> None:
        super().__init__(url, "url")

    @property
    def alive(self) -> bool:
        """Whoever keeps it up knows."""
        return True

    def ended(self) -> str | None:
        """Nobody tells."""
        return None

    def tail(self) -> str:
        """What it prints is not ours to read."""
        return ""

    def close(self) -> None:
        """It stays up."""

    def _ended_by_now(self) -> str | None:
        return None


def is_loopback(url: str) -> bool:
    """Return whether an address is on this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
