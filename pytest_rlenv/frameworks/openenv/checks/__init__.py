"""Checks of an environment itself, each an agent ``check:NAME``: ``table.py`` has them all.

OpenEnv 0.10 declares most of them (``runtime.episode_determinism``, ``semantic.floor_gap`` and others) and
skips them.
"""
