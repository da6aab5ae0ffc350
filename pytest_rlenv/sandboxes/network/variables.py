"""The environment variables that tell programs in a box about its gate."""

from __future__ import annotations

from pytest_rlenv.sandboxes.model import ALLOWLIST

PORT = 27128
"""Where the gate is on a box's loopback: neither a usual port nor one that the kernel hands out."""

LISTENER_PORT = 27129
"""Where the socket that a box hands over to its owner listens, in a loopback of the box's own."""

_URL = f"http://127.0.0.1:{PORT}"
_LOCAL = "localhost,127.0.0.1,::1"

PROXY = {
    # curl heeds http_proxy in small letters only; others prefer capitals
    **{name: _URL for word in ("http_proxy", "https_proxy", "all_proxy") for name in (word, word.upper())},
    "no_proxy": _LOCAL,
    "NO_PROXY": _LOCAL,
    "NODE_USE_ENV_PROXY": "1",  # node ignores the others without it
}


def proxy_variables(mode: str, baseline: str) -> dict[str, str]:
    """Return what a command needs to see while the box's network is of ``mode``.

    Args:
        mode: the box's network now.
        baseline: what it was started with. Its processes all inherit that one's variables, which cannot be
            taken away again, but made empty.
    """
    if mode == ALLOWLIST:
        return dict(PROXY)
    return dict.fromkeys(PROXY, "") if baseline == ALLOWLIST else {}
