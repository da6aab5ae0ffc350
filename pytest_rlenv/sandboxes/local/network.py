"""The files in a box that say who it is and how to find others."""

from __future__ import annotations

from pathlib import Path

from pytest_rlenv.sandboxes.protocol import PUBLIC, BoxSpec, Entry

_HOSTS = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
_NO_SERVERS = "# this box has no network\n"


def network_files(spec: BoxSpec, hostname: str) -> list[Entry]:
    """Return them: with a public network, which is this machine's, they are this machine's."""
    hosts, servers = _HOSTS, _NO_SERVERS
    if spec.network == PUBLIC:
        hosts = _text("/etc/hosts") or hosts
        servers = _text("/etc/resolv.conf")
    if hosts and not hosts.endswith("\n"):
        hosts += "\n"
    texts = {
        "etc/hostname": f"{hostname}\n",
        "etc/hosts": f"{hosts}127.0.0.1\t{hostname}\n",
        "etc/resolv.conf": servers,
    }
    return [Entry(path, text.encode()) for path, text in texts.items()]


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
