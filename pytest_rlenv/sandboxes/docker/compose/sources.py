"""The files that reading a Compose file would read: other Compose files, and files of variables and labels.

Compose reads them whatever they are, and their text ends in containers; so they are looked at first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pytest_rlenv.errors import Stage, TaskInvalid
from pytest_rlenv.sandboxes.docker.compose.findings import Finding, is_inside, relative_name

MAX_FILES = 50
"""Compose files that one may be spread over."""

_DOTENV = ".env"


def check_sources(file: Path, root: Path) -> list[Finding]:
    """Return what is wrong with the files that a Compose file leads to.

    Args:
        file: the Compose file. One that is not there is left to Compose, which says so better.
        root: the folder that none may leave.

    Raises:
        TaskInvalid: a file is not YAML.
    """
    return list(_Sources(root).check(file, file.parent, ""))


class _Sources:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._seen: set[Path] = set()

    def check(self, file: Path, base: Path, where: str) -> Iterator[Finding]:
        """Yield what is wrong with a file and those that it names, relative to ``base``."""
        if file.resolve() in self._seen:
            return
        self._seen.add(file.resolve())
        if len(self._seen) > MAX_FILES:
            yield Finding(where or "include", f"more than {MAX_FILES} files", unsafe=False)
            return
        yield from self._readable(base, [_DOTENV], f"{where}{_DOTENV}")
        for document in _load(file, relative_name(self._root, file)):
            for number, entry in enumerate(_list(document.get("include"))):
                yield from self._include(entry, base, f"{where}include[{number}]")
            services = document.get("services")
            for name, service in services.items() if isinstance(services, dict) else ():
                if isinstance(service, dict):
                    yield from self._service(service, base, f"{where}services.{name}")

    def _service(self, service: dict[Any, Any], base: Path, where: str) -> Iterator[Finding]:
        files = [
            each.get("path") if isinstance(each, dict) else each for each in _list(service.get("env_file"))
        ]
        yield from self._readable(base, files, f"{where}.env_file")
        yield from self._readable(base, _list(service.get("label_file")), f"{where}.label_file")
        extends = service.get("extends")
        if isinstance(extends, dict) and extends.get("file"):
            yield from self._compose_files(base, [extends["file"]], f"{where}.extends", None)

    def _include(self, entry: Any, base: Path, where: str) -> Iterator[Finding]:
        if not isinstance(entry, dict):
            entry = {"path": entry}
        folder = entry.get("project_directory")
        problems = list(self._readable(base, _list(folder), f"{where}.project_directory"))
        yield from problems
        yield from self._readable(base, _list(entry.get("env_file")), f"{where}.env_file")
        if not problems:
            project = base / folder if isinstance(folder, str) else None
            yield from self._compose_files(base, _list(entry.get("path")), where, project)

    def _compose_files(
        self, base: Path, files: list[Any], where: str, project: Path | None
    ) -> Iterator[Finding]:
        problems = list(self._readable(base, files, where))
        yield from problems
        for name in files if not problems else ():
            file = base / str(name)
            yield from self.check(file, project or file.parent, f"{where}: ")

    def _readable(self, base: Path, files: Iterable[Any], where: str) -> Iterator[Finding]:
        for name in files:
            if not isinstance(name, str):
                continue  # Compose refuses it
            if "$" in name:
                yield Finding(where, f"{name!r} has a variable in it, so that it cannot be checked")
            elif "://" in name or name.startswith("git@") or name.partition("#")[0].endswith(".git"):
                yield Finding(where, f"{name!r} is not a file of the task", unsafe=False)
            elif name.startswith("~") or not is_inside(self._root, base / name):
                yield Finding(where, f"{name!r} is outside the task's folder")


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _load(file: Path, name: str) -> list[dict[Any, Any]]:
    """Return the mappings in a file: Compose takes several documents in one."""
    import yaml

    class Loader(yaml.SafeLoader):
        """Knows nothing of Compose's own tags, such as ``!reset``, and takes their values as they are."""

    def untagged(loader: yaml.SafeLoader, _: str, node: yaml.Node) -> Any:
        if isinstance(node, yaml.MappingNode):
            return loader.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return loader.construct_sequence(node, deep=True)
        return loader.construct_scalar(node) if isinstance(node, yaml.ScalarNode) else None

    Loader.add_multi_constructor("!", untagged)
    try:
        documents = list(yaml.load_all(file.read_text(encoding="utf-8-sig"), Loader))
    except OSError:
        return []
    except (UnicodeError, yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        text = " ".join(str(error).split())
        raise TaskInvalid(f"{name}: cannot be read as YAML: {text}", stage=Stage.BUILD) from None
    return [document for document in documents if isinstance(document, dict)]
