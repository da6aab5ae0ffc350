"""Run the tasks of RL environments as pytest test cases."""

from pytest_rlenv._version import __version__

__all__ = ["__version__"]
