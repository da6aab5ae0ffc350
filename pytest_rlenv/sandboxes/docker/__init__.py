r"""Boxes in a Docker engine, over its API.

Public:

- :class:`~pytest_rlenv.sandboxes.docker.sandbox.DockerSandbox`\ ``(context)``: makes
  :class:`~pytest_rlenv.sandboxes.docker.box.DockerBox` boxes; the two implement the protocols of
  :mod:`pytest_rlenv.sandboxes.protocol`.
- :func:`~pytest_rlenv.sandboxes.docker.sweep.sweep_stale`: removes boxes that dead runs have left.

Containers and images carry the label ``rlenv=1`` and the ``rlenv.*`` labels of
:mod:`~pytest_rlenv.sandboxes.docker.labels`; nothing without them is touched.

Importing this package does not import ``docker``; the first use of an engine does.
"""

from __future__ import annotations

from pytest_rlenv.sandboxes.docker.box import DockerBox
from pytest_rlenv.sandboxes.docker.sandbox import DockerSandbox
from pytest_rlenv.sandboxes.docker.sweep import sweep_stale

__all__ = ["DockerBox", "DockerSandbox", "sweep_stale"]
