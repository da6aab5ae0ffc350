"""What the commands of one box have by default: their user, their variables and their working directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_rlenv.errors import SandboxFailed
from pytest_rlenv.sandboxes.local import transfer
from pytest_rlenv.sandboxes.local.imageconfig import DEFAULT_PATH, ImageConfig
from pytest_rlenv.sandboxes.local.namespace import Namespace
from pytest_rlenv.sandboxes.local.network import LocalNetwork
from pytest_rlenv.sandboxes.local.process import Command
from pytest_rlenv.sandboxes.local.users import User, find_user, only_root
from pytest_rlenv.sandboxes.model import BoxSpec

_PASSWD_CAP = 4 * 1024 * 1024


class Commands:
    """Makes a box's commands ready to be started.

    Args:
        name: the box's name.
        namespace: where they run.
        spec: how the box was asked for.
        image: what its image says of itself.
        network: what it reaches, and by which variables.
    """

    def __init__(
        self, name: str, namespace: Namespace, spec: BoxSpec, image: ImageConfig, network: LocalNetwork
    ) -> None:
        self._name = name
        self._namespace = namespace
        self._spec = spec
        self._image = image
        self._network = network

    def make(
        self,
        argv: Sequence[str],
        *,
        user: str | int | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> Command:
        """Return a command with what it does not say itself.

        Raises:
            BoxUnfit: there is no such user in the box.
        """
        who = self.user(self._image.user if user is None else user)
        base = {"PATH": DEFAULT_PATH, "HOSTNAME": self._name, "HOME": who.home}
        return Command(
            argv=argv,
            env={**base, **self._image.env, **self._network.variables(), **self._spec.env, **(env or {})},
            cwd=cwd or self._spec.workdir or self._image.workdir,
            user=who,
        )

    def user(self, spec: str | int) -> User:
        """Return a user of the box.

        Raises:
            BoxUnfit: there is none of that name. Unsupported: these boxes have only root.
        """
        return only_root(spec) if self._namespace.has_user_namespace else find_user(spec, self._read)

    def _read(self, path: str) -> bytes | None:
        try:
            return transfer.get(self._namespace.root, path, _PASSWD_CAP)
        except SandboxFailed:
            return None
