"""SIGTERM ends a run as Ctrl-C does: reports written, nothing left behind."""

from __future__ import annotations

import signal
import threading


def end_on_sigterm() -> None:
    """Turn SIGTERM into KeyboardInterrupt in this process, unless somebody handles it already.

    Without it a cancelled CI job leaves no JUnit file and no teardown runs.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
