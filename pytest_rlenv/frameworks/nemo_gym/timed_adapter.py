"""One deadline for a whole answer over HTTP, its head and its body, however slowly it comes.

The time-outs that HTTP libraries know are for each read: an answer that trickles in never exceeds them. Here
each read waits for what is left of the deadline. Over TLS it is as the libraries have it.
"""

from __future__ import annotations

import socket
import time
from typing import Any, ClassVar

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool

from pytest_rlenv.frameworks.nemo_gym.deadline import Deadline


class _Socket(socket.socket):
    deadline: Deadline

    def recv_into(self, *args: Any, **options: Any) -> int:
        left = self.deadline.at - time.monotonic()
        try:
            if left <= 0:
                raise TimeoutError("timed out")
            self.settimeout(left)
            return super().recv_into(*args, **options)
        except TimeoutError:
            self.deadline.passed = True
            raise


class _Connection(HTTPConnection):
    deadline: ClassVar[Deadline]

    def connect(self) -> None:
        super().connect()
        assert self.sock is not None
        kept = _Socket(fileno=self.sock.detach())
        kept.deadline = self.deadline
        self.sock = kept


class TimedAdapter(HTTPAdapter):
    """Has a session of ``requests`` keep to a deadline.

    Args:
        deadline: set before each request.
    """

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        super().__init__()

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        """Have all connections know the deadline."""
        super().init_poolmanager(*args, **options)
        connection = type("_Timed", (_Connection,), {"deadline": self._deadline})
        pool = type("_TimedPool", (HTTPConnectionPool,), {"ConnectionCls": connection})
        manager = self.poolmanager
        manager.pool_classes_by_scheme = {**manager.pool_classes_by_scheme, "http": pool}
