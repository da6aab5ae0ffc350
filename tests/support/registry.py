"""A registry on the loopback device, which engines speak to without TLS: one small image, faults on order."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_WORDS = {
    401: ("UNAUTHORIZED", "authentication required"),
    403: ("DENIED", "requested access to the resource is denied"),
    404: ("MANIFEST_UNKNOWN", "manifest unknown"),
    429: ("TOOMANYREQUESTS", "You have reached your pull rate limit"),
    503: ("UNAVAILABLE", "service unavailable"),
}


class Registry:
    """Serves ``HOST/some/image:1``; made anew, so that no engine has it.

    Attributes:
        faults: statuses with which the next pulls are refused, one each.
        pulls: how many there were: an engine asks for the manifest's head first, then for all of it.
    """

    def __init__(self) -> None:
        self.faults: list[int] = []
        self.pulls = 0
        layer, plain = _layer(f"made {uuid.uuid4()}")
        config = _config(hashlib.sha256(plain).hexdigest())
        self._blobs = {_digest(blob): blob for blob in (layer, config)}
        self._manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": _described("application/vnd.docker.container.image.v1+json", config),
                "layers": [_described("application/vnd.docker.image.rootfs.diff.tar.gzip", layer)],
            }
        ).encode()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def image(self) -> str:
        """The image's name."""
        return f"127.0.0.1:{self._server.server_address[1]}/some/image:1"

    @property
    def digest(self) -> str:
        """By which it can be pulled."""
        return _digest(self._manifest)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def find(self, path: str, *, head: bool) -> tuple[int, str, bytes]:
        """Return status, kind and body of an answer."""
        if path == "/v2/":
            return 200, "application/json", b"{}"
        if "/blobs/" in path:
            blob = self._blobs.get(path.rpartition("/")[2])
            return (404, "text/plain", b"") if blob is None else (200, "application/octet-stream", blob)
        self.pulls += not head
        if self.faults:
            status = self.faults[0] if head else self.faults.pop(0)
            code, message = _WORDS[status]
            body = json.dumps({"errors": [{"code": code, "message": message}]}).encode()
            return status, "application/json", body
        return 200, MANIFEST, self._manifest


def _handler(registry: Registry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            status, kind, body = registry.find(self.path, head=self.command == "HEAD")
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
            if kind == MANIFEST:
                self.send_header("Docker-Content-Digest", registry.digest)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815 - named by http.server

    return Handler


def _layer(text: str) -> tuple[bytes, bytes]:
    """Return a layer with one file, packed and not."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        info = tarfile.TarInfo("made")
        info.size = len(text)
        tar.addfile(info, io.BytesIO(text.encode()))
    return gzip.compress(file.getvalue(), mtime=0), file.getvalue()


def _config(layer: str) -> bytes:
    import platform

    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    facts = {"architecture": machine, "os": "linux", "config": {}, "history": []}
    return json.dumps(facts | {"rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer}"]}}).encode()


def _described(kind: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "size": len(blob), "digest": _digest(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"
