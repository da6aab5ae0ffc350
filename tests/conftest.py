"""What holds for every test: the time that an example takes tells of the machine, not of the code."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")
