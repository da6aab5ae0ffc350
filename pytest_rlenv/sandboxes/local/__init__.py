r"""Boxes made of Linux namespaces by bubblewrap: no engine, a few milliseconds each.

Public:

- :class:`~pytest_rlenv.sandboxes.local.sandbox.LocalSandbox`\ ``(context)``: makes
  :class:`~pytest_rlenv.sandboxes.local.box.LocalBox` boxes; the two implement the protocols of
  :mod:`pytest_rlenv.sandboxes.protocol`.
- :func:`~pytest_rlenv.sandboxes.local.pruning.prune`\ ``(cache_dir, older_than)``: removes extracted images
  that nobody used lately, and what dead processes have left.

*Image mode* runs on the root file system of the task's image, which Docker builds or pulls and which is
extracted once per image; each box has an overlay of its own on it. *Host mode* needs no Docker at all: it
runs over this machine's ``/usr``, read-only, and takes only Dockerfiles that run nothing.

It is meant for code that is trusted as much as any program of this user: namespaces, dropped capabilities
and a system call filter keep tasks apart and the machine clean, but the kernel is shared. A box with a
public network shares the *machine's* network, its loopback included.
"""

from __future__ import annotations

from pytest_rlenv.sandboxes.local.box import LocalBox
from pytest_rlenv.sandboxes.local.pruning import prune
from pytest_rlenv.sandboxes.local.sandbox import LocalSandbox

__all__ = ["LocalBox", "LocalSandbox", "prune"]
