"""Which values are secrets, and that none of their spellings stays in a text, a record or a file."""

from __future__ import annotations

import base64
import html
import json
import os
import re
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_rlenv import secrets as module
from pytest_rlenv.secret_forms import is_secret
from pytest_rlenv.secrets import Secrets

KEY = "sk-proj-Ab3+/9x&\"'<é>zz0"


@pytest.fixture
def secrets() -> Secrets:
    made = Secrets()
    made.add("OPENAI_API_KEY", KEY)
    return made


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("OPENAI_API_KEY", "sk-123456", True),
        ("HF_TOKEN", "hf_abcdef", True),
        ("DB_PASSWORD", "hunter2", True),
        ("DB_PASSWORD", "1", False),
        ("ANYTHING", "a-value-that-nobody-knows", True),
        ("ANYTHING", "short", False),
        ("DEBUG_AUTH", "true", False),
        ("OPENAI_BASE_URL", "https://models.example.com/v1", False),
        ("OPENAI_BASE_URL", "https://user:pw123456@models.example.com/v1", True),
        ("DATABASE_URL", "postgres://app:s3cret@db/app", True),
        ("HOOK_URL", "https://example.com/hook?token=abcdef", True),
        ("MODEL_NAME", "vendor/model-large-2", False),
        ("PATH", "/usr/bin:/opt/bin", False),
        ("LC_ALL", "en_GB.UTF-8", False),
        ("TIMEOUT_SEC", "120000000", False),
        ("GOOGLE_APPLICATION_CREDENTIALS", os.__file__, False),
        ("PWD", "/some/folder/or/other", False),
        ("PIN", "12345678901234567890", True),
        ("MAX_TOKENS", "200000", False),
        ("MAX_OUTPUT_TOKENS", "128000", False),
        ("TOKEN_TTL", "3600000", False),
        ("API_TOKENS", "one-token two-token", True),
        ("DB_PASSWORD", "12345678", True),
    ],
)
def test_what_is_a_secret(name: str, value: str, secret: bool) -> None:
    assert is_secret(name, value) is secret


@pytest.mark.parametrize(
    "spelling",
    [
        KEY,
        quote(KEY),
        quote(KEY, safe=""),
        re.sub("%..", lambda match: match[0].lower(), quote(KEY, safe="")),
        json.dumps({"key": KEY}),
        json.dumps({"key": KEY}, ensure_ascii=False),
        html.escape(KEY),
        repr(KEY),
        base64.b64encode(KEY.encode()).decode(),
        base64.urlsafe_b64encode(KEY.encode()).decode(),
        base64.b64encode(f"user:{KEY}".encode()).decode(),
        base64.b64encode(f"x{KEY} and more".encode()).decode(),
        base64.b64encode(f"xy{KEY}".encode()).decode(),
    ],
)
def test_no_spelling_of_a_secret_stays(secrets: Secrets, spelling: str) -> None:
    core = KEY[4:12]
    redacted = secrets.redact(f"before {spelling} after")
    assert "[redacted OPENAI_API_KEY]" in redacted
    assert redacted.startswith("before ")
    assert redacted.endswith(" after")
    assert core not in redacted
    as_bytes = secrets.redact_bytes(f"before {spelling} after".encode())
    assert as_bytes.decode() == redacted


def test_a_record_has_none_in_values_and_keys_and_keeps_its_identity(secrets: Secrets) -> None:
    secrets.add("TASK_TOKEN", "fix-log-report")
    record = {
        "task": "fix-log-report",
        "notes": [{"text": f"saw {KEY}"}],
        "usage": {KEY: 1.5, "n": None, "task": "fix-log-report"},
    }
    redacted = secrets.redact_record(record)
    assert redacted["task"] == "fix-log-report"
    assert redacted["notes"] == [{"text": "saw [redacted OPENAI_API_KEY]"}]
    assert redacted["usage"] == {"[redacted OPENAI_API_KEY]": 1.5, "n": None, "task": "[redacted TASK_TOKEN]"}


def test_a_value_of_several_lines_is_found_line_by_line() -> None:
    secrets = Secrets()
    secrets.add("SSH_KEY", "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\nx\n")
    assert secrets.redact("  MIIEvQIBADANBgkqhkiG\r\nx") == "  [redacted SSH_KEY]\r\nx"


def test_the_password_of_an_address_is_a_secret_of_its_own() -> None:
    secrets = Secrets()
    secrets.add("DATABASE_URL", "postgres://app:correct-horse@db/app")
    assert secrets.redact("login with correct-horse") == "login with [redacted DATABASE_URL]"


@pytest.mark.parametrize("kept", [6, 12, len(KEY) - 1])
def test_what_a_cut_has_left_of_a_secret_goes_too(secrets: Secrets, kept: int) -> None:
    head = f"output {KEY[:kept]}\n[... 812 bytes left out ...]\nrest"
    assert secrets.redact(head) == "output \n[... 812 bytes left out ...]\nrest"
    tail = f"[... 40 characters cut]\n{KEY[-kept:]} rest"
    assert secrets.redact(tail) == "[... 40 characters cut]\n rest"
    assert secrets.redact_bytes(head.encode()) == b"output \n[... 812 bytes left out ...]\nrest"


def test_the_names_of_the_callers_variables_say_what_is_secret(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hf_stored_by_login\n")
    secrets = Secrets()
    secrets.learn(
        {"GITHUB_TOKEN": "ghs_0123456789", "EDITOR_NAME": "some-editor-or-other", "HF_HOME": str(tmp_path)}
    )
    said = secrets.redact("ghs_0123456789 some-editor-or-other hf_stored_by_login")
    assert said == "[redacted GITHUB_TOKEN] some-editor-or-other [redacted HF_TOKEN]"


def test_what_is_taken_from_a_watched_environment_is_a_secret_from_then_on() -> None:
    secrets = Secrets()
    environ = secrets.watching({"JUDGE": "value-of-the-judge", "OTHER": "value-of-another"})
    everything = dict(environ.items())
    assert "JUDGE" in environ
    assert environ.get("MISSING") is None
    assert secrets.redact(everything["JUDGE"]) == "value-of-the-judge"
    assert environ.get("JUDGE") == "value-of-the-judge"
    assert secrets.redact("value-of-the-judge value-of-another") == "[redacted JUDGE] value-of-another"


def test_files_lose_their_secrets_and_keep_the_rest(secrets: Secrets, tmp_path: Path) -> None:
    binary = b"\x00\x01" + KEY.encode() + b"\xff tail"
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "log.txt").write_bytes(b"\xff\xfe " + KEY.encode() + b"\n")
    (tmp_path / "sub" / "log.txt").chmod(0o640)
    (tmp_path / "state.bin").write_bytes(binary)
    (tmp_path / "clean.txt").write_text("nothing here")
    os.utime(tmp_path / "clean.txt", (1, 1))
    outside = tmp_path.parent / "outside.txt"
    outside.write_text(KEY)
    (tmp_path / "link").symlink_to(outside)
    assert secrets.redact_folder(tmp_path) == []
    assert (tmp_path / "sub" / "log.txt").read_bytes() == b"\xff\xfe [redacted OPENAI_API_KEY]\n"
    assert (tmp_path / "sub" / "log.txt").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "state.bin").read_bytes() == binary.replace(KEY.encode(), b"*" * len(KEY.encode()))
    assert (tmp_path / "clean.txt").stat().st_mtime == 1
    assert outside.read_text() == KEY
    assert {path.name for path in tmp_path.rglob("*")} == {"sub", "log.txt", "state.bin", "clean.txt", "link"}


@settings(max_examples=50)
@given(before=st.integers(0, 200), between=st.integers(0, 100), chunk=st.integers(1, 64))
def test_a_secret_across_chunks_of_a_large_file_is_found(
    tmp_path_factory: pytest.TempPathFactory, before: int, between: int, chunk: int
) -> None:
    secrets = Secrets()
    secrets.add("OPENAI_API_KEY", KEY)
    path = tmp_path_factory.mktemp("large") / "log"
    data = b"a" * before + KEY.encode() + b"b" * between + KEY.encode() + b"c" * 7
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "AT_ONCE", 0)
        patch.setattr(module, "_CHUNK", chunk)
        secrets.redact_file(path)
    assert path.read_bytes() == data.replace(KEY.encode(), b"*" * len(KEY.encode()))


def test_a_value_that_is_no_utf8_is_a_secret_like_any_other(tmp_path: Path) -> None:
    value = os.fsdecode(b"secret-\xff\xfe-value")
    secrets = Secrets()
    secrets.add("ODD_TOKEN", value)
    assert secrets.redact(f"<{value}>") == "<[redacted ODD_TOKEN]>"
    assert secrets.redact_bytes(b"<secret-\xff\xfe-value>") == b"<[redacted ODD_TOKEN]>"


def test_without_secrets_nothing_changes(tmp_path: Path) -> None:
    secrets = Secrets()
    record = {"a": ["text"]}
    assert secrets.redact("text") == "text"
    assert secrets.redact_bytes(b"text") == b"text"
    assert secrets.redact_json(record) is record
