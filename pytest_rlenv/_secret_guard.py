"""Takes secrets out of the folders that a process left unfinished, as soon as that process is gone.

Started as a program of its own by ``secret_guard.py``: ``_secret_guard.py PACKAGES``, where PACKAGES is the
folder that has this package. Standard input is a pipe whose other end only that process holds, so that even
its SIGKILL is seen here. On it come lines of JSON: ``{"begin": FOLDER}``, ``{"end": FOLDER}``, and
``{"marks": {TEXT: WHAT STANDS IN ITS PLACE}}``.
"""

import signal
import sys
import time

AGAIN = 2.0
"""Seconds after which it is looked once more: programs that the process had started end a moment after it."""


def main() -> None:
    """Wait until the process is gone, and redact what it has begun and not ended."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)  # a run that is stopped is what this is for
    lines = sys.stdin.buffer.readlines()
    sys.path.insert(0, sys.argv[1])
    import json
    from pathlib import Path

    from pytest_rlenv.secrets import Secrets

    secrets, folders = Secrets(), {}
    for line in lines:
        if not line.endswith(b"\n"):
            break  # it was killed while it wrote
        told = json.loads(line)
        secrets.take(told.get("marks", {}))
        if "begin" in told:
            folders[told["begin"]] = Path(told["begin"])
        folders.pop(told.get("end"), None)
    for pause in (0.0, AGAIN) if folders else ():
        time.sleep(pause)
        for folder in folders.values():
            secrets.redact_folder(folder)


if __name__ == "__main__":
    main()
