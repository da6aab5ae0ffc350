"""Who a command runs as: the words of a task or an image, looked up in the box's own files as Docker does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pytest_rlenv.errors import SandboxFailed

_CAP = 4 * 1024 * 1024


@dataclass(frozen=True)
class User:
    """A user of a box, as numbers."""

    uid: int = 0
    gid: int = 0
    groups: tuple[int, ...] = (0,)
    home: str = "/root"


def is_root(spec: str | int | None) -> bool:
    """Return True for words that mean root whatever is in the box."""
    return spec in (None, "", 0, "0", "root", "0:0", "root:root", "0:root", "root:0")


def find_user(spec: str | int | None, read: Callable[[str], bytes | None]) -> User:
    """Return the user that ``name``, ``uid``, ``name:group`` or ``uid:gid`` stands for.

    Args:
        spec: the words; nothing at all is root.
        read: returns the bytes of a file of the box, ``None`` if there is none.

    Raises:
        SandboxFailed: there is no such user or group.
    """
    name, colon, group = str(spec if spec not in (None, "") else 0).partition(":")
    passwd = list(_lines(read("/etc/passwd"), 7))
    row = next((row for row in passwd if row[0] == name), None)
    if row is None and name.isdigit():
        row = next((row for row in passwd if row[2] == name), None)
    if row is None and not name.isdigit():
        raise _unknown("user", spec)
    uid = int(row[2]) if row else int(name)
    groups = list(_lines(read("/etc/group"), 4))
    if colon:
        gid = _find_group(group, groups, spec)
        more: tuple[int, ...] = ()
    else:
        gid = int(row[3]) if row else 0
        more = tuple(int(each[2]) for each in groups if row and row[0] in each[3].split(","))
    return User(uid, gid, tuple(dict.fromkeys((gid, *more))), (row[5] if row else "") or "/")


def _find_group(name: str, groups: list[list[str]], spec: object) -> int:
    for row in groups:
        if row[0] == name:
            return int(row[2])
    if name.isdigit():
        return int(name)
    raise _unknown("group", spec)


def _lines(text: bytes | None, fields: int) -> Iterator[list[str]]:
    """Yield the usable lines of a file like ``/etc/passwd``."""
    for line in (text or b"").decode("utf-8", "surrogateescape").splitlines():
        row = line.strip().split(":")
        if len(row) >= fields and row[0] and row[2].isdigit() and (fields < 7 or row[3].isdigit()):
            yield row


def _unknown(what: str, spec: object) -> SandboxFailed:
    name = "user" if what == "user" else "user or group"
    return SandboxFailed(f"{name} {str(spec)!r} does not exist in the image", hint="add it in the Dockerfile")
