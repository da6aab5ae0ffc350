"""The one file: template, styles, script and data put together so that no text of the data can act.

The browser enforces it: the policy in the page's head allows the one script and the one style sheet that have
the given digest, and nothing from any network. Data is JSON in blocks that are not scripts, with every ``<``
escaped, and the script puts texts into the page as texts only.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

SCRIPTS = (
    *("dom", "model", "route", "charts"),
    *("overview", "scores", "filters", "table"),
    *("task", "evidence", "facts", "trajectory"),
    "main",
)
"""The script's parts, in order; they share one scope."""
STYLES = ("theme", "layout", "table", "task", "print")

_DEEPEST = 60


def render(title: str, index: Mapping[str, Any], details: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the document in pieces, so that it need not be in memory whole.

    Args:
        title: of the page.
        index: what overview and table show; the page is usable once the browser has read it.
        details: of each rollout, in the order of the index; read while the page is already shown.
    """
    script, style = _script(), _style()
    head, middle, tail = _template().split("<!-- data -->")
    values = {"title": html.escape(title), "script-hash": _digest(script), "style-hash": _digest(style)}
    for name, value in values.items():
        head = head.replace("{{" + name + "}}", value)
    yield head.replace("{{style}}", style)
    yield f'<script type="application/json" id="index">{embed(index)}</script>\n'
    yield middle.replace("{{script}}", script)
    for number, each in enumerate(details):
        yield f'<script type="application/json" id="rollout-{number}">{embed(each)}</script>\n'
    yield tail


def embed(value: object) -> str:
    """Return a value as JSON that is safe between ``<script>`` tags.

    It is ASCII alone: no character can end the block, open a comment or trip an old parser.
    """
    text = json.dumps(plain(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def plain(value: object, depth: int = 0) -> object:
    """Return a value of strangers' records as JSON has it: no NaN, no infinite number, no endless depth."""
    if depth > _DEEPEST:
        return "[nested too deeply to be shown]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, depth + 1) for item in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _template() -> str:
    return _asset("report.html")


@cache
def _script() -> str:
    parts = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}}})();\n'


@cache
def _style() -> str:
    return "\n".join(_asset(f"{name}.css") for name in STYLES)


def _asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")
