"""Which engine to talk to: DOCKER_HOST, then DOCKER_CONTEXT, then the current context, then the default."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_rlenv.errors import EngineUnavailable

if TYPE_CHECKING:
    from docker import APIClient

DEFAULT_URL = "unix:///var/run/docker.sock"


@dataclass(frozen=True)
class TlsFiles:
    """Where the certificates of a TLS endpoint are; an empty path is a file that is not there."""

    ca: str = ""
    cert: str = ""
    key: str = ""
    verify: bool = True


@dataclass(frozen=True)
class Endpoint:
    """An engine's address and where we have it from.

    Attributes:
        url: ``unix:///path``, ``tcp://host:port`` or ``npipe://...``.
        source: what named it, for messages.
        tls: the certificates, ``None`` for a plain connection.
    """

    url: str
    source: str
    tls: TlsFiles | None = None

    def __str__(self) -> str:
        return f"{self.url} ({self.source})"

    @property
    def socket_path(self) -> str | None:
        """Path of the Unix socket, ``None`` for every other kind of endpoint."""
        return self.url[len("unix://") :] if self.url.startswith("unix://") else None


def resolve_endpoint(environ: Mapping[str, str] | None = None) -> Endpoint:
    """Return the engine that the docker command line would use.

    Raises:
        EngineUnavailable: the named context does not exist, or its address is of a kind we cannot reach.
    """
    environ = os.environ if environ is None else environ
    endpoint = _from_host(environ) or _from_context(environ) or Endpoint(DEFAULT_URL, "the default")
    if "://" not in endpoint.url:
        raise EngineUnavailable(
            f"{endpoint.url!r} ({endpoint.source}) is not the address of an engine",
            hint="write it with its kind: unix:///path/to/docker.sock or tcp://host:port (ssh://user@host "
            "through a tunnel)",
        )
    if endpoint.url.startswith("ssh://"):
        raise _no_ssh(endpoint)
    return endpoint


def _from_host(environ: Mapping[str, str]) -> Endpoint | None:
    host = environ.get("DOCKER_HOST", "").strip()
    if not host:
        return None
    verify = bool(environ.get("DOCKER_TLS_VERIFY"))
    certs = environ.get("DOCKER_CERT_PATH", "")
    if host.startswith("unix://") or not (verify or certs):
        return Endpoint(host, "from DOCKER_HOST")
    return Endpoint(host, "from DOCKER_HOST", _tls_files(Path(certs or _config_dir(environ)), verify))


def _from_context(environ: Mapping[str, str]) -> Endpoint | None:
    config = _config_dir(environ)
    name = environ.get("DOCKER_CONTEXT", "").strip()
    source = f"from DOCKER_CONTEXT={name}"
    if not name:
        name = str(_read_json(config / "config.json").get("currentContext") or "")
        source = f"docker's current context {name!r}"
    if not name or name == "default":
        return None
    digest = hashlib.sha256(name.encode()).hexdigest()
    meta = _read_json(config / "contexts" / "meta" / digest / "meta.json")
    docker = meta.get("Endpoints", {}).get("docker", {}) if meta else {}
    if not docker.get("Host"):
        raise EngineUnavailable(
            f"there is no docker context {name!r} ({source}; looked in {config / 'contexts'})",
            hint="`docker context ls` lists the contexts; set DOCKER_CONTEXT to one of them or unset it",
        )
    certs = config / "contexts" / "tls" / digest / "docker"
    tls = _tls_files(certs, not docker.get("SkipTLSVerify", False)) if certs.is_dir() else None
    return Endpoint(str(docker["Host"]), source, tls)


def _config_dir(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("DOCKER_CONFIG") or Path.home() / ".docker")


def _tls_files(folder: Path, verify: bool) -> TlsFiles:
    def there(name: str) -> str:
        return str(folder / name) if (folder / name).is_file() else ""

    return TlsFiles(there("ca.pem"), there("cert.pem"), there("key.pem"), verify)


def _read_json(path: Path) -> dict[str, Any]:
    """Return a JSON object; an absent file is an empty one, as for the docker command line."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise EngineUnavailable(f"cannot read docker's configuration {path}: {error}") from error
    return value if isinstance(value, dict) else {}


def _no_ssh(endpoint: Endpoint) -> EngineUnavailable:
    target = endpoint.url[len("ssh://") :].rstrip("/")
    host, _, port = target.partition(":")
    ssh = f"ssh -p {port}" if port else "ssh"
    return EngineUnavailable(
        f"the Docker engine {endpoint} is behind ssh, which is not spoken here",
        hint=f"open a tunnel, `{ssh} -nNT -L /tmp/docker.sock:/var/run/docker.sock {host} &`, "
        "and set DOCKER_HOST=unix:///tmp/docker.sock",
    )


def package_client(endpoint: Endpoint, *, timeout: float, pool_size: int) -> APIClient:
    """Return a client of the ``docker`` package's for an endpoint; nothing is sent yet.

    Args:
        endpoint: the engine's.
        timeout: seconds to wait for an answer, unless a request says otherwise.
        pool_size: connections to keep.
    """
    from docker import APIClient
    from docker.constants import MINIMUM_DOCKER_API_VERSION
    from docker.tls import TLSConfig

    tls: Any = False
    if endpoint.tls:
        files = endpoint.tls
        pair = (files.cert, files.key) if files.cert and files.key else None
        tls = TLSConfig(client_cert=pair, ca_cert=files.ca or None, verify=files.verify)
    # docker's stub says int, but the value goes to requests, which takes fractions
    seconds: Any = timeout
    # any version will do: with one given, nothing is sent yet, and a client that fails can be closed
    return APIClient(
        endpoint.url, version=MINIMUM_DOCKER_API_VERSION, timeout=seconds, tls=tls, max_pool_size=pool_size
    )
