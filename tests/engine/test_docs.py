"""Every command in the docs is run, as written, in a fresh folder with what the page says is in it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.fake_hub import FakeHub

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "CONTRIBUTING.md"]
BLOCK = re.compile(r"^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"^# (?P<path>[\w./-]+\.(?:py|toml))\n")

BY_HAND = {"bash scripts/try.sh", *(f"bash scripts/test.sh{mode}" for mode in ("", " --fast", " --all"))}
"""What sets the machine up and runs the tests themselves: these are run by CI, not by a test."""


def commands() -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        for block in BLOCK.finditer(page.read_text()):
            if block["kind"] == "bash":
                for line in block["text"].splitlines():
                    command = line.split("  #")[0].strip()
                    if command and command not in BY_HAND:
                        yield page, command


def files_of(page: Path) -> Iterator[tuple[str, str]]:
    """Yield the files that a page shows with their path in the first line."""
    for block in BLOCK.finditer(page.read_text()):
        if block["kind"] in ("python", "toml") and (named := NAMED.match(block["text"])):
            yield named["path"], block["text"]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FakeHub, dict[str, str]]]:
    with FakeHub() as hub:
        hub.add("org/repo", ROOT / "example_envs" / "quickstart")
        yield hub, hub.environ(tmp_path_factory.mktemp("hf-home"))


def test_there_are_commands() -> None:
    assert len(list(commands())) >= 15


@pytest.mark.docker
@pytest.mark.parametrize(
    ("page", "command"), [pytest.param(p, c, id=f"{p.name}-{i}") for i, (p, c) in enumerate(commands())]
)
def test_a_command_does_what_the_page_says(
    page: Path,
    command: str,
    hub: tuple[FakeHub, dict[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in hub[1].items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    shutil.copytree(ROOT / "example_envs", tmp_path / "example_envs")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for path, text in files_of(page):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


@pytest.mark.docker
def test_an_environment_file_of_the_docs_is_collected(
    hub: tuple[FakeHub, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in hub[1].items():
        monkeypatch.setenv(name, value)
    for path, text in files_of(ROOT / "docs" / "ci-gate.md"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "evals"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_the_options_page_is_the_option_table() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "options_page.py"], capture_output=True, text=True, check=True
    )
    assert (ROOT / "docs" / "options.md").read_text() == done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target
