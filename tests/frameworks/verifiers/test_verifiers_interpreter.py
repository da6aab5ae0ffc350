"""Which interpreter has Verifiers, and what it is told of the caller."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from support.verifiers import environ, interpreter, request

from pytest_rlenv.errors import SandboxFailed, SpecError, Stage, StageTimeout
from pytest_rlenv.frameworks.verifiers import printed
from pytest_rlenv.frameworks.verifiers.interpreter import find_python, variables
from pytest_rlenv.frameworks.verifiers.process import ChildFailed, TasksetProcess
from pytest_rlenv.settings import Settings


def chosen(python: str | None, path: Path) -> str:
    return find_python(Settings(verifiers_python=python, sources={}), {"PATH": str(path)})


def test_the_users_own_wins(tmp_path: Path) -> None:
    assert chosen(sys.executable, tmp_path) == sys.executable
    with pytest.raises(SpecError, match="there is no such program"):
        chosen("/nowhere/python", tmp_path)


@pytest.mark.parametrize(
    "head",
    [
        "#!{python}",
        "#!/usr/bin/env -S python-of-this-test -s",
        "#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''",
        "#!/bin/sh\n'''exec' \"$(dirname -- \"$(realpath -- \"$0\")\")\"/'python' \"$0\" \"$@\"\n' '''",
    ],
    ids=["plain", "by env", "pip's for long paths", "uv's for folders that move"],
)
def test_else_it_is_that_of_the_packages_own_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: str
) -> None:
    folder = tmp_path / "an environment" / "bin"
    folder.mkdir(parents=True)
    python = folder / "python"
    python.symlink_to(sys.executable)
    (tmp_path / "python-of-this-test").symlink_to(python)
    (folder / "vf-eval").write_text(
        head.replace("{python}", str(python) if "exec" in head else sys.executable)
    )
    (folder / "vf-eval").chmod(0o755)
    (tmp_path / "vf-eval").symlink_to(folder / "vf-eval")
    (tmp_path / "verifiers").mkdir()  # a folder of that name is no package
    monkeypatch.syspath_prepend(tmp_path)

    assert Path(chosen(None, tmp_path)).resolve() == Path(sys.executable).resolve()


def test_a_program_of_this_folder_is_named_as_shells_want_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)

    assert chosen("./mine", Path("/nowhere")) == "./mine"
    with pytest.raises(SpecError) as raised:
        chosen("uv run python", tmp_path)
    assert "script" in raised.value.hint


def test_where_there_is_none_the_cure_is_told(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as raised:
        chosen(None, tmp_path)

    assert "pip install" in raised.value.hint


def test_secrets_and_the_home_stay_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLENV_CACHE", str(tmp_path / "cache"))
    given = {
        "PATH": "/bin",
        "HOME": "/home/me",
        "HF_TOKEN": "hf_x",
        "HF_TOKEN_PATH": "/home/me/token",
        "MY_API_KEY": "k",
        "JUDGE_API_KEY": "j",
        "DATABASE_URL": "postgres://me:pw@db.example/x",
        "HTTPS_PROXY": "http://me:pw@proxy.example:3128",
        "http_proxy": "http://proxy.example:3128",
        "SSH_AUTH_SOCK": "/tmp/agent",
        "PLAIN": "yes",
        "XDG_CACHE_HOME": "/home/me/.cache",
    }

    found = variables(given, ["JUDGE_API_KEY"], "run-1")

    assert not {"HF_TOKEN", "HF_TOKEN_PATH", "MY_API_KEY", "SSH_AUTH_SOCK"} & found.keys()
    assert not {"DATABASE_URL", "HTTPS_PROXY"} & found.keys()
    assert found["http_proxy"] == given["http_proxy"]
    assert (found["JUDGE_API_KEY"], found["PLAIN"], found["VF_RUN_ID"]) == ("j", "yes", "run-1")
    assert found["HOME"].startswith(str(tmp_path))
    assert found["HF_HOME"].startswith(str(tmp_path))
    assert found["HF_HUB_CACHE"] == "/home/me/.cache/huggingface/hub"


def test_one_interpreter_answers_many_questions(tmp_path: Path) -> None:
    with interpreter() as process:
        for _ in range(3):
            answer = process.ask("gold", request("good", tmp_path), limit=60, stage=Stage.VERIFY)
            assert answer["valid"] is True
        with pytest.raises(ChildFailed, match="ValueError: no set-up today"):
            process.ask("gold", request("setup-raises", tmp_path), limit=60, stage=Stage.VERIFY)
        other = request("good", tmp_path, whole=False, row={"id": "other"})
        with pytest.raises(ChildFailed, match="another task at position 0"):
            process.ask("gold", other, limit=60, stage=Stage.VERIFY)
        with pytest.raises(ChildFailed, match="KeyError"):
            process.ask("nothing-of-the-kind", {}, limit=60, stage=Stage.VERIFY)
        assert process.alive
    assert not process.alive
    process.close()


def test_a_taskset_that_forks_has_no_twin_that_answers(tmp_path: Path) -> None:
    with interpreter() as process:  # the first waits for the end of the second
        process.ask("gold", request("forks", tmp_path), limit=120, stage=Stage.VERIFY)


def test_after_a_time_out_nothing_more_is_to_be_had(tmp_path: Path) -> None:
    with interpreter() as process:
        with pytest.raises(StageTimeout):
            process.ask("gold", request("hangs", tmp_path), limit=1.0, stage=Stage.VERIFY)
        assert not process.alive
        with pytest.raises(SandboxFailed):
            process.ask("gold", request("good", tmp_path), limit=60, stage=Stage.VERIFY)


def test_nothing_is_left_of_what_it_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    said = tmp_path / "said.txt"
    with interpreter() as process:
        assert list(tmp_path.iterdir()) == []  # so that a kill of this process leaves nothing either
        process.ask("gold", request("prints", tmp_path), limit=60, stage=Stage.VERIFY)
        process.leave_log(said)
        assert said.read_text()
        said.unlink()
        process.leave_log(said)
        assert not said.exists()


def test_a_program_that_is_no_python_is_told(tmp_path: Path) -> None:
    with pytest.raises(SandboxFailed, match="ended"):
        TasksetProcess("/bin/false", environ())


def test_what_it_prints_over_many_rollouts_fills_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(printed, "KEPT_BYTES", 5)
    file = tmp_path / "log"
    log = printed.PrintedLog(os.open(file, os.O_RDWR | os.O_CREAT))

    with file.open("ab", buffering=0) as writer:  # as the interpreter has it
        for said in (b"one two three\n", b"four five six\n"):
            writer.write(said)
            assert log.news() == said
            assert file.stat().st_size == 0
        writer.write(b"end")

    assert log.tail() == "one two three\nfour five six\nend"
    log.close()
    assert log.tail().endswith("end")
