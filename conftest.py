"""What holds for every test: the time that an example takes tells of the machine, not of the code."""

from __future__ import annotations

try:
    from hypothesis import settings
except ModuleNotFoundError:  # an environment run from here needs what tests need no more than elsewhere
    pass
else:
    settings.register_profile("any machine", deadline=None)
    settings.load_profile("any machine")
