"""``instruction.md``: canary lines, line ends, and files that are none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rlenv.errors import TaskInvalid
from pytest_rlenv.frameworks.harbor.instruction import MAX_INSTRUCTION_BYTES, read_instruction, strip_canary

TEXTS = {
    "plain": (b"do it\n", "do it\n"),
    "html canary": (b"<!-- harbor-canary GUID 1 -->\n\ndo it", "do it"),
    "hash canary": (b"# BENCHMARK Canary string\ndo it", "do it"),
    "several": (b"<!-- canary 1 -->\n# canary 2\n\n \ndo it", "do it"),
    "indented": (b"  <!-- canary --> \ndo it", "do it"),
    "not leading": (b"do it\n<!-- canary -->", "do it\n<!-- canary -->"),
    "after a blank line": (b"\n# canary\ndo it", "# canary\ndo it"),
    "a heading is kept": (b"# Title\ndo it", "# Title\ndo it"),
    "a comment is kept": (b"<!-- note -->\ndo it", "<!-- note -->\ndo it"),
    "canary in running text": (b"the canary sings", "the canary sings"),
    "comment that goes on": (b"<!-- canary --> do it", "<!-- canary --> do it"),
    "leading blank lines": (b"\n\ndo it", "do it"),
    "CR LF": (b"# canary\r\n\r\ndo it\r\nnow", "do it\nnow"),
    "byte order mark": (b"\xef\xbb\xbf# canary\ndo it", "do it"),
    "not ASCII": ("tüv 漢字".encode(), "tüv 漢字"),
}


@pytest.mark.parametrize(("data", "expected"), TEXTS.values(), ids=TEXTS)
def test_text(tmp_path: Path, data: bytes, expected: str) -> None:
    (tmp_path / "instruction.md").write_bytes(data)
    assert read_instruction(tmp_path) == (expected, [])


@pytest.mark.parametrize("data", [b"", b" \n\t\n", b"# canary only\n"])
def test_an_empty_one_is_a_warning(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "instruction.md").write_bytes(data)
    text, warnings = read_instruction(tmp_path)
    assert text.strip() == ""
    assert warnings == ["instruction.md: empty, so the agent is told nothing"]


def test_missing_names_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "INSTRUCTIONS.md").touch()
    with pytest.raises(TaskInvalid, match=r"instruction\.md: not found \(.* holds INSTRUCTIONS\.md\)"):
        read_instruction(tmp_path)


def test_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "instruction.md").write_bytes(b"abc\xff")
    with pytest.raises(TaskInvalid, match=r"instruction\.md: not UTF-8: byte 0xff at offset 3"):
        read_instruction(tmp_path)


def test_too_large(tmp_path: Path) -> None:
    with (tmp_path / "instruction.md").open("wb") as file:
        file.truncate(MAX_INSTRUCTION_BYTES + 1)
    with pytest.raises(TaskInvalid, match=r"instruction\.md: more than"):
        read_instruction(tmp_path)


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "instruction.md").mkdir()
    with pytest.raises(TaskInvalid, match=r"instruction\.md: a folder"):
        read_instruction(tmp_path)


def test_a_fifo_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "instruction.md")
    with pytest.raises(TaskInvalid, match=r"instruction\.md: not a regular file"):
        read_instruction(tmp_path)


def test_a_link_out_of_the_task(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "instruction.md").symlink_to("../secret")
    with pytest.raises(
        TaskInvalid, match=r"instruction\.md: leaves the task \(a link to '\.\./secret'\)"
    ) as caught:
        read_instruction(tmp_path / "task")
    assert "snapshot" in caught.value.hint


@given(st.text())
def test_stripping_leaves_a_suffix_of_the_text(text: str) -> None:
    stripped = strip_canary(text)
    assert text.endswith(stripped)
    assert stripped.split("\n")[0].strip() or not stripped
