"""What was done before, from a trajectory into the conversation: as if this model had done it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from pytest_rlenv.agents.conversing.replies import Json
from pytest_rlenv.trajectory.model import Step, text_of_content

NO_RESULT = "[nothing came back]"


def messages_of(steps: Iterable[Step]) -> Iterator[Json]:
    """Yield the messages of earlier steps. What the system said there is left out: ours is said instead."""
    for step in steps:
        text = text_of_content(step.message)
        if step.source == "user":
            yield {"role": "user", "content": text}
        elif step.source == "agent":
            yield from _of_agent(step, text)


def _of_agent(step: Step, text: str) -> Iterator[Json]:
    calls = step.tool_calls or []
    message: Json = {"role": "assistant", "content": text or (None if calls else "")}
    if calls:
        message["tool_calls"] = [
            {
                "id": call.tool_call_id,
                "type": "function",
                "function": {"name": call.function_name, "arguments": json.dumps(call.arguments)},
            }
            for call in calls
        ]
    yield message
    results = step.observation.results if step.observation else []
    for call in calls:  # servers want one result for each call, no more and no less
        said = [text_of_content(each.content) for each in results if each.source_call_id == call.tool_call_id]
        yield {"role": "tool", "tool_call_id": call.tool_call_id, "content": "\n".join(said) or NO_RESULT}
    loose = [text_of_content(each.content) for each in results if each.source_call_id is None]
    if loose:
        yield {"role": "user", "content": "\n".join(loose)}
