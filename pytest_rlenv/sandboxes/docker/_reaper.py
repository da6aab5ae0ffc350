"""Waits for the end of stdin, then removes everything that has a label. Started by ``reaper.py``.

Standard library only: it runs with ``python -S -E`` so that it is up in a few milliseconds and depends on
nothing that the run may have changed. Arguments: the engine's address, the label as ``name=value``, and
the TLS files as JSON or an empty string.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import ssl
import sys
import time
from typing import Any
from urllib.parse import quote, urlsplit

QUIET_ROUNDS = 4
"""Rounds with nothing found after which all is over: a dying worker may still be making one."""
PAUSE = 0.5
GIVE_UP = 60.0
TIMEOUT = 30.0


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT)
        self.path = path

    def connect(self) -> None:
        """Open the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def connection(url: str, tls: str) -> http.client.HTTPConnection:
    """Return a connection to the engine."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return UnixConnection(parts.path)
    host, port = parts.hostname or "localhost", parts.port
    if not tls and parts.scheme != "https":
        return http.client.HTTPConnection(host, port or 2375, timeout=TIMEOUT)
    files = json.loads(tls or "{}")
    context = ssl.create_default_context(cafile=files.get("ca") or None)
    if not files.get("verify", True):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if files.get("cert") and files.get("key"):
        context.load_cert_chain(files["cert"], files["key"])
    return http.client.HTTPSConnection(host, port or 2376, timeout=TIMEOUT, context=context)


def request(url: str, tls: str, method: str, path: str) -> bytes:
    """Send one request and return the answer's body."""
    link = connection(url, tls)
    try:
        link.request(method, path)
        return link.getresponse().read()
    finally:
        link.close()


def remove_all(url: str, label: str, tls: str) -> int:
    """Remove what has the label, containers first as they use the rest, and return how much there was."""
    filters = quote(json.dumps({"label": [label]}))

    def listed(path: str) -> Any:
        return json.loads(request(url, tls, "GET", f"{path}filters={filters}"))

    containers = listed("/containers/json?all=1&")
    for container in containers:
        request(url, tls, "DELETE", f"/containers/{container['Id']}?force=1&v=1")
    networks = listed("/networks?")
    for network in networks:
        request(url, tls, "DELETE", f"/networks/{network['Id']}")
    volumes = listed("/volumes?").get("Volumes") or []
    for volume in volumes:
        request(url, tls, "DELETE", f"/volumes/{volume['Name']}")
    return len(containers) + len(networks) + len(volumes)


def main(url: str, label: str, tls: str) -> None:
    """Wait for the owner's end, then clean up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    if os.read(0, 1):
        return  # dismissed
    begin = time.monotonic()
    quiet = 0
    while quiet < QUIET_ROUNDS and time.monotonic() - begin < GIVE_UP:
        # the engine may be starting again: try until time is up
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
            quiet = 0 if remove_all(url, label, tls) else quiet + 1
        time.sleep(PAUSE)


if __name__ == "__main__":
    main(*sys.argv[1:4])
