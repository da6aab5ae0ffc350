from __future__ import annotations

import gzip
import io
import os
import socket
import tarfile
from pathlib import Path

import pytest

from pytest_rlenv.errors import Stage, TaskInvalid
from pytest_rlenv.sandboxes.build_context import BuildContext
from pytest_rlenv.sandboxes.model import BuildOptions


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "environment"
    for name, text in {
        "Dockerfile": "FROM scratch\nCOPY . /",
        "app/main.py": "print()",
        "app/data/big.bin": "x" * 100,
        "app/notes.md": "n",
        "README.md": "r",
        "secret.env": "s",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def sent(root: Path, options: BuildOptions | None = None) -> dict[str, tarfile.TarInfo]:
    file = io.BytesIO()
    BuildContext.read(root, options or BuildOptions()).write_to(file)
    packed = gzip.decompress(file.getvalue())
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        return {member.name: member for member in tar}


@pytest.mark.parametrize(
    ("ignore", "gone"),
    [
        ("", set()),
        ("*.env", {"secret.env"}),
        ("# *.env\n\n  *.env  \n", {"secret.env"}),
        ("**/*.md\n!README.md", {"app/notes.md"}),
        ("app/data", {"app/data", "app/data/big.bin"}),
        ("app\n!app/main.py", {"app", "app/data", "app/data/big.bin", "app/notes.md"}),
        ("Dockerfile\n.dockerignore", set()),
        ("\ufeff*.env", {"secret.env"}),
    ],
)
@pytest.mark.parametrize("name", [".dockerignore", "Dockerfile.dockerignore"])
def test_ignored_files_are_not_sent(ignore: str, gone: set[str], name: str, folder: Path) -> None:
    everything = set(sent(folder))
    (folder / name).write_text(ignore)
    assert everything - set(sent(folder)) == gone


def test_another_dockerfile_is_sent_with_its_own_ignore_file(folder: Path) -> None:
    (folder / "app" / "Other").write_text("FROM other")
    (folder / "app" / "Other.dockerignore").write_text("*.env\napp/Other")
    context = BuildContext.read(folder, BuildOptions(dockerfile="app/Other"))
    assert (context.dockerfile, context.dockerfile_name) == ("FROM other", "app/Other")
    assert "app/Other" in context.paths
    assert "secret.env" not in context.paths


def test_a_dockerfile_may_come_as_a_text(folder: Path) -> None:
    (folder / "Dockerfile").unlink()
    options = BuildOptions(text="FROM text")
    context = BuildContext.read(folder, options)
    assert context.dockerfile == "FROM text"
    assert sent(folder, options)[context.dockerfile_name].size == len("FROM text")


def test_the_dockerfiles_own_ignore_file_wins(folder: Path) -> None:
    (folder / ".dockerignore").write_text("app")
    (folder / "Dockerfile.dockerignore").write_text("secret.env")
    names = set(sent(folder))
    assert "app/main.py" in names
    assert "secret.env" not in names


def test_what_is_sent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "out").symlink_to("/etc/passwd")
    (folder / "up").symlink_to("../../..")
    (folder / "run.sh").write_text("#!")
    (folder / "run.sh").chmod(0o755)
    (folder / "again.sh").hardlink_to(folder / "run.sh")
    os.mkfifo(folder / "pipe")
    monkeypatch.chdir(folder)  # a socket's path may have 107 bytes only
    with socket.socket(socket.AF_UNIX) as here:
        here.bind("s")
    members = sent(folder)
    assert members["out"].linkname == "/etc/passwd"
    assert members["up"].linkname == "../../.."
    assert members["run.sh"].mode & 0o111
    assert members["again.sh"].isreg()
    assert members["again.sh"].size == 2
    assert {"pipe", "s"}.isdisjoint(members)
    assert {(member.uid, member.gid, member.uname) for member in members.values()} == {(0, 0, "")}


def test_the_key_changes_with_what_is_sent(folder: Path) -> None:
    def key() -> str:
        return BuildContext.read(folder).digest()

    keys = [key()]
    os.utime(folder / "app" / "main.py", (1, 1))
    assert key() == keys[0]
    for change in (
        lambda: (folder / "app" / "main.py").write_text("print(1)"),
        lambda: (folder / "app" / "main.py").chmod(0o755),
        lambda: (folder / "app" / "main.py").rename(folder / "app" / "other.py"),
        lambda: (folder / "empty").mkdir(),
        lambda: (folder / "link").symlink_to("a"),
        lambda: ((folder / "link").unlink(), (folder / "link").symlink_to("b")),
        lambda: (folder / "Dockerfile").write_text("FROM scratch"),
        lambda: (folder / ".dockerignore").write_text("**/*.md"),
    ):
        change()
        keys.append(key())
    assert len(set(keys)) == len(keys)
    (folder / "app" / "notes.md").write_text("changed, but ignored")
    assert key() == keys[-1]


@pytest.mark.parametrize("make", ["nothing", "folder", "dangling"])
def test_no_dockerfile(make: str, tmp_path: Path) -> None:
    if make == "folder":
        (tmp_path / "Dockerfile").mkdir()
    elif make == "dangling":
        (tmp_path / "Dockerfile").symlink_to("gone")
    with pytest.raises(TaskInvalid) as caught:
        BuildContext.read(tmp_path)
    assert f"no Dockerfile in {tmp_path}" in caught.value.message
    assert caught.value.stage is Stage.BUILD


@pytest.mark.parametrize("step", ["digest", "write_to"])
def test_a_file_that_vanishes_is_named(step: str, folder: Path) -> None:
    context = BuildContext.read(folder)
    (folder / "secret.env").unlink()
    with pytest.raises(TaskInvalid, match=r"secret\.env"):
        context.digest() if step == "digest" else context.write_to(io.BytesIO())
