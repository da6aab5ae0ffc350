"""SIGTERM ends a run as Ctrl-C does: reports written, nothing left behind."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable


def end_on_sigterm() -> Callable[[], None]:
    """Turn SIGTERM into KeyboardInterrupt in this process, unless somebody handles it already.

    Without it a cancelled CI job leaves no JUnit file and no teardown runs. Returns what undoes it.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return lambda: None
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return _restore


def _restore() -> None:
    if signal.getsignal(signal.SIGTERM) is signal.default_int_handler:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
