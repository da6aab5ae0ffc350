"""What makes a variable a secret, and in which spellings its value may turn up."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, quote_plus

SHORTEST = 8
"""Characters of a secret; shorter values would be found in what is none."""
SHORTEST_NAMED = 6
"""Likewise, where the variable's name says that it holds a secret."""
SHORTEST_LINE = 16
"""Likewise, for one line of a value of several, such as a private key."""

_SAYS_SECRET = re.compile(
    r"(?:^|_)(?:TOKENS?|SECRETS?|PASSWORD|PASSWD|PASSPHRASE|PASS|CREDENTIALS?|KEYS?|APIKEY|PAT|AUTH|DSN|COOKIE)"
    r"(?:_|$)|(?:TOKEN|SECRET|PASSWORD|APIKEY)$",
    re.IGNORECASE,
)
_PUBLIC = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "HOSTNAME", "HOST", "VIRTUAL_ENV"),
        *(
            "LANG",
            "LANGUAGE",
            "TZ",
            "TERM",
            "COLUMNS",
            "LINES",
            "NO_COLOR",
            "DISPLAY",
            "EDITOR",
            "XAUTHORITY",
        ),
        *("TMPDIR", "TEMP", "TMP", "CI", "PYTHONPATH", "DOCKER_HOST", "SSH_AUTH_SOCK"),
    }
)
_PUBLIC_START = re.compile(r"(?:LC|XDG)_", re.IGNORECASE)
_PUBLIC_END = re.compile(
    r"(?:^|_)(?:URL|URI|HOST|PORT|MODEL|NAME|REGION|ENDPOINT|BASE|VERSION|DIR|PATH|FILE|LEVEL|MODE|ENABLED|"
    r"TIMEOUT|LIMIT|PROXY|PLATFORM|ARCH|DATE)$",
    re.IGNORECASE,
)
_PLAIN_WORDS = frozenset(
    {"true", "false", "enabled", "disabled", "default", "production", "development", "localhost"}
)
_CREDENTIAL_IN_ADDRESS = re.compile(
    r"://[^/\s]*@|[?&][^=\s]*(?:key|token|secret|sig|auth|password)[^=\s]*=", re.I
)
_COUNTS = re.compile(
    r"(?:^|_)(?:MAX|MIN|NUM|N|COUNT|LIMIT|BUDGET|SIZE|TTL|TIMEOUT|EXPIRY)(?:_|$)|TOKENS$", re.IGNORECASE
)
"""Names of numbers, such as ``MAX_TOKENS``, though another word in them could mean a secret."""
_AMOUNT = re.compile(r"[-+]?[\d.,:/ ]{1,15}")


def says_secret(name: str) -> bool:
    """Return whether the name of a variable says that it holds a secret: ``HF_TOKEN``, ``DB_PASSWORD``."""
    return name.upper() not in _PUBLIC and bool(_SAYS_SECRET.search(name))


def is_personal(name: str, value: str) -> bool:
    """Return whether a variable is kept from a stranger's code that runs on this machine.

    Its name says that it is secret, or its value is an address with a credential in it, as those of proxies,
    databases and package indexes may be, or it leads to the caller's SSH agent.
    """
    if says_secret(name) or name.upper() == "SSH_AUTH_SOCK":
        return True
    return bool(_CREDENTIAL_IN_ADDRESS.search(value))


def is_secret(name: str, value: str) -> bool:
    """Return whether a variable that a task takes from the caller's environment is not to be shown.

    In doubt it is. Public is what is too short to be told from other text, a plain word or number, a path on
    this machine, and what the name calls an address, a model, a folder and the like, unless its value is an
    address with a credential in it.
    """
    text = value.strip()
    named = says_secret(name)
    if len(text) < (SHORTEST_NAMED if named else SHORTEST) or text.lower() in _PLAIN_WORDS:
        return False
    if _is_path_here(text) or (_COUNTS.search(name) and _AMOUNT.fullmatch(text)):
        return False
    if named or _CREDENTIAL_IN_ADDRESS.search(text):
        return True
    public = name.upper() in _PUBLIC or _PUBLIC_START.match(name) or _PUBLIC_END.search(name)
    return not public and not _AMOUNT.fullmatch(text)


def forms_of(value: str) -> Iterator[str]:
    """Yield the spellings in which a value may turn up: as it is, and as others write it."""
    yield value
    for write, safe in ((quote, "/"), (quote, ""), (quote_plus, "")):
        quoted = write(value, safe=safe, errors="surrogateescape")
        yield quoted
        yield re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), quoted)
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]
    yield html.escape(value)
    yield html.escape(value, quote=False)
    yield from _base64_forms(value.encode("utf-8", "surrogateescape"))


def _base64_forms(data: bytes) -> Iterator[str]:
    """Yield what Base64 makes of the bytes, wherever in a longer text they begin.

    The characters at both ends also depend on what stands beside; they are left out.
    """
    for offset, begin in ((0, 0), (1, 2), (2, 3)):
        text = base64.b64encode(b"\0" * offset + data).decode()
        sure = text.rstrip("=")
        if (offset + len(data)) % 3:
            sure = sure[:-1]
        sure = sure[begin:]
        if len(sure) >= SHORTEST:
            yield sure
            yield sure.replace("+", "-").replace("/", "_")


def _is_path_here(text: str) -> bool:
    if not text.startswith(("/", "~/")) or "\n" in text:
        return False
    try:
        return Path(text).expanduser().exists()
    except (OSError, ValueError, RuntimeError):
        return False
