"""The chat history of aider: Markdown in which ``####`` is the user, ``>`` a tool, and the rest the model."""

from __future__ import annotations

import re
from typing import Literal

from pytest_rlenv.agents.command_line.transcript import Transcript

_AMOUNT = r"(\d[\d,]{0,15}(?:\.\d{1,9})?[kM]?)"
_TOKENS = re.compile(rf"> Tokens: {_AMOUNT} sent(?:, .*)?, {_AMOUNT} received")
_COST = re.compile(r"\$(\d{1,9}(?:\.\d{1,9})?) session")
_UNITS = {"k": 1_000, "M": 1_000_000}
Kind = Literal["user", "agent", "tool"]


def read(log: bytes, told: Transcript) -> None:
    """Read the history: lines of a kind that follow each other belong together."""
    kind: Kind | None = None
    block: list[str] = []
    for line in log.decode("utf-8", "replace").splitlines():
        if line.startswith("# aider chat started"):
            continue
        found = _kind(line, kind)
        if found != kind:
            _tell(kind, block, told)
            kind, block = found, []
        block.append(line)
        _count(line, told)
    _tell(kind, block, told)


def _kind(line: str, before: Kind | None) -> Kind | None:
    if line.startswith("#### "):
        return "user"
    if line.startswith(">"):
        return "tool"
    if not line.strip():
        return before
    return "agent"


def _tell(kind: Kind | None, block: list[str], told: Transcript) -> None:
    text = "\n".join(block).strip()
    if not text:
        return
    if kind == "user":
        told.say("user", "\n".join(line.removeprefix("#### ").rstrip() for line in block).strip())
    elif kind == "agent":
        told.turn()
        told.text(text)
    elif told.has_agent_steps:
        told.result(None, "\n".join(line.removeprefix(">").strip() for line in block).strip())


def _count(line: str, told: Transcript) -> None:
    if (tokens := _TOKENS.search(line)) is not None:
        for key, value in zip(("input_tokens", "output_tokens"), tokens.groups(), strict=True):
            told.usage[key] = told.usage.get(key, 0) + _number(value)
    if (cost := _COST.search(line)) is not None:
        told.usage["cost_usd"] = float(cost.group(1))


def _number(text: str) -> int:
    unit = _UNITS.get(text[-1], 1)
    return round(float(text.rstrip("kM").replace(",", "")) * unit)
