"""MCP servers of a ``task.toml``. Read and checked as Harbor does; nothing here connects to one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, Field, field_validator, model_validator

from pytest_rlenv.agents.protocol import McpServer as AgentMcpServer
from pytest_rlenv.errors import VariableMissing

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TEMPLATE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_SENSITIVE = re.compile(r"KEY|SECRET|TOKEN(?!S)|PASSWORD|CREDENTIAL|AUTH", re.IGNORECASE)
_COOKIES = frozenset({"cookie", "set-cookie"})
_REFERENCE = r"\$\{[A-Za-z_][A-Za-z0-9_]*(?::-)?\}"
_ONLY_REFERENCES = re.compile(rf"\s*(?:[A-Za-z]+\s+)?{_REFERENCE}(?:[\s:-]*{_REFERENCE})*\s*")


class McpServer(BaseModel):
    """A server of tools for the agent; the reference solution and ``nop`` ignore it."""

    name: str
    transport: Literal["stdio", "sse", "streamable-http"] = "sse"
    url: str | None = None
    command: str | None = None
    args: list[str] = Field(default_factory=list)
    headers: dict[str, str] = Field(default_factory=dict)

    @field_validator("transport", mode="before")
    @classmethod
    def _short_name(cls, value: Any) -> Any:
        return "streamable-http" if value == "http" else value

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, headers: dict[str, str]) -> dict[str, str]:
        for name, value in headers.items():
            _check_header(name, value)
        return headers

    @model_validator(mode="after")
    def _fields_of_transport(self) -> McpServer:
        if self.transport == "stdio":
            if not self.command:
                raise ValueError("transport 'stdio' needs a command")
            if self.headers:
                raise ValueError("headers are for HTTP transports only")
        elif not self.url:
            raise ValueError(f"transport {self.transport!r} needs a url")
        return self


def _check_header(name: str, value: str) -> None:
    """Refuse a malformed header, or one that holds a credential instead of naming its variable."""
    if not _HEADER_NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not an HTTP header name")
    if "\r" in value or "\n" in value:
        raise ValueError(f"header {name!r} has a line break")
    if "${" in _TEMPLATE.sub(" ", value) or any("${" in (d or "") for _, d in _templates(value)):
        raise ValueError(f"header {name!r} has a malformed ${{VAR}}")
    if _holds_credential(name, value):
        raise ValueError(
            f"header {name!r} must name its credential as ${{VAR}} without a default, not hold it"
        )


def _holds_credential(name: str, value: str) -> bool:
    secret = bool(_SENSITIVE.search(name)) or name.lower() in _COOKIES
    if any(default and (secret or _SENSITIVE.search(var)) for var, default in _templates(value)):
        return True
    return secret and bool(value.strip()) and not _ONLY_REFERENCES.fullmatch(value)


def _templates(value: str) -> list[tuple[str, str | None]]:
    return [(m[1], m[2]) for m in _TEMPLATE.finditer(value)]


def servers_for_agent(servers: Iterable[McpServer], environ: Mapping[str, str]) -> list[AgentMcpServer]:
    """Return the servers as an agent is told of them, the credentials in their headers filled in.

    Args:
        servers: those of the task.
        environ: the caller's environment.

    Raises:
        VariableMissing: variables without a value; all of them, with the headers that ask for them.
    """
    missing: dict[str, str] = {}
    found = []
    for server in servers:
        headers = {}
        for name, value in server.headers.items():
            for variable, default in _templates(value):
                if variable not in environ and default is None:
                    missing.setdefault(variable, f"header {name!r} of MCP server {server.name!r}")
            headers[name] = _TEMPLATE.sub(lambda match: environ.get(match[1], match[2] or ""), value)
        found.append(
            AgentMcpServer(
                name=server.name,
                transport=server.transport,
                url=server.url,
                command=server.command,
                args=tuple(server.args),
                headers=headers,
            )
        )
    if missing:
        listed = ", ".join(f"{variable} ({field})" for variable, field in missing.items())
        raise VariableMissing(
            f"task.toml: not set in the environment: {listed}", hint="Set them where pytest runs."
        )
    return found
