"""The variables of a process that runs a stranger's code on this machine: what it needs, and no secrets."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_rlenv.secret_forms import is_personal

_NEEDED = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM", "LD_LIBRARY_PATH"}
    | {"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "XDG_CACHE_HOME", "HF_HOME", "HF_HUB_OFFLINE"}
    | {
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "all_proxy",
    }
    | {"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CONFIG_FILE", "PIP_CACHE_DIR"}
)
_FAMILIES = ("LC_", "UV_", "PYENV_")


def plain_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what of our variables any program may need to run: paths, language, proxies, package indexes.

    Not those that hold a secret: ``UV_PUBLISH_TOKEN``, or the address of an index with a password in it.
    """
    needed = {name: environ[name] for name in environ if name in _NEEDED or name.startswith(_FAMILIES)}
    return {name: value for name, value in needed.items() if not is_personal(name, value)}
