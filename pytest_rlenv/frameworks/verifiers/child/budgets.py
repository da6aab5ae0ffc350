"""The budgets that our model server holds, told to Verifiers as a stop, so that what they end is scored.

A call that the server refuses would be an error of the provider's to Verifiers, which scores nothing after
that. It looks at the stops of a task before each call.
"""

from __future__ import annotations

import asyncio
import copy
import urllib.error
import urllib.request
from typing import Any

import verifiers.v1 as vf

STOP = "rlenv_budget"
"""The stop's name, which is the trace's stop condition where a budget ended it."""
_LIMIT = 10.0
_REFUSED = 402

_question: urllib.request.Request | None = None
"""What to ask, for the one episode that is played in this process."""


def with_budgets(task: Any, url: str, key: str) -> Any:
    """Return a task whose agents end as soon as a budget is used up; the task itself is left as it was.

    Args:
        task: the task.
        url: the model server's address.
        key: the rollout's.
    """
    global _question
    _question = urllib.request.Request(f"{url}/rlenv/budget", headers={"Authorization": f"Bearer {key}"})
    plugged = vf.TaskConfig.model_validate({"stops": {STOP: {"fn": f"{__name__}:budget_used_up"}}}).stops
    found = copy.copy(task)
    found.config = task.config.model_copy(update={"stops": {**task.config.stops, **plugged}})
    return found


async def budget_used_up(trace: vf.Trace) -> bool:
    """Return whether the server would refuse another call for a budget."""
    return await asyncio.to_thread(_is_refused)


def _is_refused() -> bool:
    try:
        assert _question is not None
        with _OPENER.open(_question, timeout=_LIMIT):
            return False
    except urllib.error.HTTPError as error:
        with error:
            return error.code == _REFUSED
    except OSError:
        return False  # the call itself meets the same, and tells


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""The server is on this machine: never through a proxy."""
