"""The record of an episode as an ATIF trajectory: what was said and called in the trace that is judged."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pytest_rlenv.trajectory import TRAJECTORY
from pytest_rlenv.trajectory.model import AgentInfo, Metrics, Observation, Result, ToolCall
from pytest_rlenv.trajectory.writing import GrowingTrajectory

EPISODE = "episode.json"
"""The record, which Verifiers reads again."""
FOLDER = "agent"

Node = Mapping[str, Any]


def leave_trajectory(folder: Path, agent: str, seat: str) -> None:
    """Write the trajectory of a seat's last trace beside the record; nothing where there is no trace.

    Args:
        folder: the rollout's.
        agent: the agent's name.
        seat: whose trace is judged.
    """
    try:
        episode = json.loads((folder / EPISODE).read_text(encoding="utf-8"))
        traces = [trace for trace in episode.get("traces", ()) if trace["agent"].get("name") == seat]
        if traces and traces[-1].get("nodes"):
            (folder / FOLDER).mkdir(exist_ok=True)
            _write(folder / FOLDER / TRAJECTORY, traces[-1], agent)
    except (OSError, ValueError, KeyError, TypeError, ValidationError):
        # the record tells all that there is, all the same
        (folder / FOLDER / TRAJECTORY).unlink(missing_ok=True)


def _write(path: Path, trace: Mapping[str, Any], agent: str) -> None:
    calls = {call["node"]: call for call in trace.get("calls", ()) if call.get("node") is not None}
    model = next((call.get("model") for call in calls.values()), None)
    version = str(trace["verifiers"]["version"])
    info = AgentInfo(name=agent, version=f"verifiers-{version}", model_name=model)
    document = GrowingTrajectory(
        path, info, session_id=str(trace["id"]), extra={"stop": trace.get("stop_condition")}
    )
    path_of_nodes = _last_branch(trace["nodes"])
    index = 0
    while index < len(path_of_nodes):
        number, node = path_of_nodes[index]
        message = node["message"]
        results = _results(path_of_nodes[index + 1 :])
        index += 1 + len(results)
        document.add(timestamp=_time(node), **_step(message, calls.get(number)))
        if results:
            document.observe(Observation(results=results))


def _last_branch(nodes: Sequence[Node]) -> list[tuple[int, Node]]:
    """Return the path from the root to the last message."""
    path: list[tuple[int, Node]] = []
    at: int | None = len(nodes) - 1
    while at is not None:
        path.append((at, nodes[at]))
        at = nodes[at].get("parent")
    return path[::-1]


def _results(following: Sequence[tuple[int, Node]]) -> list[Result]:
    found = []
    for _, node in following:
        message = node["message"]
        if message["role"] != "tool":
            break
        found.append(Result(source_call_id=message["tool_call_id"], content=_text(message.get("content"))))
    return found


def _step(message: Mapping[str, Any], call: Mapping[str, Any] | None) -> dict[str, Any]:
    text = _text(message.get("content"))
    if message["role"] != "assistant":
        return {"source": "system" if message["role"] == "system" else "user", "message": text}
    tools = [
        ToolCall(tool_call_id=each["id"], function_name=each["name"], arguments=_arguments(each["arguments"]))
        for each in message.get("tool_calls") or ()
    ]
    usage = (call or {}).get("usage") or {}
    metrics = Metrics(
        prompt_tokens=usage.get("prompt_tokens", 0) + (usage.get("cached_input_tokens") or 0),
        completion_tokens=usage.get("completion_tokens"),
        cached_tokens=usage.get("cached_input_tokens"),
        cost_usd=usage.get("cost"),
    )
    return {
        "source": "agent",
        "message": text,
        "reasoning_content": message.get("reasoning_content"),
        "tool_calls": tools or None,
        "metrics": metrics if usage else None,
    }


def _arguments(text: Any) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (TypeError, ValueError):
        return {"text": str(text)}
    return found if isinstance(found, dict) else {"value": found}


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text") or f"[{part.get('type')}]" for part in content or ())


def _time(node: Node) -> str | None:
    stamp = node.get("timestamp")
    if not isinstance(stamp, (int, float)):
        return None
    return datetime.fromtimestamp(stamp, timezone.utc).isoformat(timespec="milliseconds")
