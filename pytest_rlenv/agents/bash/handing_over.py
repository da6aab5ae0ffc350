"""What a task has for its agent beside the instruction, as a shell can use it: MCP servers and skills."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pytest_rlenv.agents.protocol import AgentBox, McpServer
from pytest_rlenv.sandboxes.model import Entry
from pytest_rlenv.text import decode

MCP_FILE = "/tmp/rlenv-mcp.json"
MOST_SKILLS = 50
"""Skills that are named; the model finds the others in their folder."""

_LIST = r"""
find "$1" -maxdepth 3 -name SKILL.md 2>/dev/null | sort | head -n "$2" | while IFS= read -r file; do
  printf '\036%s\n' "$file"; head -n 30 "$file" | head -c 4000; printf '\n'
done
"""


def leave_servers(box: AgentBox, servers: Sequence[McpServer]) -> None:
    """Write how the servers are reached to :data:`MCP_FILE` in the box, in words that most clients read."""
    written = json.dumps({"mcpServers": {each.name: _server(each) for each in servers}}, indent=2)
    box.put([Entry(MCP_FILE[1:], written.encode())])


def skills_in(box: AgentBox, folder: str, shell: str) -> list[tuple[str, str]]:
    """Return the skills in a folder of the box: the path of each one's ``SKILL.md``, and what it is about."""
    listed = box.run([shell, "-c", _LIST, "rlenv", folder, str(MOST_SKILLS)], timeout=30)
    found = []
    for part in listed.output.split(b"\x1e")[1:]:
        path, _, text = decode(part).partition("\n")
        found.append((path, _description(text)))
    return found


def _server(server: McpServer) -> dict[str, Any]:
    if server.transport == "stdio":
        return {"command": server.command, "args": list(server.args)}
    kind = "http" if server.transport == "streamable-http" else server.transport
    found: dict[str, Any] = {"type": kind, "url": server.url}
    if server.headers:
        found["headers"] = dict(server.headers)
    return found


def _description(text: str) -> str:
    """Return a skill's description from the front matter of its file."""
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and key.strip() == "description":
            return value.strip().strip("\"'")
    return ""
