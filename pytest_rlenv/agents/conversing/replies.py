"""A chat completion as the harness takes it: what the model says, which tools it calls, what it has used."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_rlenv.text import clean

Json = dict[str, Any]

_DEAREST = 1e9
"""US dollars that no reply costs: not NaN, not infinite."""


class Unreadable(ValueError):
    """An answer that is no chat completion."""


@dataclass(frozen=True)
class Call:
    """A tool that the model calls.

    Attributes:
        id: by which the result is given back.
        name: the tool's name.
        arguments: what it is called with; ``None`` where that is no JSON object.
        raw: the arguments as they came.
    """

    id: str
    name: str
    arguments: Json | None
    raw: str = ""


@dataclass
class Usage:
    """Tokens and cost; ``input_tokens`` include those from a cache, and cost is in US dollars.

    ``None`` is unknown, which is not 0.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None

    def add(self, other: Usage) -> None:
        """Add what another reply has used."""
        for name, value in vars(other).items():
            if value is not None:
                setattr(self, name, (getattr(self, name) or 0) + value)

    @property
    def tokens(self) -> int:
        """All that is known, in and out."""
        return (self.input_tokens or 0) + (self.output_tokens or 0)


@dataclass(frozen=True)
class Reply:
    """One reply.

    Attributes:
        text, reasoning: what it says, and what it thought where the server tells; empty for nothing.
        calls: the tools that it calls.
        end: the server's word for why it ended: ``stop``, ``tool_calls``, ``length``, ``content_filter``.
        refusal: what it says where it will not do what it is asked; ``None`` if it will.
        usage: what it has used.
        message: the message as it goes back into the conversation.
    """

    text: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    end: str = ""
    refusal: str | None = None
    usage: Usage = field(default_factory=Usage)
    message: Json = field(default_factory=dict)

    @property
    def is_cut(self) -> bool:
        """True if it is longer than the server would let it be."""
        return self.end == "length"


def parse_reply(answer: object, number: int) -> Reply:
    """Read a server's answer.

    Args:
        answer: its JSON.
        number: of the reply, for the ids of calls that have none.

    Raises:
        Unreadable: it is no chat completion.
    """
    choices = answer.get("choices") if isinstance(answer, Mapping) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not (isinstance(answer, Mapping) and isinstance(choice, Mapping) and isinstance(message, Mapping)):
        raise Unreadable("no choices[0].message in it")
    text = _text(message.get("content"))
    reasoning = _text(message.get("reasoning_content") or message.get("reasoning"))
    calls = tuple(_calls(message.get("tool_calls"), number))
    end = str(choice.get("finish_reason") or "")
    return Reply(
        text=text,
        reasoning=reasoning,
        calls=calls,
        end=end,
        refusal=_refusal(message, text, end, calls),
        usage=_usage(answer.get("usage")),
        message=_sent_back(message, text, calls),
    )


def _refusal(message: Mapping[str, Any], text: str, end: str, calls: tuple[Call, ...]) -> str | None:
    if said := _text(message.get("refusal")):
        return said
    if end == "content_filter" and not calls:
        return text or "the provider's content filter"
    return None


def _text(content: object) -> str:
    if isinstance(content, str):
        return clean(content)
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return clean("\n".join(part for part in parts if isinstance(part, str)))
    return ""


def _calls(raw: object, number: int) -> Iterator[Call]:
    seen: set[str] = set()
    for index, call in enumerate(raw if isinstance(raw, list) else ()):
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            continue
        name, id_ = clean(str(function.get("name") or "")), call.get("id")
        if not isinstance(id_, str) or not id_ or id_ in seen:  # not every server gives each its own
            id_ = f"call_{number}_{index}"
        seen.add(id_)
        arguments = function.get("arguments")
        written = arguments if isinstance(arguments, str) else json.dumps(arguments)
        yield Call(clean(id_), name, _object(written), clean(written))


def _object(text: str) -> Json | None:
    try:
        found = json.loads(text or "{}", parse_constant=_no_number)
    except (ValueError, RecursionError):
        return None
    sound = _encodable(found)
    return sound if isinstance(sound, dict) else None


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _encodable(value: Any) -> Any:
    """Return JSON data whose texts are Unicode: an escape can hold half a character, which no command can."""
    if isinstance(value, str):
        return value.encode("utf-8", errors="replace").decode()
    if isinstance(value, dict):
        return {_encodable(key): _encodable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_encodable(each) for each in value]
    return value


def _usage(raw: object) -> Usage:
    if not isinstance(raw, Mapping):
        return Usage()
    details = raw.get("prompt_tokens_details")
    return Usage(
        input_tokens=_count(raw.get("prompt_tokens")),
        output_tokens=_count(raw.get("completion_tokens")),
        cached_tokens=_count(details.get("cached_tokens")) if isinstance(details, Mapping) else None,
        cost_usd=_dollars(raw.get("cost")),
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _dollars(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value < _DEAREST else None


def _sent_back(message: Mapping[str, Any], text: str, calls: tuple[Call, ...]) -> Json:
    """Return the message with what servers take back; arguments that are no JSON would be refused."""
    back: Json = {"role": "assistant", "content": text or None}
    if calls:
        back["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": "{}" if call.arguments is None else call.raw or "{}",
                },
            }
            for call in calls
        ]
    elif not text:
        back["content"] = ""
    for key in ("reasoning_content", "reasoning_details"):  # some servers want it back, none minds
        if message.get(key):
            back[key] = message[key]
    return back
