"""What of a Compose file is refused, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pytest_rlenv.errors import Unsupported

OPTION = "--rlenv-allow-unsafe-compose"


@dataclass(frozen=True)
class Finding:
    """One field that is refused.

    Attributes:
        field: where it is, such as ``services.db.privileged``.
        why: what is wrong with it.
        unsafe: True for what reaches out of the containers, which the user may allow; False for what cannot
            be done here at all.
    """

    field: str
    why: str
    unsafe: bool = True


def refuse(file: str, findings: Iterable[Finding], *, allow_unsafe: bool) -> None:
    """Refuse a file that asks for too much.

    Args:
        file: its name in messages.
        findings: what was found.
        allow_unsafe: the user has allowed what reaches out of the containers.

    Raises:
        Unsupported: naming every field.
    """
    refused = [each for each in findings if not (each.unsafe and allow_unsafe)]
    if not refused:
        return
    reasons = "; ".join(f"{each.field}: {each.why}" for each in dict.fromkeys(refused))
    cure = f" ({OPTION} allows it, for files that you trust)" if all(e.unsafe for e in refused) else ""
    raise Unsupported(f"{file}: {reasons}{cure}")


def is_inside(root: Path, path: Path) -> bool:
    """True if a path, with all links followed, is the folder ``root`` or below it."""
    try:
        return path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError):
        return False


def relative_name(root: Path, file: Path) -> str:
    """Return a file's name for messages: below the task's folder if it is there."""
    try:
        return file.relative_to(root).as_posix()
    except ValueError:
        return str(file)
