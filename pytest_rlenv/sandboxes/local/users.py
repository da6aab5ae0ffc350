"""Who a command runs as: the words of a task or an image, looked up in the box's own files as Docker does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from pytest_rlenv.errors import BoxUnfit, Unsupported

_MOST = 2**31 - 1
"""The highest number of a user or group, as in containers. The kernel takes 2**32 - 1 to mean: no change."""


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


def only_root(spec: str | int | None) -> User:
    """Return root, where there is no other.

    Raises:
        Unsupported: somebody else is asked for.
    """
    if not is_root(spec):
        raise Unsupported(f"user {str(spec)!r}: the local boxes of a plain user have no other user than root")
    return User()


def find_user(spec: str | int | None, read: Callable[[str], bytes | None]) -> User:
    """Return the user that ``name``, ``uid``, ``name:group`` or ``uid:gid`` stands for.

    Args:
        spec: the words; nothing at all is root.
        read: returns the bytes of a file of the box, ``None`` if there is none.

    Raises:
        BoxUnfit: there is no such user or group.
    """
    return _find_user(spec, read("/etc/passwd"), read("/etc/group"))


@lru_cache(maxsize=8)  # it is asked for each command, and boxes of one image have the same files
def _find_user(spec: str | int | None, passwd_file: bytes | None, group_file: bytes | None) -> User:
    name, _, group = str("" if spec is None else spec).partition(":")
    name = name or "0"
    passwd = list(_lines(passwd_file, 7))
    row = next((row for row in passwd if row[0] == name), None)
    if row is None and name.isdecimal():
        row = next((row for row in passwd if row[2] == name), None)
    if row is None and not name.isdecimal():
        raise _unknown("user", spec)
    uid = int(row[2]) if row else int(name)
    groups = list(_lines(group_file, 4))
    if group:
        gid = _find_group(group, groups, spec)
        more: tuple[int, ...] = ()
    else:
        gid = int(row[3]) if row else 0
        more = tuple(int(each[2]) for each in groups if row and row[0] in each[3].split(","))
    if max(uid, gid) > _MOST:
        raise _unknown("group" if group else "user", spec)
    return User(uid, gid, tuple(dict.fromkeys((gid, *more))), (row[5] if row else "") or "/")


def _find_group(name: str, groups: list[list[str]], spec: object) -> int:
    for row in groups:
        if row[0] == name:
            return int(row[2])
    if name.isdecimal():
        return int(name)
    raise _unknown("group", spec)


def _lines(text: bytes | None, fields: int) -> Iterator[list[str]]:
    """Yield the usable lines of a file like ``/etc/passwd``."""
    for line in (text or b"").decode("utf-8", "surrogateescape").splitlines():
        row = line.strip().split(":")
        if len(row) >= fields and row[0] and row[2].isdecimal() and (fields < 7 or row[3].isdecimal()):
            yield row


def _unknown(what: str, spec: object) -> BoxUnfit:
    name = "user" if what == "user" else "user or group"
    return BoxUnfit(f"{name} {str(spec)!r} does not exist in the image", hint="add it in the Dockerfile")
