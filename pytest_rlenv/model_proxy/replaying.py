"""Calls answered from a recording, each by the recorded one that asked the same; no model is there."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pytest_rlenv.model_proxy.comparable import Comparing, digest
from pytest_rlenv.model_proxy.difference import first_difference
from pytest_rlenv.model_proxy.failures import end_of
from pytest_rlenv.model_proxy.ledger import End
from pytest_rlenv.model_proxy.recording import PROVIDER, Exchange
from pytest_rlenv.secrets import SECRETS

_PASSING = (End.BUSY, End.BROKEN)


class Diverged(Exception):
    """What is asked was not recorded. The message says where it differs."""


@dataclass
class _Recorded:
    number: int
    exchange: Exchange
    plain: dict[str, Any]
    key: str
    used: bool = False


class Replay:
    """Answers from one recording. Safe to use from several threads.

    A recorded call is used once, and calls may come in another order, as those of an agent that makes
    several at a time do. After the first one that was not recorded, nothing is answered.

    Args:
        exchanges: the recorded calls.
        comparing: what is taken for the same.
    """

    def __init__(self, exchanges: Sequence[Exchange], comparing: Comparing) -> None:
        self._comparing = comparing
        self._lock = threading.Lock()
        self._asked = 0
        self._diverged = ""
        self._recorded: list[_Recorded] = []
        for number, exchange in enumerate(exchanges, 1):
            plain = comparing.plain(exchange.request)
            self._recorded.append(_Recorded(number, exchange, plain, digest(exchange.path, plain)))
        self._skip_what_was_tried_again()

    def answer(self, path: str, body: dict[str, Any]) -> Exchange:
        """Return the recorded call that asks the same.

        Args:
            path: below the base URL.
            body: the request's, as it would go to the provider.

        Raises:
            Diverged: there is none.
        """
        plain = self._comparing.plain(SECRETS.redact_json(body))
        key = digest(path, plain)
        with self._lock:
            if self._diverged:
                raise Diverged(self._diverged)
            self._asked += 1
            for each in self._recorded:
                if not each.used and each.key == key:
                    each.used = True
                    return each.exchange
            self._diverged = self._told(path, plain)
            raise Diverged(self._diverged)

    @property
    def left(self) -> int:
        """How many recorded calls were not made."""
        with self._lock:
            return sum(not each.used for each in self._recorded)

    def __len__(self) -> int:
        return len(self._recorded)

    def _told(self, path: str, plain: dict[str, Any]) -> str:
        left = [each for each in self._recorded if not each.used]
        expected = next((each for each in left if each.exchange.path == path), None)
        if expected is None:
            what = f"one to {left[0].exchange.path}" if left else "no more"
            return f"call {self._asked} is to {path}, and the recording has {what}"
        where = first_difference(expected.plain, plain)
        return f"call {self._asked} is not call {expected.number} of the recording: {where}"

    def _skip_what_was_tried_again(self) -> None:
        """Leave out an error that passed when the same was asked once more: nobody needs to wait for that."""
        for index, each in enumerate(self._recorded):
            status, body = each.exchange.status, each.exchange.body
            failed = status >= 400 and end_of(status, "", "") in _PASSING
            hidden = status < 400 and isinstance(body, dict) and bool(body.get("error"))
            if each.exchange.cut == PROVIDER or failed or hidden:
                later = self._recorded[index + 1 :]
                each.used = any(other.key == each.key for other in later)
