"""What a Compose file would mount from this machine, brought into containers like all other files.

No folder of this machine is ever mounted: the engine may be elsewhere, several runs use one folder at once,
and what is mounted can be written to. A folder becomes a volume of the project, which all services that name
the folder share; a file, a secret or a config is put into the container before its first process.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_rlenv.errors import BoxUnfit, RlenvError, Stage, TaskInvalid, VariableMissing
from pytest_rlenv.sandboxes.docker.compose.findings import is_inside
from pytest_rlenv.sandboxes.docker.compose.model import Model
from pytest_rlenv.sandboxes.model import LEFT_OUT, Entry

_SECRET_MODE = 0o444
_HEAD = 2


@dataclass
class Files:
    """What is to be brought in.

    Attributes:
        entries: for each service, at absolute paths.
        volumes: folders of this machine, by the name of the volume that stands for each in the model.
    """

    entries: dict[str, list[Entry]] = field(default_factory=dict)
    volumes: dict[str, Path] = field(default_factory=dict)


def take_files(model: Model, root: Path, environ: Mapping[str, str]) -> Files:
    """Take mounts, secrets and configs out of a model, with volumes in the place of folders.

    Args:
        model: a checked model; changed in place.
        root: the folder whose files are brought in; what is outside, if that is allowed, stays a mount.
        environ: where secrets and configs that are variables have their values.

    Raises:
        TaskInvalid: a file cannot be read. VariableMissing: a secret or config has no value.
    """
    files = Files()
    for name, service in model["services"].items():
        entries = [
            *_take_mounts(service, root, files.volumes),
            *_take_texts(service, model, "secrets", "/run/secrets/", environ),
            *_take_texts(service, model, "configs", "/", environ),
        ]
        if entries and service.get("read_only"):
            raise BoxUnfit(
                f"services.{name}.read_only: files cannot be brought into a read-only container",
                hint="build them into the service's image",
            )
        if entries:
            files.entries[name] = entries
    if files.volumes:
        model.setdefault("volumes", {}).update({name: {} for name in files.volumes})
    model.pop("secrets", None)
    model.pop("configs", None)
    return files


def entries_below(folder: Path) -> Iterator[Entry]:
    """Yield what is in a folder, at paths relative to it; links stay links, wherever they point.

    Raises:
        TaskInvalid: something cannot be read.
    """
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        name = path.relative_to(folder).as_posix()
        try:
            if path.is_symlink():
                yield Entry(name, link=str(path.readlink()))
            elif path.is_dir():
                yield Entry(name, mode=0o755)
            elif path.is_file():
                yield _file(name, path)
        except OSError as error:
            raise _unreadable(path, error) from None


def _take_mounts(service: Model, root: Path, volumes: dict[str, Path]) -> Iterator[Entry]:
    kept = []
    for mount in service.get("volumes") or ():
        source = Path(str(mount.get("source")))
        if mount["type"] != "bind":
            kept.append(mount)
        elif source.is_relative_to(LEFT_OUT):
            continue
        elif not is_inside(root, source):
            kept.append(mount)
        elif source.is_file():
            yield _file(str(mount["target"]), source)
        elif source.is_dir() or not source.exists():
            kept.append(_as_volume(mount, _volume_of(source.resolve(), volumes)))
        else:
            raise TaskInvalid(f"{source} is neither a file nor a folder", stage=Stage.BUILD)
    service["volumes"] = kept


def _volume_of(source: Path, volumes: dict[str, Path]) -> str:
    for name, folder in volumes.items():
        if folder == source:
            return name
    name = f"rlenv-files-{len(volumes)}"
    volumes[name] = source
    return name


def _as_volume(mount: Model, name: str) -> Model:
    found = {"type": "volume", "source": name, "target": mount["target"], "volume": {"nocopy": True}}
    return found | ({"read_only": True} if mount.get("read_only") else {})


def _take_texts(
    service: Model, model: Model, kind: str, base: str, environ: Mapping[str, str]
) -> Iterator[Entry]:
    for use in service.pop(kind, None) or ():
        source = str(use["source"])
        target = str(use.get("target") or source)
        yield Entry(
            target if target.startswith("/") else base + target,
            _text_of(f"{kind}.{source}", model[kind][source], environ),
            mode=_mode(use.get("mode")),
            uid=_number(use.get("uid")),
            gid=_number(use.get("gid")),
        )


def _text_of(where: str, definition: Model, environ: Mapping[str, str]) -> bytes:
    if "content" in definition:
        return str(definition["content"]).encode()
    if variable := definition.get("environment"):
        if variable not in environ:
            raise VariableMissing(f"{where}: variable {variable} is not set", stage=Stage.BUILD)
        return environ[variable].encode()
    path = Path(str(definition.get("file")))
    if not path.is_file():
        raise TaskInvalid(f"{where}: {path} is no file", stage=Stage.BUILD)
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from None


def _file(target: str, source: Path) -> Entry:
    """Return a file's entry; what is a script needs no exec bit, as the Hub keeps none."""
    try:
        with source.open("rb") as file:
            script = file.read(_HEAD) == b"#!"
        runs = script or source.suffix == ".sh" or source.stat().st_mode & (stat.S_IXUSR | stat.S_IXGRP)
    except OSError as error:
        raise _unreadable(source, error) from None
    return Entry(target, source=source, mode=0o755 if runs else 0o644)


def _mode(value: object) -> int:
    """Return permissions: newer versions of Compose write them as octal digits, older ones as a number."""
    if value is None:
        return _SECRET_MODE
    return value if isinstance(value, int) else int(str(value), 8)


def _number(value: object) -> int:
    return int(str(value)) if value not in (None, "") else 0


def _unreadable(path: Path, error: OSError) -> RlenvError:
    return TaskInvalid(f"cannot read {os.fspath(path)}: {error.strerror}", stage=Stage.BUILD)
