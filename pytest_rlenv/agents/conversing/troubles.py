"""What a model's server means by an error: try again, shorten, stop and be judged, or nothing to judge."""

from __future__ import annotations

import email.utils
import json
import time
from collections.abc import Mapping

from pytest_rlenv.agents.protocol import Stop
from pytest_rlenv.errors import ModelAccessDenied, ModelNotFound, ModelRequestInvalid
from pytest_rlenv.model_proxy.failures import end_of
from pytest_rlenv.model_proxy.ledger import End
from pytest_rlenv.model_proxy.wires import BUDGET, UNREACHABLE
from pytest_rlenv.text import clean, tail

_BUDGETS = {
    "--rlenv-max-turns": Stop.TURN_LIMIT,
    "--rlenv-max-tokens": Stop.TOKEN_BUDGET,
    "--rlenv-max-rollout-cost": Stop.COST_BUDGET,
}
"""Which budget is used up, by the option that the endpoint names."""


class Momentary(Exception):
    """The same request may be answered later.

    Args:
        message: what the server said, with its status.
        after: seconds that it asks to wait.
        reached: False if there was no server to say anything.
    """

    def __init__(self, message: str, after: float | None = None, *, reached: bool = True) -> None:
        super().__init__(message)
        self.after = after
        self.reached = reached


class TooLong(Exception):
    """The request is longer than the model's context."""


class Refused(Exception):
    """The provider's filter does not let the request through."""


class BudgetUsedUp(Exception):
    """The run's own budget for this rollout is used up.

    Args:
        message: what the endpoint said.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.kind = next((stop for option, stop in _BUDGETS.items() if option in message), Stop.TOKEN_BUDGET)


def trouble_of(status: int, body: str, headers: Mapping[str, str], model: str) -> Exception:
    """Return what to raise for an answer that is an error.

    Args:
        status: the HTTP status.
        body: the answer's text.
        headers: its headers.
        model: the model's name, for the message.
    """
    code, message = _said(body)
    shown = f"HTTP {status}: {tail(message, lines=3, chars=400) or code or 'no reason given'}"
    if code == BUDGET:
        return BudgetUsedUp(message)
    if code.startswith("rlenv_") and code != UNREACHABLE:
        return ModelRequestInvalid(message)
    end = end_of(status, code, message)
    if end in (End.BUSY, End.BROKEN):
        return Momentary(shown, _retry_after(headers), reached=code != UNREACHABLE)
    if end is End.DENIED:
        return ModelAccessDenied(
            f"the provider of model {model} does not let us in: {shown}",
            hint="is the key right, may it use this model, and is there credit?",
        )
    if end is End.NOT_FOUND:
        return ModelNotFound(f"there is no model {model}: {shown}", hint="see --model and --rlenv-model-url")
    if end is End.CONTEXT:
        return TooLong(shown)
    if end is End.REFUSED:
        return Refused(shown)
    return ModelRequestInvalid(f"the provider of model {model} refuses the request: {shown}")


def _said(body: str) -> tuple[str, str]:
    """Return an error's code and message; the whole body where it has none."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return "", clean(body)
    error = found.get("error", found) if isinstance(found, Mapping) else found
    if not isinstance(error, Mapping):
        return "", clean(str(error))
    code = error.get("code") or error.get("type") or ""
    return clean(str(code)), clean(str(error.get("message") or error.get("detail") or body))


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a ``Retry-After``, which may be a time of day."""
    value = headers.get("Retry-After") or ""
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None
