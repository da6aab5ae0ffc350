"""Settings files of the programs in the table: where their model is, and the task's MCP servers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pytest_rlenv.agents.command_line.spec import CHAT, MESSAGES, Launch
from pytest_rlenv.agents.protocol import McpServer


def opencode(launch: Launch) -> Mapping[str, str]:
    """Return ``opencode.json``: a provider of its own, so that no list of known models is asked."""
    packages = {CHAT: "@ai-sdk/openai-compatible", MESSAGES: "@ai-sdk/anthropic"}
    provider = {
        "npm": packages.get(launch.wire, "@ai-sdk/openai"),
        "name": "rlenv",
        "options": {"baseURL": launch.base_url, "apiKey": launch.key},
        "models": {launch.model: {"name": launch.model}},
    }
    return {
        "opencode.json": _json(
            {
                "$schema": "https://opencode.ai/config.json",
                "provider": {"rlenv": provider},
                "model": f"rlenv/{launch.model}",
                "small_model": f"rlenv/{launch.model}",
                "permission": {"*": "allow"},
                "autoupdate": False,
                "share": "disabled",
                "mcp": {server.name: _opencode_server(server) for server in launch.mcp_servers},
            }
        )
    }


def claude_code(launch: Launch) -> Mapping[str, str]:
    """Return the file of MCP servers; the rest are variables."""
    return {"mcp-servers.json": _json({"mcpServers": _mcp_servers(launch, url="url", typed=True)})}


def gemini_cli(launch: Launch) -> Mapping[str, str]:
    """Return the user's settings of Gemini CLI, which with our address must be told what the key is for."""
    own = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "mcpServers": _gemini_servers(launch)}
    return {".gemini/settings.json": _json(own)}


def qwen_code(launch: Launch) -> Mapping[str, str]:
    """Return the system-wide settings of Qwen Code, which has taken over the form of Gemini CLI's."""
    return {"settings.json": _json({"mcpServers": _gemini_servers(launch)})}


def _gemini_servers(launch: Launch) -> dict[str, Any]:
    servers = {}
    for server in launch.mcp_servers:
        url = "httpUrl" if server.transport == "streamable-http" else "url"
        servers[server.name] = _mcp_server(server, url=url, typed=False)
    return servers


def codex(launch: Launch) -> Mapping[str, str]:
    """Return ``config.toml``."""
    lines = [
        'model_provider = "rlenv"',
        f"model = {_toml(launch.model)}",
        "check_for_update_on_startup = false",
        "",
        "[model_providers.rlenv]",
        'name = "rlenv"',
        f"base_url = {_toml(launch.base_url)}",
        'env_key = "RLENV_MODEL_KEY"',
        'wire_api = "responses"',
    ]
    for server in launch.mcp_servers:
        lines += ["", f"[mcp_servers.{_toml(server.name)}]", *_codex_server(server)]
    return {"codex/config.toml": "\n".join(lines) + "\n"}


def goose(launch: Launch) -> Mapping[str, str]:
    """Return ``config.yaml``, which is JSON too: its own tools, and the task's servers."""
    extensions: dict[str, Any] = {
        "developer": {"type": "builtin", "name": "developer", "enabled": True, "timeout": 300}
    }
    for server in launch.mcp_servers:
        own: dict[str, Any] = {"name": server.name, "enabled": True, "timeout": 300}
        if server.transport == "stdio":
            own |= {"type": "stdio", "cmd": server.command, "args": list(server.args)}
        else:
            kind = server.transport.replace("-", "_")
            own |= {"type": kind, "uri": server.url, "headers": dict(server.headers)}
        extensions[server.name] = own
    return {"goose/config.yaml": _json({"extensions": extensions})}


def openhands(launch: Launch) -> Mapping[str, str]:
    """Return ``config.toml`` with the MCP servers."""
    rows: dict[str, list[str]] = {"sse_servers": [], "shttp_servers": [], "stdio_servers": []}
    for server in launch.mcp_servers:
        if server.transport == "stdio":
            command = f"name = {_toml(server.name)}, command = {_toml(server.command or '')}"
            rows["stdio_servers"].append(f"{{{command}, args = {_toml(list(server.args))}}}")
        else:
            kind = "sse_servers" if server.transport == "sse" else "shttp_servers"
            rows[kind].append(f"{{url = {_toml(server.url or '')}}}")
    lines = [f"{name} = [{', '.join(found)}]" for name, found in rows.items() if found]
    return {"openhands.toml": "\n".join(["[mcp]", *lines]) + "\n"}


def told_in_words(launch: Launch) -> str:
    """Return the MCP servers as a text, for the instruction of a program that cannot be given them."""
    if not launch.mcp_servers:
        return ""
    lines = ["These MCP servers are there for you:"]
    for server in launch.mcp_servers:
        where = " ".join([server.command or "", *server.args]).strip() or server.url
        lines.append(f"- {server.name} ({server.transport}): {where}")
    return "\n".join(lines)


def _mcp_servers(launch: Launch, *, url: str, typed: bool) -> dict[str, Any]:
    return {server.name: _mcp_server(server, url=url, typed=typed) for server in launch.mcp_servers}


def _mcp_server(server: McpServer, *, url: str, typed: bool) -> dict[str, Any]:
    if server.transport == "stdio":
        found: dict[str, Any] = {"command": server.command, "args": list(server.args)}
    else:
        found = {url: server.url, **({"headers": dict(server.headers)} if server.headers else {})}
    kind = "http" if server.transport == "streamable-http" else server.transport
    return {"type": kind, **found} if typed else {**found, "trust": True}


def _opencode_server(server: McpServer) -> dict[str, Any]:
    if server.transport == "stdio":
        return {"type": "local", "command": [server.command or "", *server.args], "enabled": True}
    headers = {"headers": dict(server.headers)} if server.headers else {}
    return {"type": "remote", "url": server.url, "oauth": False, "enabled": True, **headers}


def _codex_server(server: McpServer) -> list[str]:
    if server.transport == "stdio":
        return [f"command = {_toml(server.command or '')}", f"args = {_toml(list(server.args))}"]
    pairs = ", ".join(f"{_toml(name)} = {_toml(value)}" for name, value in server.headers.items())
    return [f"url = {_toml(server.url or '')}", *([f"http_headers = {{{pairs}}}"] if pairs else [])]


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def _toml(value: str | list[str]) -> str:
    """Return a text, or a list of texts, as TOML: its basic strings are JSON's, but for DEL."""
    return json.dumps(value).replace("\x7f", "\\u007f")
