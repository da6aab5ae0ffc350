"""How far a verifier is kept from what the agent left: its level, which every record states.

- ``shared``: the agent's box as it is, services that the agent started included. Harbor's way, and the
  default, as such a service may be the task.
- ``quiesce``: the agent's box after everything in it has been killed: nothing of the agent's runs beside the
  tests, but its changes to the system are all there.
- ``fresh``: a new box of the task's image with the agent's working directory, logs and artifacts: nothing
  else that the agent changed is there, such as a shell or an interpreter.
- ``separate``: the task has its verifier in a box of its own; no other level is for it.
"""

from __future__ import annotations

from enum import Enum


class Level(str, Enum):
    """A level."""

    SHARED = "shared"
    QUIESCE = "quiesce"
    FRESH = "fresh"
    SEPARATE = "separate"
