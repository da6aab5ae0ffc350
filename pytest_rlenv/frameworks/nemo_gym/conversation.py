"""A row's request in the form of OpenAI's chat messages and tools, as agents are given them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_rlenv.agents.episode import Tool
from pytest_rlenv.errors import TaskInvalid, Unsupported
from pytest_rlenv.frameworks.nemo_gym.rows import REQUEST

Message = dict[str, Any]
_PARAMETERS = ("temperature", "top_p", "max_output_tokens", "tool_choice", "parallel_tool_calls")
_ROLES = {"developer": "system", "system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


def messages_of(row: Mapping[str, Any]) -> list[Message]:
    """Return what the conversation begins with.

    Raises:
        TaskInvalid: the request's input is of no form that the Responses API has.
        Unsupported: it holds what chat messages cannot.
    """
    request = row[REQUEST]
    messages: list[Message] = []
    if isinstance(request.get("instructions"), str):
        messages.append({"role": "system", "content": request["instructions"]})
    given = request.get("input", [])
    if isinstance(given, str):
        return [*messages, {"role": "user", "content": given}]
    if not isinstance(given, list):
        raise TaskInvalid(f"{REQUEST}.input is {type(given).__name__}, neither text nor a list")
    for item in given:
        _add(messages, item)
    return messages


def tools_of(row: Mapping[str, Any]) -> list[Tool]:
    """Return the functions that can be called.

    Raises:
        Unsupported: it asks for tools that the model's provider would have to run.
    """
    found = []
    for tool in row[REQUEST].get("tools") or ():
        if tool.get("type") != "function":
            raise Unsupported(f"{REQUEST}.tools asks for {tool.get('type')!r}, which only a provider can run")
        found.append(Tool(tool["name"], tool.get("description") or "", tool.get("parameters") or {}))
    return found


def parameters_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sampling parameters that a row asks for."""
    request = row[REQUEST]
    return {name: request[name] for name in _PARAMETERS if request.get(name) is not None}


def _add(messages: list[Message], item: Any) -> None:
    if not isinstance(item, dict):
        raise TaskInvalid(f"{REQUEST}.input holds {type(item).__name__}, not an object")
    kind = item.get("type") or "message"
    if kind == "message":
        messages.append({"role": _role(item), "content": _content(item.get("content"))})
    elif kind == "function_call":
        call = {"name": item.get("name"), "arguments": item.get("arguments")}
        calls = _open_calls(messages)
        calls.append({"id": item.get("call_id"), "type": "function", "function": call})
    elif kind == "function_call_output":
        output = item.get("output")
        text = output if isinstance(output, str) else _content(output)
        messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": text})
    elif kind != "reasoning":  # which only the model that wrote it could take back
        raise Unsupported(f"{REQUEST}.input holds {kind!r}, which chat messages cannot")


def _open_calls(messages: list[Message]) -> list[dict[str, Any]]:
    """Return the calls of the assistant's last message, which a further one joins."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": None})
    calls: list[dict[str, Any]] = messages[-1].setdefault("tool_calls", [])
    return calls


def _role(item: Mapping[str, Any]) -> str:
    role = _ROLES.get(str(item.get("role")))
    if role is None:
        raise TaskInvalid(f"{REQUEST}.input has a message of role {item.get('role')!r}")
    return role


def _content(content: Any) -> str | list[dict[str, Any]]:
    """Return a message's content: text, or parts where there are pictures among it."""
    if isinstance(content, str):
        return content
    parts = [_part(part) for part in content or () if isinstance(part, dict)]
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    kind = part.get("type")
    if kind in ("input_text", "output_text", "text"):
        return {"type": "text", "text": str(part.get("text", ""))}
    if kind == "input_image":
        return {"type": "image_url", "image_url": {"url": part.get("image_url")}}
    raise Unsupported(f"{REQUEST}.input holds {kind!r}, which chat messages cannot")


def instruction_of(messages: Sequence[Message]) -> str:
    """Return the user's words among messages, for people who read about a rollout."""
    said = [text for each in messages if each["role"] == "user" and isinstance(text := each["content"], str)]
    return "\n\n".join(said)
