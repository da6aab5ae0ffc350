"""What is known of a call while its answer comes."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from pytest_rlenv.agents.protocol import Stop
from pytest_rlenv.model_proxy.answers import AnswerReader, is_answer
from pytest_rlenv.model_proxy.failures import end_of
from pytest_rlenv.model_proxy.ledger import End
from pytest_rlenv.model_proxy.recording import CLIENT, Exchange
from pytest_rlenv.model_proxy.requests import Asked
from pytest_rlenv.model_proxy.wires import Route

_SHOWN = 500


class CallUnderWay:
    """A call so far.

    Args:
        path: below the base URL.
        route: what that is for.
        asked: the request as it is sent.
    """

    def __init__(self, path: str, route: Route, asked: Asked) -> None:
        self.path = path
        self.route = route
        self.asked = asked
        self.begin = self.heard = time.monotonic()
        """When it came, and when the provider sent something last."""
        self.reader = AnswerReader(route.wire)
        self.end = End.BROKEN
        self.status = 0
        self.text = ""
        self.stop: Stop | None = None
        self.headers: dict[str, str] = {}
        self.events: list[str] | None = None
        self.body: Any = None
        self.cut = ""
        self.waited = 0.0
        self.closed = False

    def break_off(self) -> None:
        """Take note that the client is gone; many are once they have the last event, and that is no break."""
        if self.closed or self.cut:
            return
        if self.reader.ended:
            self.take_end()
        else:
            self.end, self.cut = End.CUT, CLIENT
            self.waited = time.monotonic() - self.heard
            self.text = f"the client went away, after {self.waited:.1f} s in which nothing came"

    def read_whole(self, body: Mapping[str, Any]) -> None:
        """Read an answer that came in one piece, with a good status, and take note of how the call ended."""
        self.reader.whole(body)
        if self.reader.error is None and self.route.counts and not is_answer(self.route.wire, body):
            self.end, self.text = End.BROKEN, f"HTTP {self.status}, and what came is no answer of a model"
        else:
            self.take_end()

    def take_end(self) -> None:
        """Take note of how a call ended of which the whole answer was read."""
        error = self.reader.error
        if error is None:
            self.end = End.REFUSED if self.reader.refused else End.GOOD
        else:
            self.end = end_of(self.reader.error_status, *error)
            self.text = short(": ".join(filter(None, error)))

    def as_exchange(self) -> Exchange:
        """Return it as a recording has it."""
        return Exchange(
            path=self.path,
            request=self.asked.body,
            status=self.status,
            headers=self.headers,
            events=None if self.events is None else tuple(self.events),
            body=self.body,
            cut=self.cut,
        )


def json_or_text(data: bytes) -> Any:
    """Return a body as JSON, or as a text if it is none."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return data.decode("utf-8", "replace")


def one_line(body: Any) -> str:
    """Return a body that is a text on one line; empty for any other."""
    return " ".join(body.split()) if isinstance(body, str) else ""


def short(text: str) -> str:
    """Return a text of bounded length."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
