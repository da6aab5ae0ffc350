"""A row's request in the form of OpenAI's chat messages and tools, as agents are given them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pytest_rlenv.agents.episode import Tool
from pytest_rlenv.errors import TaskInvalid, Unsupported
from pytest_rlenv.frameworks.nemo_gym.rows import REQUEST

T = TypeVar("T")
Message = dict[str, Any]
INSTEAD = "oracle and nop judge such rows, and replay:FILE what `gym eval run` recorded"
"""What can be done about a row that agents cannot play here."""
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
        TaskInvalid: a tool is of no form that the Responses API has.
        Unsupported: it asks for tools that the model's provider would have to run.
    """
    given = row[REQUEST].get("tools") or []
    if not isinstance(given, list):
        raise TaskInvalid(f"{REQUEST}.tools is {type(given).__name__}, not a list")
    return [_tool(tool, f"{REQUEST}.tools[{index}]") for index, tool in enumerate(given)]


def _tool(tool: Any, where: str) -> Tool:
    if not isinstance(tool, dict):
        raise TaskInvalid(f"{where} is {type(tool).__name__}, not an object")
    if tool.get("type") != "function":
        raise Unsupported(
            f"{where} is of type {tool.get('type')!r}, which only a model's provider can run; {INSTEAD}"
        )
    return Tool(
        _of_kind(str, tool.get("name"), f"{where}.name"),
        _of_kind(str, tool.get("description") or "", f"{where}.description"),
        _of_kind(dict, tool.get("parameters") or {}, f"{where}.parameters"),
    )


def _of_kind(kind: type[T], value: Any, where: str) -> T:
    if not isinstance(value, kind):
        raise TaskInvalid(f"{where} is {type(value).__name__}, not {kind.__name__}")
    return value


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
        raise Unsupported(f"{REQUEST}.input holds {kind!r}, which chat messages cannot; {INSTEAD}")


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
    if content is not None and not isinstance(content, list):
        raise TaskInvalid(f"{REQUEST}.input has a content of {type(content).__name__}, not text or a list")
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
    raise Unsupported(f"{REQUEST}.input holds {kind!r}, which chat messages cannot; {INSTEAD}")


def text_of_item(item: Mapping[str, Any]) -> str:
    """Return what an item of a conversation says as text: a tool's output, or a message's words."""
    said = item.get("output") if item.get("type") == "function_call_output" else item.get("content")
    if isinstance(said, list):
        return "".join(str(part.get("text", "")) for part in said if isinstance(part, dict))
    return "" if said is None else str(said)


def instruction_of(messages: Sequence[Message]) -> str:
    """Return the user's words among messages, for people who read about a rollout."""
    said = [text for each in messages if each["role"] == "user" and isinstance(text := each["content"], str)]
    return "\n\n".join(said)
