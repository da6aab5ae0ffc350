"""What the output of an installer says of why it failed: nobody's fault who is measured, or a wrong version.

By the words of pip, uv, npm, curl, apt, apk and dnf. An installer tries a second way where the first one
fails, so what a registry says for certain goes before what may be the network.
"""

from __future__ import annotations

import re

from pytest_rlenv.errors import AgentFailed, AgentUnavailable, RlenvError, Stage
from pytest_rlenv.text import tail

_PASSING = (
    # pip: of an index that answers with 429 or 5xx it says no more than the first
    r"\(from versions: none\)",
    r"after connection broken by|Failed to establish a new connection|Read timed out",
    # uv
    r"error sending request for url|HTTP status server error|\(429 Too Many Requests\)",
    # npm
    r"\b(?:ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH)\b",
    r"ERR_SOCKET_TIMEOUT|npm (?:error|ERR!) (?:network\b|code E(?:429|5\d\d)\b)",
    # curl
    r"curl: \((?:5|6|7|16|18|28|35|52|55|56|92)\)|requested URL returned error: (?:429|5\d\d)",
    # apt
    r"Temporary failure resolving|Could not resolve|Could not connect to|Hash Sum mismatch",
    r"[EW]: Failed to fetch|Some index files failed to download",
    # apk, dnf
    r"temporary error \(try again later\)|DNS: transient error",
    r"Failed to download metadata for repo|Cannot download repomd\.xml|Curl error",
    # several
    r"Connection timed out|Connection reset by peer|Network is unreachable|Name or service not known",
)
UNREACHABLE = re.compile("|".join(_PASSING), re.IGNORECASE)
"""What says that a registry could not be reached, or would not answer now: another try may get past it."""

_CERTAIN = (
    r"\(from versions: (?!none\))",
    r"there (?:is|are) no versions? of|was not found in the package registry|No download found for request",
    r"npm (?:error|ERR!) code (?:ETARGET|E404|EBADENGINE)\b",
    r"requested URL returned error: 404",
)
_NOT_THERE = re.compile("|".join(_CERTAIN), re.IGNORECASE)


def install_error(agent: str, what: str, output: str, *, hint: str, network: bool = True) -> RlenvError:
    """Return the error for an agent's program that was not installed.

    Args:
        agent: the agent's name.
        what: what has failed, in a few words.
        output: what the installer printed, or the end of it.
        hint: what to do where nothing more is known.
        network: False if it ran in a box that does not reach all registries: they are not to blame.
    """
    detail, stage = tail(output), Stage.AGENT_SETUP
    if _NOT_THERE.search(output):
        return AgentFailed(
            f"agent {agent}: {what}: there is no such version of it that fits",
            hint=f"choose another one, as in `--agent {agent}:1.2.3`; see the installer's output",
            detail=detail,
            stage=stage,
        )
    if network and UNREACHABLE.search(output):
        return AgentUnavailable(
            f"agent {agent}: {what}: a registry of packages cannot be reached, or does not answer",
            hint="--rlenv-retries tries such a rollout again; see the installer's output",
            detail=detail,
            stage=stage,
        )
    return AgentFailed(f"agent {agent}: {what}", hint=hint, detail=detail, stage=stage)
