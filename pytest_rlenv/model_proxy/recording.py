"""A rollout's calls kept in a file, each with what came back: no key and no secret is in it."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from pytest_rlenv.errors import RecordingUnusable
from pytest_rlenv.secrets import SECRETS

FORMAT = "pytest-rlenv model calls"
VERSION = 1
CLIENT, PROVIDER = "client", "provider"


@dataclass(frozen=True)
class Exchange:
    """A call and its answer, as a line of a recording holds them.

    Attributes:
        path: below the base URL, such as ``/chat/completions``.
        request: the request's body, as it went to the provider.
        status: the answer's HTTP status.
        headers: those of its headers that say something: its type, and when to try again.
        events: the answer in events, as it came; ``None`` for one that came in one piece.
        body: the answer in one piece: JSON, or a text.
        cut: who broke it off, :data:`CLIENT` or :data:`PROVIDER`; empty for an answer that is all there.
    """

    path: str
    request: dict[str, Any]
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    events: tuple[str, ...] | None = None
    body: Any = None
    cut: str = ""


class Recorder:
    """Writes a recording, which takes its place when it is closed. Safe to use from several threads.

    Args:
        file: the recording; one that is there already is replaced, unless there was no call.
        facts: what is said of it as a whole.
    """

    def __init__(self, file: Path, facts: Mapping[str, Any]) -> None:
        self._file = file
        self._partial = file.with_name(f"{file.name}.part")
        self._lock = threading.Lock()
        file.parent.mkdir(parents=True, exist_ok=True)
        self._open: TextIO | None = self._partial.open("w", encoding="utf-8")
        self._calls = 0
        self.problem = ""
        """Why it is not complete."""
        self._write({"format": FORMAT, "version": VERSION, **facts})

    def add(self, exchange: Exchange) -> None:
        """Keep a call."""
        line: dict[str, Any] = {
            "path": exchange.path,
            "request": exchange.request,
            "status": exchange.status,
            "headers": dict(exchange.headers),
        }
        if exchange.events is not None:
            line["events"] = list(exchange.events)
        else:
            line["body"] = exchange.body
        if exchange.cut:
            line["cut"] = exchange.cut
        self._write(line)
        self._calls += 1

    def drop(self) -> None:
        """Do away with the recording; what is in its place from before stays."""
        self._end(keep=False)

    def close(self) -> None:
        """Put the recording in its place; may be called twice."""
        self._end(keep=bool(self._calls))

    def _end(self, *, keep: bool) -> None:
        with self._lock:
            if self._open is None:
                return
            self._open.close()
            self._open = None
            if keep:
                self._partial.replace(self._file)
            else:  # the rollout never came to it
                self._partial.unlink(missing_ok=True)

    def _write(self, line: Mapping[str, Any]) -> None:
        text = json.dumps(SECRETS.redact_json(dict(line)), ensure_ascii=False)
        with self._lock:
            if self._open is None:
                return
            try:
                self._open.write(f"{text}\n")
                self._open.flush()
            except OSError as error:
                self.problem = f"{self._file}: {error.strerror or error}"


def read_recording(file: Path) -> tuple[dict[str, Any], list[Exchange]]:
    """Return what a recording says of itself, and its calls.

    Raises:
        RecordingUnusable: there is none, or it cannot be read.
    """
    try:
        with file.open(encoding="utf-8") as opened:
            found = list(_objects(opened))
        if not found:
            raise ValueError("it is empty")
        facts, lines = found[0], found[1:]
    except FileNotFoundError:
        raise RecordingUnusable(
            f"no recording of this rollout's model: {file} is not there",
            hint="make it with --rlenv-record: same task, agent and attempt",
        ) from None
    except OSError as error:
        raise RecordingUnusable(f"{file} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise RecordingUnusable(f"{file}: {error}", hint="record it again") from error
    if facts.get("format") != FORMAT or facts.get("version") != VERSION:
        raise RecordingUnusable(
            f"{file} is no recording that this version reads", hint="record it again with --rlenv-record"
        )
    try:
        return facts, [_exchange(line) for line in lines]
    except (KeyError, TypeError, ValueError) as error:
        raise RecordingUnusable(f"{file}: a call in it cannot be read: {error!r}") from error


def _objects(lines: Iterable[str]) -> Iterable[dict[str, Any]]:
    for number, line in enumerate(lines, 1):
        found = None
        with contextlib.suppress(ValueError):
            found = json.loads(line)
        if not isinstance(found, dict):
            raise ValueError(f"line {number} is no JSON object")
        yield found


def _exchange(line: dict[str, Any]) -> Exchange:
    events = line.get("events")
    return Exchange(
        path=str(line["path"]),
        request=dict(line["request"]),
        status=int(line["status"]),
        headers={str(name): str(value) for name, value in dict(line.get("headers") or {}).items()},
        events=None if events is None else tuple(str(each) for each in events),
        body=line.get("body"),
        cut=str(line.get("cut") or ""),
    )
