"""Python's search for cycles, left out where it finds nothing: while much is made that stays.

While modules are loaded and items are made, it goes over all of them again and again: 0.1 s of a start, and a
tenth of what 10,000 items cost.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def no_search() -> Iterator[None]:
    """Search for no cycles meanwhile; what is made then counts as old, which is seldom looked at."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if _can_set_aside():
            gc.freeze()
            gc.unfreeze()
        if enabled:
            gc.enable()


_set_aside_before = threading.Event()


def set_aside() -> Callable[[], None]:
    """Leave out of every search what is there now; return what takes it in again.

    What goes meanwhile is found by a search afterwards, at the latest by one here if pytest is run again.
    """
    if not _can_set_aside():
        return lambda: None
    if _set_aside_before.is_set():
        gc.collect()
    _set_aside_before.set()
    gc.freeze()
    return gc.unfreeze


def _can_set_aside() -> bool:
    """Return False where somebody has done so, whose things would be taken in again with ours."""
    return hasattr(gc, "freeze") and gc.get_freeze_count() == 0
