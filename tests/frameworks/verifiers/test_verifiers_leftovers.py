"""Containers that a killed interpreter leaves: only its own are removed, whoever lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_rlenv.frameworks.verifiers.leftovers import new_run_word, remove_abandoned, remove_containers
from pytest_rlenv.sandboxes.owners import Owner


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program `docker` that lists what is in a file, and notes what it is told to remove."""
    program = tmp_path / "docker"
    program.write_text(
        f'#!/bin/sh\nif [ "$1" = ps ]; then cat {tmp_path}/listed; else echo "$@" >> {tmp_path}/removed; fi\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def removed(docker: Path) -> str:
    file = docker / "removed"
    return file.read_text().strip() if file.exists() else ""


def test_an_interpreters_own_containers_are_removed(docker: Path) -> None:
    mine, other = new_run_word(), new_run_word()
    assert mine != other
    (docker / "listed").write_text(f"aaa {mine}\nbbb {other}\nccc somebody-elses\nddd \neee {mine}\n")

    remove_containers(mine)

    assert removed(docker) == "rm --force --volumes aaa eee"


def test_those_of_processes_that_are_gone_are_removed_and_no_others(docker: Path) -> None:
    me = Owner.me()
    gone = f"rlenv-{me.machine}-{me.boot}-{me.namespace}-999999999-12-abcd"
    elsewhere = f"rlenv-{'0' * 8}-{me.boot}-{me.namespace}-999999999-12-abcd"
    lines = (f"aaa {new_run_word()}", f"bbb {gone}", f"ccc {elsewhere}", "ddd a-run-of-verifiers-own", "eee ")
    (docker / "listed").write_text("\n".join(lines))

    remove_abandoned()

    assert removed(docker) == "rm --force --volumes bbb"


def test_where_no_engine_is_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    remove_abandoned()
    remove_containers(new_run_word())
