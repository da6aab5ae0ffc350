"""What no system can start, refused before one is asked: each would say so in its own way, or run another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_rlenv.errors import BoxUnfit

_REMOVE = "remove it"


def check_command(argv: Sequence[str], env: Mapping[str, str], cwd: str | None) -> None:
    """Refuse a command that cannot be passed on as it is.

    Args:
        argv: the command.
        env: its variables.
        cwd: its working directory, ``None`` for the box's.

    Raises:
        BoxUnfit: saying which part of it cannot be passed.
    """
    if not argv:
        raise BoxUnfit("there is no command to run: its list of arguments is empty")
    if not argv[0]:
        raise BoxUnfit("command '' is not in the image", hint="it has no name: is a variable empty?")
    if any("\0" in each for each in argv):
        raise BoxUnfit(f"the arguments of {argv[0]!r} hold a NUL character", hint=_REMOVE)
    check_variables(env)
    if cwd and "\0" in cwd:
        raise BoxUnfit(f"workdir {cwd!r} holds a NUL character", hint=_REMOVE)
    if cwd and not cwd.startswith("/"):
        raise BoxUnfit(f"workdir {cwd!r} is not an absolute path", hint="write it from the root on")


def check_variables(env: Mapping[str, str]) -> None:
    """Refuse environment variables that cannot be passed on as they are.

    Raises:
        BoxUnfit: naming the variable.
    """
    for name, value in env.items():
        if not name or "=" in name or "\0" in name:
            raise BoxUnfit(
                f"{name!r} cannot be the name of an environment variable",
                hint="a name has no = and no NUL in it",
            )
        if "\0" in value:
            raise BoxUnfit(
                "the value of an environment variable holds a NUL character", hint=f"remove it from {name}"
            )
