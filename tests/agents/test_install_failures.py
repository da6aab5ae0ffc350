"""Why an installer failed, by what the programs have printed.

The texts are theirs, less what is long in them: with a dead proxy, an unknown host, a closed port, a server
that answers with an error, and a version or package that is not there.
"""

from __future__ import annotations

import pytest

from pytest_rlenv.agents.install_failures import UNREACHABLE, install_error
from pytest_rlenv.errors import Kind

PIP_NONE = """\
ERROR: Could not find a version that satisfies the requirement six==1.16.0 (from versions: none)
ERROR: No matching distribution found for six==1.16.0
"""
PIP_PROXY = f"""\
WARNING: Retrying (Retry(total=0, connect=None, read=None)) after connection broken by 'ProxyError('Cannot \
connect to proxy.', NewConnectionError('<HTTPSConnection object at 0x7f60529c94c0>: Failed to establish a \
new connection: [Errno 111] Connection refused'))': /simple/six/
{PIP_NONE}"""
UV_PROXY = """\
error: Failed to fetch: `https://index.test/simple/six/`
  cause: error sending request for url (https://index.test/simple/six/)
  cause: client error (Connect)
  cause: tcp connect error
  cause: Connection refused (os error 111)
"""
UV_DNS = """\
error: Failed to fetch: `http://no-such-host.invalid/simple/six/`
  cause: error sending request for url (http://no-such-host.invalid/simple/six/)
  cause: client error (Connect)
  cause: dns error
  cause: failed to lookup address information: Name or service not known
"""
UV_503 = """\
error: Failed to fetch: `http://127.0.0.1:18503/simple/six/`
  cause: HTTP status server error (503 Service Unavailable) for url (http://127.0.0.1:18503/simple/six/)
"""
UV_429 = """\
error: Failed to fetch: `http://127.0.0.1:18429/simple/six/`
  cause: HTTP status client error (429 Too Many Requests) for url (http://127.0.0.1:18429/simple/six/)
"""
UV_PYTHON = """\
error: Failed to download `https://github.test/cpython-3.12.16-x86_64-unknown-linux-gnu-install_only.tar.gz`
  cause: error sending request for url (https://github.test/cpython-3.12.16.tar.gz)
  cause: dns error
"""
NPM_PROXY = """\
npm error code ECONNREFUSED
npm error syscall connect
npm error FetchError: request to https://registry.test/x failed, reason: connect ECONNREFUSED 127.0.0.1:9
npm error If you are behind a proxy, please make sure that the 'proxy' config is set properly.
"""
NPM_DNS = """\
npm error errno ENOTFOUND
npm error network request to http://no-such-host.invalid/opencode-ai failed, reason: getaddrinfo ENOTFOUND
npm error network This is a problem related to network connectivity.
"""
NPM_503 = """\
npm error code E503
npm error 503 Service Unavailable - GET http://127.0.0.1:18503/opencode-ai
"""
NPM_429 = """\
npm error code E429
npm error 429 Too Many Requests - GET http://127.0.0.1:18429/opencode-ai
"""
APT_NONE = """\
W: Failed to fetch http://deb.test/dists/bookworm/InRelease  Temporary failure resolving 'deb.debian.org'
W: Some index files failed to download. They have been ignored, or old ones used instead.
E: Unable to locate package tmux
"""
APT_PROXY = """\
W: Failed to fetch http://deb.test/dists/bookworm/InRelease  Could not connect to 127.0.0.1:9 (127.0.0.1). \
- connect (111: Connection refused)
W: Some index files failed to download. They have been ignored, or old ones used instead.
E: Unable to locate package tmux
"""
APT_503 = """\
E: Failed to fetch http://127.0.0.1:18503/InRelease  503  Service Unavailable [IP: 127.0.0.1 18503]
E: The repository 'http://127.0.0.1:18503/debian bookworm InRelease' is not signed.
"""
UV_VERSION = """\
error: No solution found when resolving dependencies
  cause: Because there is no version of six==99.1 and you require six==99.1, we can conclude that your \
requirements are unsatisfiable.
"""
UV_PACKAGE = """\
error: No solution found when resolving dependencies
  cause: Because none-such was not found in the package registry and you require none-such==1, we can \
conclude that your requirements are unsatisfiable.
"""
PIP_VERSION = """\
ERROR: Could not find a version that satisfies the requirement six==99.1 (from versions: 0.9.0, 1.17.0)
ERROR: No matching distribution found for six==99.1
"""
NPM_VERSION = """\
npm error code ETARGET
npm error notarget No matching version found for opencode-ai@99.1.1.
"""
NPM_PACKAGE = """\
npm error code E404
npm error 404 Not Found - GET https://registry.test/@no-such-scope/none
"""
CURL = "curl: (7) Failed to connect to 127.0.0.1 port 9 after 0 ms: Couldn't connect to server\n"


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        pytest.param(PIP_PROXY, Kind.INFRA, id="pip, dead proxy"),
        pytest.param(PIP_NONE, Kind.INFRA, id="pip, 503"),
        pytest.param(UV_PROXY, Kind.INFRA, id="uv, dead proxy"),
        pytest.param(UV_DNS, Kind.INFRA, id="uv, unknown host"),
        pytest.param(UV_503 + PIP_NONE, Kind.INFRA, id="uv, 503, then pip"),
        pytest.param(UV_429, Kind.INFRA, id="uv, 429"),
        pytest.param(UV_PYTHON, Kind.INFRA, id="uv, no Python to be had"),
        pytest.param(NPM_PROXY, Kind.INFRA, id="npm, dead proxy"),
        pytest.param(NPM_DNS, Kind.INFRA, id="npm, unknown host"),
        pytest.param(NPM_503, Kind.INFRA, id="npm, 503"),
        pytest.param(NPM_429, Kind.INFRA, id="npm, 429"),
        pytest.param(CURL, Kind.INFRA, id="curl, closed port"),
        pytest.param("curl: (22) The requested URL returned error: 503\n", Kind.INFRA, id="curl, 503"),
        pytest.param("curl: (22) The requested URL returned error: 429\n", Kind.INFRA, id="curl, 429"),
        pytest.param(APT_NONE, Kind.INFRA, id="apt, no network"),
        pytest.param(APT_PROXY, Kind.INFRA, id="apt, dead proxy"),
        pytest.param(APT_503, Kind.INFRA, id="apt, 503"),
        pytest.param(UV_VERSION + PIP_VERSION, Kind.AGENT, id="uv and pip, no such version"),
        pytest.param(UV_PACKAGE + PIP_NONE, Kind.AGENT, id="uv and pip, no such package"),
        pytest.param(PIP_PROXY + PIP_VERSION, Kind.AGENT, id="pip got over it, no such version"),
        pytest.param(NPM_VERSION, Kind.AGENT, id="npm, no such version"),
        pytest.param(NPM_PACKAGE, Kind.AGENT, id="npm, no such package"),
        pytest.param("curl: (22) The requested URL returned error: 404\n", Kind.AGENT, id="curl, 404"),
        pytest.param("E: Unable to locate package none-such\n", Kind.AGENT, id="apt, no such package"),
        pytest.param("there is no package manager here that is known", Kind.AGENT, id="nothing known"),
        pytest.param("", Kind.AGENT, id="nothing said"),
    ],
)
def test_whose_fault_it_is(output: str, kind: Kind) -> None:
    error = install_error("a", "its installer exited 1", output, hint="look")
    assert error.kind is kind
    assert error.message.startswith("agent a: its installer exited 1")
    if kind is Kind.INFRA:
        assert UNREACHABLE.search(output)
        assert "--rlenv-retries" in error.hint


@pytest.mark.parametrize("output", [UV_VERSION, NPM_VERSION])
def test_a_version_that_is_not_there_is_told_with_the_cure(output: str) -> None:
    error = install_error("a", "it cannot be installed", output, hint="look")
    assert error.message == "agent a: it cannot be installed: there is no such version of it that fits"
    assert "--agent a:1.2.3" in error.hint


def test_a_box_without_network_is_no_fault_of_a_registry() -> None:
    error = install_error("a", "its installer exited 1", NPM_DNS, hint="have it in the image", network=False)
    assert (error.kind, error.hint) == (Kind.AGENT, "have it in the image")
