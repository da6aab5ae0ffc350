"""What an option is: one row of the option table."""

from __future__ import annotations

from typing import NamedTuple


class Option(NamedTuple):
    """One row of the table.

    Attributes:
        name: the setting's name; the flag is ``--rlenv-name``, the ini key ``rlenv_name``, the variable
            ``RLENV_NAME``.
        help: what it does, in a line.
        metavar: the word for the value; ``None`` is a switch.
        many: it may be given several times (on the command line) or as a list (ini; comma or space in the
            environment).
        alias: a second, shorter flag. It is never registered, since another plugin or a conftest may own it;
            :func:`replace_aliases` puts the long one in its place where nobody does.
        choices: the only values allowed.
        flag: the flag, where it is not ``--rlenv-name``.
        ini: the ini key, where it is not ``rlenv_name``.
        env: False where a variable in the environment would surprise.
    """

    name: str
    help: str
    metavar: str | None = None
    many: bool = False
    alias: str | None = None
    choices: tuple[str, ...] = ()
    flag: str | None = None
    ini: str | None = None
    env: bool = True

    @property
    def dest(self) -> str:
        """Name of the parsed value in ``config.option``."""
        return f"rlenv_{self.name}"

    @property
    def ini_key(self) -> str:
        """The ini key."""
        return self.ini or f"rlenv_{self.name}"

    @property
    def cli_flag(self) -> str:
        """The flag on the command line."""
        return self.flag or "--rlenv-" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """The environment variable."""
        return f"RLENV_{self.name.upper()}"
