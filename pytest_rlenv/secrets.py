"""Values that must not be shown: which they are, and texts, records and files without them.

A secret is what a task takes from the caller's environment, less what is plainly public, and every variable
of the caller's whose name says that it is one, such as ``HF_TOKEN``. All reports ask :data:`SECRETS`.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import ItemsView, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pytest_rlenv.secret_forms import SHORTEST_LINE, forms_of, is_secret, says_secret

if TYPE_CHECKING:
    from pytest_rlenv.secret_guard import SecretGuard

AT_ONCE = 16 * 1024 * 1024
"""Files up to this many bytes are read whole."""

_CHUNK = 1024 * 1024
_PART = 6
"""Characters of a secret next to a cut from which on they count as a part of it."""
_CUT = re.compile(r"\[\.\.\. \d+ (?:characters cut|bytes left out)[^\]\n]*\]")

IDENTITY = frozenset(
    {"node", "environment", "task", "agent", "framework", "run", "worker", "verdict", "outcome", "logs"}
)
"""Fields of a record that say which rollout it is. They come from the task repository or from us."""


class Secrets:
    """The secrets of this process. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._marks: dict[str, str] = {}
        """What stands in for each form of each secret, the longest form first."""
        self._byte_marks: dict[bytes, bytes] = {}
        """The same for bytes of UTF-8."""
        self._guard: SecretGuard | None = None

    def learn(self, environ: Mapping[str, str]) -> None:
        """Take every variable whose name says that it is secret, and the token of ``hf auth login``."""
        for name, value in environ.items():
            if says_secret(name):
                self.add(name, value)
        if token := _stored_token(environ):
            self.add("HF_TOKEN", token)

    def add(self, name: str, value: str) -> None:
        """Take a value for a secret, unless it is plainly none.

        Args:
            name: the variable that holds it; it is shown in place of the value.
            value: what is not to be shown, in this or another spelling: Base64, URL, JSON, HTML.
        """
        if not is_secret(name, value):
            return
        values = [value.strip()]
        values += [line for each in value.splitlines() if len(line := each.strip()) >= SHORTEST_LINE]
        if "://" in value and (password := _password(value)):
            values.append(password)
        self.take({form: f"[redacted {name}]" for each in values for form in forms_of(each)})

    def take(self, forms: Mapping[str, str]) -> None:
        """Take texts for secrets in themselves, each with what stands in its place."""
        with self._lock:
            if forms.keys() <= self._marks.keys():
                return
            marks = {**forms, **self._marks}
            self._marks = {form: marks[form] for form in sorted(marks, key=len, reverse=True)}
            self._byte_marks = {_as_bytes(form): _as_bytes(mark) for form, mark in self._marks.items()}
            if self._guard is not None:
                self._guard.learn(self._marks)

    def guard(self, folder: Path) -> None:
        """Have a folder redacted if this process is gone, however it ends, before :meth:`redact_guarded`."""
        with self._lock:
            if self._guard is None:
                from pytest_rlenv.secret_guard import SecretGuard

                self._guard = SecretGuard()
                self._guard.learn(self._marks)
        self._guard.begin(folder)

    def redact_guarded(self, folder: Path) -> list[str]:
        """Redact a folder that was guarded until now; returns what :meth:`redact_folder` does."""
        problems = self.redact_folder(folder)
        if self._guard is not None:
            self._guard.end(folder)
        return problems

    def watching(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """Return the environment such that whatever is taken from it counts as a secret from then on."""
        return _Watched(environ, self)

    # ---- without secrets

    def redact(self, text: str) -> str:
        """Return a text without secrets, and without parts of them where a text was cut."""
        marks = self._marks
        # looking for each by itself is many times as fast as one pattern for all, and mostly there is none
        if found := [form for form in marks if form in text]:
            text = re.sub("|".join(map(re.escape, found)), lambda match: marks[match[0]], text)
        return _mend_cuts(text, marks) if marks and "[... " in text else text

    def redact_json(self, value: Any) -> Any:
        """Return plain JSON data without secrets, in keys too."""
        if not self._marks:
            return value
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, dict):
            return {self.redact(key): self.redact_json(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.redact_json(each) for each in value]
        return value

    def redact_record(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return a rollout's record without secrets; what says which rollout it is stays."""
        return {key: each if key in IDENTITY else self.redact_json(each) for key, each in record.items()}

    def redact_bytes(self, data: bytes) -> bytes:
        """Return data without secrets. In what is no text each is masked by as many bytes."""
        marks = self._byte_marks
        if b"\0" in data:
            return _masked(data, marks)
        if found := [form for form in marks if form in data]:
            data = re.sub(b"|".join(map(re.escape, found)), lambda match: marks[match[0]], data)
        if marks and b"[... " in data:
            # every byte is one character, and back: nothing can fail
            forms = [form.decode("latin-1") for form in marks]
            data = _mend_cuts(data.decode("latin-1"), forms).encode("latin-1")
        return data

    def redact_folder(self, folder: Path) -> list[str]:
        """Take secrets out of every regular file below a folder; links are not followed.

        Returns:
            The files, by their path in the folder, that could not be read or written.
        """
        problems: list[str] = []
        if not self._marks:
            return problems
        for where, _, names in os.walk(folder):
            for name in names:
                path = Path(where) / name
                try:
                    if stat.S_ISREG(path.lstat().st_mode):
                        self.redact_file(path)
                except OSError:
                    problems.append(path.relative_to(folder).as_posix())
        return problems

    def redact_file(self, path: Path) -> None:
        """Take secrets out of a file; one that has none is not touched.

        Raises:
            OSError: it cannot be read or written.
        """
        if path.lstat().st_size <= AT_ONCE:
            data = path.read_bytes()
            redacted = self.redact_bytes(data)
            if redacted != data:
                _replace(path, iter([redacted]))
        elif any(masked for _, masked in self._chunks(path)):
            _replace(path, (chunk for chunk, _ in self._chunks(path)))

    def _chunks(self, path: Path) -> Iterator[tuple[bytes, bool]]:
        """Yield a large file with each secret masked, and whether there was one.

        A secret may lie across two chunks, so an end of the one before is looked at again.
        """
        marks = self._byte_marks
        overlap = max(map(len, marks), default=1)
        with path.open("rb") as file:
            held = b""
            while data := file.read(_CHUNK):
                whole = held + data
                held = _masked(whole, marks)
                yield held[:-overlap], held != whole
                held = held[-overlap:]
            yield held, False


class _Watched(Mapping[str, str]):
    """An environment that tells what was taken from it."""

    def __init__(self, environ: Mapping[str, str], secrets: Secrets) -> None:
        self._environ = environ
        self._secrets = secrets

    def __getitem__(self, name: str) -> str:
        value = self._environ[name]
        self._secrets.add(name, value)
        return value

    def __contains__(self, name: object) -> bool:
        return name in self._environ

    def __iter__(self) -> Iterator[str]:
        return iter(self._environ)

    def __len__(self) -> int:
        return len(self._environ)

    def items(self) -> ItemsView[str, str]:
        """Return all variables: whoever goes through all of them has taken none."""
        return self._environ.items()


def _as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _masked(data: bytes, forms: Iterable[bytes]) -> bytes:
    """Return data with asterisks in the place of secrets: no position in it changes."""
    if found := [form for form in forms if form in data]:
        return re.sub(b"|".join(map(re.escape, found)), lambda match: b"*" * len(match[0]), data)
    return data


def _mend_cuts(text: str, forms: Iterable[str]) -> str:
    """Remove what is left of a secret that a cut went through."""
    parts: list[str] = []
    position = 0
    for cut in _CUT.finditer(text):
        parts += [text[position : cut.start()], cut[0]]
        position = cut.end()
    parts.append(text[position:])
    for index in range(1, len(parts), 2):
        for form in forms:
            parts[index - 1] = _without_begin(parts[index - 1], form)
            parts[index + 1] = _without_end(parts[index + 1], form)
    return "".join(parts)


def _without_begin(text: str, form: str) -> str:
    """Return a text without the begin of a secret that it ends with."""
    kept = text.rstrip("\n")
    for length in range(min(len(form), len(kept)), _PART - 1, -1):
        if kept.endswith(form[:length]):
            return kept[:-length] + text[len(kept) :]
    return text


def _without_end(text: str, form: str) -> str:
    """Return a text without the end of a secret that it begins with."""
    kept = text.lstrip("\n")
    for length in range(min(len(form), len(kept)), _PART - 1, -1):
        if kept.startswith(form[-length:]):
            return text[: len(text) - len(kept)] + kept[length:]
    return text


def _replace(path: Path, chunks: Iterator[bytes]) -> None:
    partial = path.with_name(f".{path.name[:100]}.part")
    try:
        with partial.open("wb") as file:
            for chunk in chunks:
                file.write(chunk)
        partial.chmod(stat.S_IMODE(path.lstat().st_mode))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _password(address: str) -> str | None:
    try:
        return urlsplit(address.strip()).password
    except ValueError:
        return None


def _stored_token(environ: Mapping[str, str]) -> str:
    """Return the token that ``hf auth login`` has left on this machine, or an empty text."""
    home = environ.get("HF_HOME") or Path(environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    place = Path(environ.get("HF_TOKEN_PATH") or Path(home) / "token")
    try:
        return place.expanduser().read_text(encoding="utf-8").strip()
    except (OSError, ValueError, RuntimeError):
        return ""


SECRETS = Secrets()
"""The secrets that this process knows."""
