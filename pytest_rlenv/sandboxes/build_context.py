"""A build context: which files belong to it, the key that names its content, and the stream to send it."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pytest_rlenv.errors import Stage, TaskInvalid
from pytest_rlenv.sandboxes.model import BuildOptions

DOCKERFILE = "Dockerfile"
_TEXT_NAME = ".rlenv.Dockerfile"
_USUAL = BuildOptions()
_CHUNK = 1024 * 1024


@dataclass(frozen=True)
class BuildContext:
    """A folder with a Dockerfile, read once.

    Attributes:
        root: the folder.
        dockerfile: text of the Dockerfile.
        paths: what is sent, relative to ``root``, sorted.
        options: how it is built.
        passing: found in the output of a build that failed, it says that another try may succeed.
    """

    root: Path
    dockerfile: str
    paths: tuple[str, ...]
    options: BuildOptions = _USUAL
    passing: re.Pattern[str] | None = None

    @classmethod
    def read(cls, root: Path, options: BuildOptions = _USUAL) -> BuildContext:
        """List a context, less what its ``.dockerignore`` (or ``Dockerfile.dockerignore``) leaves out.

        Raises:
            TaskInvalid: there is no Dockerfile, or something cannot be read.
        """
        name = _dockerfile_name(options)
        try:
            text = options.text or _read_dockerfile(root, name)
            return cls(root, text, tuple(sorted(_included(root, name, sent=not options.text))), options)
        except OSError as error:
            raise _unreadable(root, error) from error

    @property
    def dockerfile_name(self) -> str:
        """The Dockerfile's name in what is sent."""
        return _dockerfile_name(self.options)

    def digest(self) -> str:
        """Return the SHA-256 of everything sent: names, permissions, link targets and bytes, but no times.

        Raises:
            TaskInvalid: something cannot be read.
        """
        total = hashlib.sha256()
        try:
            for name in self.paths:
                path = self.root / name
                info = path.lstat()
                kind, content = _identity(path, info)
                mode = stat.S_IMODE(info.st_mode) if kind != "link" else 0
                total.update(f"{name}\0{kind}\0{mode:o}\0{content}\n".encode("utf-8", "surrogateescape"))
        except OSError as error:
            raise _unreadable(self.root, error) from error
        return total.hexdigest()

    def write_to(self, file: IO[bytes]) -> None:
        """Write the context as a gzipped tar, owned by root. Links stay links, wherever they point.

        It has to be gzip: the engine takes a plain tar with long names for a Dockerfile.

        Raises:
            TaskInvalid: something cannot be read.
        """
        try:
            with (
                gzip.GzipFile(fileobj=file, mode="wb", compresslevel=1, mtime=0) as packed,
                tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar,
            ):
                for name in self.paths:
                    _add(tar, self.root / name, name)
                if self.options.text:
                    _add_text(tar, self.dockerfile_name, self.options.text)
        except FileNotFoundError as error:
            raise _unreadable(self.root, error) from error
        except PermissionError as error:
            raise _unreadable(self.root, error) from error


def _dockerfile_name(options: BuildOptions) -> str:
    return _TEXT_NAME if options.text else options.dockerfile or DOCKERFILE


def _read_dockerfile(root: Path, name: str) -> str:
    file = root / name
    if not file.is_file():
        raise TaskInvalid(
            f"there is no {name} in {root}", hint="add one, or name a prebuilt image", stage=Stage.BUILD
        )
    return file.read_text(encoding="utf-8", errors="replace")


def _included(root: Path, dockerfile: str, *, sent: bool) -> Iterator[str]:
    """Yield what is not ignored. The Dockerfile itself always is part, as the builder reads it from here."""
    patterns = _ignore_patterns(root, dockerfile)
    for name in _not_ignored(root, [*patterns, *([f"!{dockerfile}"] if sent else [])] if patterns else []):
        mode = (root / name).lstat().st_mode
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode):
            yield name  # sockets and the like cannot be sent; docker leaves them out as well


def _not_ignored(root: Path, patterns: list[str]) -> Iterator[str]:
    if not patterns:  # as for most tasks, which are so spared the imports
        yield from _everything(root, "")
        return
    from docker.utils.build import PatternMatcher

    yield from PatternMatcher(patterns).walk(os.fspath(root))


def _everything(root: Path, below: str) -> Iterator[str]:
    with os.scandir(root / below) as entries:
        for entry in entries:
            yield f"{below}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                yield from _everything(root, f"{below}{entry.name}/")


def _ignore_patterns(root: Path, dockerfile: str) -> list[str]:
    for name in (f"{dockerfile}.dockerignore", ".dockerignore"):
        file = root / name
        if file.is_file():
            lines = file.read_text(encoding="utf-8-sig", errors="replace").splitlines()
            return [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    return []


def _identity(path: Path, info: os.stat_result) -> tuple[str, str]:
    if stat.S_ISLNK(info.st_mode):
        return "link", str(path.readlink())
    if stat.S_ISDIR(info.st_mode):
        return "dir", ""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return "file", digest.hexdigest()


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    info = tar.gettarinfo(path, arcname=name)
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    if info.islnk():  # a second name of a file that is in the tar already: send it whole
        info.type, info.linkname, info.size = tarfile.REGTYPE, "", path.lstat().st_size
    if info.isreg():
        with path.open("rb") as file:
            tar.addfile(info, file)
    else:
        tar.addfile(info)


def _add_text(tar: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode()
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def _unreadable(root: Path, error: OSError) -> TaskInvalid:
    where = error.filename or root
    return TaskInvalid(
        f"cannot read {where} of the build context {root}: {error.strerror}", stage=Stage.BUILD
    )
