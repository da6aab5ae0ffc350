"""How a scripted model's replies look on each wire, whole and as a stream of events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from support.model_script import Failure, Reply

CHAT, RESPONSES, MESSAGES, GOOGLE = "chat", "responses", "messages", "google"
PATHS = {
    "/chat/completions": CHAT,
    "/responses": RESPONSES,
    "/messages": MESSAGES,
    ":generateContent": GOOGLE,
    ":streamGenerateContent": GOOGLE,
}
Json = dict[str, Any]
_CREATED = 1_700_000_000


def error_body(wire: str, failure: Failure) -> Json:
    if wire == MESSAGES:
        kind = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
        return {
            "type": "error",
            "error": {"type": kind.get(failure.status, "api_error"), "message": failure.message},
        }
    return {"error": {"message": failure.message, "type": "scripted", "code": failure.code or None}}


class Answer:
    """One reply, numbered so that its ids are its own."""

    def __init__(self, reply: Reply, number: int, model: str) -> None:
        self.reply = reply
        self.number = number
        self.model = model

    def whole(self, wire: str) -> Json:
        makers = {CHAT: self._chat, RESPONSES: self._response, MESSAGES: self._message}
        return makers.get(wire, self._google)()

    def events(self, wire: str, *, with_usage: bool) -> Iterator[bytes]:
        """Yield the stream's events as bytes."""
        if wire == CHAT:
            for chunk in self._chat_chunks(with_usage=with_usage):
                yield f"data: {json.dumps(chunk)}\n\n".encode()
            yield b"data: [DONE]\n\n"
        elif wire == GOOGLE:
            for chunk in self._google_chunks():
                yield f"data: {json.dumps(chunk)}\r\n\r\n".encode()
        else:
            events = self._response_events() if wire == RESPONSES else self._message_events()
            for event in events:
                yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()

    def _calls(self) -> list[tuple[str, str, str]]:
        return [
            (f"call_{self.number}_{index}", call.name, json.dumps(call.arguments))
            for index, call in enumerate(self.reply.tools)
        ]

    # ---- chat completions

    def _chat_usage(self) -> Json:
        reply = self.reply
        usage: Json = {
            "prompt_tokens": reply.input_tokens,
            "completion_tokens": reply.output_tokens,
            "total_tokens": reply.input_tokens + reply.output_tokens,
            "prompt_tokens_details": {"cached_tokens": reply.cached_tokens},
        }
        return usage if reply.cost is None else {**usage, "cost": reply.cost}

    def _chat_end(self) -> str:
        return {"tools": "tool_calls", "refusal": "content_filter"}.get(self.reply.why, self.reply.why)

    def _chat(self) -> Json:
        message: Json = {"role": "assistant", "content": self.reply.text or None}
        if self.reply.tools:
            message["tool_calls"] = [
                {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}
                for id_, name, arguments in self._calls()
            ]
        return {
            "id": f"chatcmpl-{self.number}",
            "object": "chat.completion",
            "created": _CREATED,
            "model": self.model,
            "choices": [{"index": 0, "message": message, "finish_reason": self._chat_end()}],
            "usage": self._chat_usage(),
        }

    def _chat_chunks(self, *, with_usage: bool) -> Iterator[Json]:
        def chunk(delta: Json, end: str | None = None) -> Json:
            return {
                "id": f"chatcmpl-{self.number}",
                "object": "chat.completion.chunk",
                "created": _CREATED,
                "model": self.model,
                "choices": [{"index": 0, "delta": delta, "finish_reason": end}],
            }

        yield chunk({"role": "assistant", "content": ""})
        for piece in _pieces(self.reply.text):
            yield chunk({"content": piece})
        for index, (id_, name, arguments) in enumerate(self._calls()):
            function = {"name": name, "arguments": ""}
            yield chunk(
                {"tool_calls": [{"index": index, "id": id_, "type": "function", "function": function}]}
            )
            for piece in _pieces(arguments):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield chunk({}, self._chat_end())
        if with_usage:
            yield {**chunk({}), "choices": [], "usage": self._chat_usage()}

    # ---- responses

    def _items(self) -> list[Json]:
        items: list[Json] = []
        if self.reply.text:
            kind = "refusal" if self.reply.why == "refusal" else "output_text"
            content = {"type": kind, kind.removeprefix("output_"): self.reply.text, "annotations": []}
            items.append(
                {
                    "id": f"msg_{self.number}",
                    "type": "message",
                    "role": "assistant",
                    "status": "completed",
                    "content": [content],
                }
            )
        items += [
            {
                "id": f"fc_{id_}",
                "type": "function_call",
                "status": "completed",
                "call_id": id_,
                "name": name,
                "arguments": arguments,
            }
            for id_, name, arguments in self._calls()
        ]
        return items

    def _response(self) -> Json:
        reply = self.reply
        cut = reply.why == "length"
        return {
            "id": f"resp_{self.number}",
            "object": "response",
            "created_at": _CREATED,
            "status": "incomplete" if cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "error": None,
            "model": self.model,
            "output": self._items(),
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": reply.input_tokens,
                "input_tokens_details": {"cached_tokens": reply.cached_tokens},
                "output_tokens": reply.output_tokens,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": reply.input_tokens + reply.output_tokens,
            },
        }

    def _response_events(self) -> Iterator[Json]:
        whole = self._response()
        begun = {**whole, "status": "in_progress", "output": [], "usage": None}
        events: list[Json] = [
            {"type": "response.created", "response": begun},
            {"type": "response.in_progress", "response": begun},
        ]
        for index, item in enumerate(whole["output"]):
            events += self._item_events(index, item)
        events.append({"type": f"response.{whole['status']}", "response": whole})
        for number, event in enumerate(events):
            yield {**event, "sequence_number": number}

    @staticmethod
    def _item_events(index: int, item: Json) -> Iterator[Json]:
        place = {"item_id": item["id"], "output_index": index}
        empty = {**item, "status": "in_progress"}
        empty |= {"content": []} if item["type"] == "message" else {"arguments": ""}
        yield {"type": "response.output_item.added", "output_index": index, "item": empty}
        if item["type"] == "message":
            part, place = item["content"][0], {**place, "content_index": 0}
            key = part["type"].removeprefix("output_")
            yield {"type": "response.content_part.added", **place, "part": {**part, key: ""}}
            for piece in _pieces(part[key]):
                yield {"type": f"response.{part['type']}.delta", **place, "delta": piece}
            yield {"type": f"response.{part['type']}.done", **place, key: part[key]}
            yield {"type": "response.content_part.done", **place, "part": part}
        else:
            for piece in _pieces(item["arguments"]):
                yield {"type": "response.function_call_arguments.delta", **place, "delta": piece}
            yield {
                "type": "response.function_call_arguments.done",
                **place,
                "arguments": item["arguments"],
            }
        yield {"type": "response.output_item.done", "output_index": index, "item": item}

    # ---- messages

    def _message_end(self) -> str:
        ends = {"stop": "end_turn", "tools": "tool_use", "length": "max_tokens"}
        return ends.get(self.reply.why, self.reply.why)

    def _message_usage(self) -> Json:
        reply = self.reply
        return {
            "input_tokens": reply.input_tokens - reply.cached_tokens,
            "cache_read_input_tokens": reply.cached_tokens,
            "cache_creation_input_tokens": 0,
            "output_tokens": reply.output_tokens,
        }

    def _message(self) -> Json:
        content: list[Json] = [{"type": "text", "text": self.reply.text}] if self.reply.text else []
        content += [
            {"type": "tool_use", "id": id_, "name": call.name, "input": dict(call.arguments)}
            for (id_, _, _), call in zip(self._calls(), self.reply.tools, strict=True)
        ]
        return {
            "id": f"msg_{self.number}",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": self._message_end(),
            "stop_sequence": None,
            "usage": self._message_usage(),
        }

    def _message_events(self) -> Iterator[Json]:
        whole, usage = self._message(), self._message_usage()
        begun = {**whole, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
        yield {"type": "message_start", "message": begun}
        yield {"type": "ping"}
        for index, block in enumerate(whole["content"]):
            is_text = block["type"] == "text"
            empty = {**block, "text": ""} if is_text else {**block, "input": {}}
            yield {"type": "content_block_start", "index": index, "content_block": empty}
            for piece in _pieces(block["text"] if is_text else json.dumps(block["input"])):
                delta = {"type": "text_delta", "text": piece}
                if not is_text:
                    delta = {"type": "input_json_delta", "partial_json": piece}
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        yield {
            "type": "message_delta",
            "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": None},
            "usage": {"output_tokens": self.reply.output_tokens},
        }
        yield {"type": "message_stop"}

    # ---- Google's own

    def _google(self) -> Json:
        reply = self.reply
        parts: list[Json] = [{"text": reply.text}] if reply.text else []
        parts += [{"functionCall": {"name": call.name, "args": dict(call.arguments)}} for call in reply.tools]
        end = {"length": "MAX_TOKENS", "refusal": "SAFETY"}.get(reply.why, "STOP")
        return {
            "candidates": [
                {"content": {"role": "model", "parts": parts}, "finishReason": end, "index": 0},
            ],
            "usageMetadata": {
                "promptTokenCount": reply.input_tokens,
                "candidatesTokenCount": reply.output_tokens - 1,
                "thoughtsTokenCount": 1,
                "cachedContentTokenCount": reply.cached_tokens,
            },
            "modelVersion": self.model,
        }

    def _google_chunks(self) -> Iterator[Json]:
        whole = self._google()
        usage = {**whole["usageMetadata"], "candidatesTokenCount": 0}
        for piece in _pieces(self.reply.text):
            content = {"role": "model", "parts": [{"text": piece}]}
            yield {"candidates": [{"content": content, "index": 0}], "usageMetadata": usage}
        (last,) = whole["candidates"]
        parts = [part for part in last["content"]["parts"] if "text" not in part]
        yield {**whole, "candidates": [{**last, "content": {"role": "model", "parts": parts}}]}


def _pieces(text: str, size: int = 7) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]
