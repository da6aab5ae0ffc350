"""A fake of the Hugging Face Hub over loopback HTTP, for the real ``huggingface_hub`` client.

::

    with FakeHub() as hub:
        sha = hub.add("org/repo", {"tasks/a/task.toml": "", "README.md": "..."})
        hub.fail(r"/resolve/", status=503)
        subprocess.run([...], env={**os.environ, **hub.environ(tmp_path)})
        assert hub.count() == 12

It serves datasets (info, tree, paths-info, refs, resolve with Range and LFS redirects) and knows private,
gated, disabled and renamed repositories, tokens, rate limits and broken answers. What the Hub does with Xet,
and writes of any kind, are not in it.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

if TYPE_CHECKING:
    from typing_extensions import Self

Files = Mapping[str, "str | bytes"]


@dataclass
class Repo:
    """One dataset repository; ``commits`` maps a SHA to all files of that commit."""

    id: str
    private: bool = False
    gated: str | bool = False
    disabled: bool = False
    lfs: tuple[str, ...] = ()
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    pulls: dict[str, str] = field(default_factory=dict)
    trees: dict[str, dict[str, list[dict[str, Any]]]] = field(default_factory=dict)

    def sha(self, revision: str) -> str | None:
        if revision in self.commits:
            return revision
        return self.branches.get(revision) or self.tags.get(revision) or self.pulls.get(revision)

    def is_lfs(self, path: str) -> bool:
        return any(fnmatchcase(path, pattern) for pattern in self.lfs)

    def folders(self, sha: str) -> dict[str, list[dict[str, Any]]]:
        """Return the entries of each folder of a commit, as the tree endpoint shows them."""
        if sha not in self.trees:
            folders: dict[str, list[dict[str, Any]]] = {"": []}
            for path, content in self.commits[sha].items():
                parent = ""
                for part in path.split("/")[:-1]:
                    child = f"{parent}/{part}".lstrip("/")
                    if child not in folders:
                        folders[child] = []
                        folders[parent].append(
                            {"type": "directory", "oid": _sha1(child), "size": 0, "path": child}
                        )
                    parent = child
                folders[parent].append(self._file(path, content))
            self.trees[sha] = folders
        return self.trees[sha]

    def _file(self, path: str, content: bytes) -> dict[str, Any]:
        entry = {"type": "file", "oid": _blob_sha(content), "size": len(content), "path": path}
        if self.is_lfs(path):
            entry["lfs"] = {
                "oid": hashlib.sha256(content).hexdigest(),
                "size": len(content),
                "pointerSize": 130,
            }
        return entry


@dataclass
class Fault:
    """What goes wrong, and how many times more, with requests whose ``METHOD path`` matches."""

    pattern: re.Pattern[str]
    times: int
    status: int
    headers: Mapping[str, str]
    body: bytes
    truncate: int | None


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    status: int
    token: str | None


class FakeHub:
    """The server; start it as a context manager.

    Attributes:
        log: every request, but the client's own look-up of agent names.
        latency: seconds that each answer is delayed.
        page_size: entries on a page of the tree.
    """

    def __init__(self) -> None:
        self.log: list[Request] = []
        self.latency = 0.0
        self.page_size = 1000
        self._repos: dict[str, Repo] = {}
        self._others: dict[tuple[str, str], dict[str, Any]] = {}
        self._renamed: dict[str, str] = {}
        self._tokens: dict[str, tuple[str, ...]] = {}
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._server: _Server | None = None
        self._port = 0

    # ---- life

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listen, on the same port as before if it was stopped."""
        self._server = _Server(("127.0.0.1", self._port), _Handler)
        self._server.hub = self
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Stop answering: connections are refused from here on."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server.close_connections()
            self._server = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def environ(self, home: Path, *, token: str | None = None, offline: bool = False) -> dict[str, str]:
        """Return the variables that make a child process use this Hub, with its caches below ``home``."""
        return {
            "HF_ENDPOINT": self.endpoint,
            "HF_HOME": str(home / "hf"),
            "HF_HUB_CACHE": str(home / "hf" / "hub"),
            "HF_TOKEN": token or "",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_OFFLINE": "1" if offline else "0",
            "TRANSFORMERS_OFFLINE": "0",
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
        }

    # ---- content

    def add(
        self,
        repo_id: str,
        files: Files | Path,
        *,
        private: bool = False,
        gated: str | bool = False,
        disabled: bool = False,
        lfs: Iterable[str] = (),
    ) -> str:
        """Make a repository with one commit on ``main``; return the commit's SHA.

        Args:
            repo_id: ``org/repo``.
            files: contents by path, or a folder.
            private: only its readers' tokens see it.
            gated: ``auto`` or ``manual``; names can be listed, contents only read by its readers.
            disabled: by the Hub.
            lfs: globs of the paths that are stored elsewhere, behind a redirect.
        """
        self._repos[repo_id] = Repo(repo_id, private, gated, disabled, tuple(lfs))
        return self.commit(repo_id, files)

    def commit(self, repo_id: str, files: Files | Path, *, branch: str = "main") -> str:
        """Put a commit with exactly these files on a branch (``refs/pr/1`` is one too); return its SHA."""
        repo = self._repos[repo_id]
        contents = _read(files)
        seed = "\0".join(f"{path}\0{_blob_sha(content)}" for path, content in sorted(contents.items()))
        sha = _sha1(f"{repo_id}\0{len(repo.commits)}\0{seed}")
        repo.commits[sha] = contents
        (repo.pulls if branch.startswith("refs/") else repo.branches)[branch] = sha
        return sha

    def tag(self, repo_id: str, name: str, sha: str | None = None) -> None:
        """Name a commit, by default that of ``main``."""
        repo = self._repos[repo_id]
        repo.tags[name] = sha or repo.branches["main"]

    def rename(self, old: str, new: str) -> None:
        """Give a repository another name; the old one redirects."""
        self._repos[new] = repo = self._repos.pop(old)
        repo.id = new
        self._renamed[old] = new

    def add_token(self, token: str, *, reads: Iterable[str] = ()) -> None:
        """Make a token known, and give it access to private and gated repositories."""
        self._tokens[token] = tuple(reads)

    def add_other(self, repo_type: str, repo_id: str) -> None:
        """Make a ``model`` or a ``space``: its name and nothing else."""
        self._others[repo_type, repo_id] = {"id": repo_id, "sha": _sha1(repo_id), "siblings": [], "tags": []}

    # ---- faults and counts

    def fail(
        self,
        pattern: str,
        *,
        times: int = 1,
        status: int = 500,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        truncate: int | None = None,
    ) -> None:
        """Break the next requests whose ``METHOD /path?query`` matches.

        Args:
            pattern: searched for, a regular expression.
            times: how many requests; -1 for all.
            status: answered instead.
            headers: of that answer.
            body: of that answer.
            truncate: answer as usual instead, but cut the connection after so many bytes of the body.
        """
        self._faults.append(Fault(re.compile(pattern), times, status, headers or {}, body, truncate))

    def limit_rate(self, pattern: str, *, times: int = 1, seconds: int = 0, bucket: str = "api") -> None:
        """Answer 429, with the headers by which the Hub says how long to wait."""
        headers = {
            "RateLimit": f'"{bucket}";r=0;t={seconds}',
            "RateLimit-Policy": f'"fixed window";"{bucket}";q=500;w=300',
        }
        self.fail(pattern, times=times, status=429, headers=headers)

    def heal(self) -> None:
        """Forget all faults."""
        self._faults.clear()

    def count(self, pattern: str = "") -> int:
        """Return how many logged requests match, as in :meth:`fail`."""
        return sum(bool(re.search(pattern, f"{request.method} {request.path}")) for request in self.log)

    def clear(self) -> None:
        """Forget the log."""
        self.log.clear()

    # ---- for the handler

    def fault(self, request: str) -> Fault | None:
        with self._lock:
            for fault in self._faults:
                if fault.times and fault.pattern.search(request):
                    fault.times -= 1
                    return fault
        return None

    def record(self, request: Request) -> None:
        with self._lock:
            self.log.append(request)

    def renamed(self, repo_id: str) -> str | None:
        return self._renamed.get(repo_id)

    def knows_token(self, token: str) -> bool:
        return token in self._tokens

    def may_read(self, repo_id: str, token: str | None) -> bool:
        return token is not None and repo_id in self._tokens.get(token, ())

    def repo(self, repo_id: str) -> Repo | None:
        return self._repos.get(repo_id)

    def other(self, repo_type: str, repo_id: str) -> dict[str, Any] | None:
        return self._others.get((repo_type, repo_id))


class _Refused(Exception):
    def __init__(self, status: int, code: str = "", message: str = "", **headers: str) -> None:
        super().__init__(code)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if code:
            self.headers["X-Error-Code"] = code
        if message:
            self.headers["X-Error-Message"] = message


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    hub: FakeHub

    def __init__(self, *args: Any) -> None:
        self._connections: set[Any] = set()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        for connection in list(self._connections):
            self.shutdown_request(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that went away is part of many tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Server

    def do_GET(self) -> None:
        self._handle()

    def do_HEAD(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        pass

    def _handle(self) -> None:
        self._form = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        self._sent = 0
        self._cut: int | None = None
        hub = self.server.hub
        time.sleep(hub.latency)
        fault = hub.fault(f"{self.command} {self.path}")
        try:
            if fault is not None and fault.truncate is None:
                raise _Refused(fault.status) if not fault.headers and not fault.body else _Answer(fault)
            self._cut = fault.truncate if fault is not None else None
            self._route(urlsplit(self.path))
        except _Answer as answer:
            self._send(answer.fault.status, answer.fault.body, **answer.fault.headers)
        except _Refused as refused:
            self._send(refused.status, b"", **refused.headers)
        self.wfile.flush()

    def _route(self, url: Any) -> None:
        query = parse_qs(url.query)
        if url.path == "/api/agent-harnesses":
            raise _Refused(404)
        if match := re.fullmatch(r"/lfs/([0-9a-f]{64})", url.path):
            self._lfs(match[1])
            return
        self._check_token()
        match = re.fullmatch(r"/api/(model|space)s/([^/]+/[^/]+)", url.path)
        if match and not (match[1] == "space" and self.server.hub.repo(f"spaces/{match[2]}")):
            found = self.server.hub.other(match[1], match[2])
            if found is None:
                raise _Refused(self._not_found(), "RepoNotFound")
            self._json(found)
            return
        match = re.fullmatch(
            r"/(api/)?(?:datasets/|(?=spaces/))((?:spaces/)?[^/]+/[^/]+)(?:/(.*))?", url.path
        )
        if not match:
            raise _Refused(404)
        repo = self._repo(match[2])
        view, _, rest = (match[3] or "").partition("/")
        if match[1] is None and view == "resolve":
            self._resolve(repo, *self._split(rest))
        elif match[1] and view in ("", "revision"):
            self._info(repo, self._sha(repo, unquote(rest) or "main"), query)
        elif match[1] and view == "tree":
            self._tree(repo, *self._split(rest), query)
        elif match[1] and view == "paths-info":
            self._paths_info(repo, self._sha(repo, unquote(rest)))
        elif match[1] and view == "refs":
            self._refs(repo)
        else:
            raise _Refused(404)

    # ---- who may

    def _token(self) -> str | None:
        scheme, _, token = (self.headers.get("Authorization") or "").partition(" ")
        return token if scheme == "Bearer" else None

    def _check_token(self) -> None:
        token = self._token()
        if token is not None and not self.server.hub.knows_token(token):
            raise _Refused(401, message="Invalid credentials in Authorization header")

    def _not_found(self) -> int:
        return 401 if self._token() is None else 404

    def _repo(self, repo_id: str) -> Repo:
        hub = self.server.hub
        if new := hub.renamed(repo_id):
            raise _Refused(307, Location=f"{hub.endpoint}{self.path.replace(repo_id, new, 1)}")
        repo = hub.repo(repo_id)
        if repo is None or (repo.private and not hub.may_read(repo_id, self._token())):
            raise _Refused(self._not_found(), "RepoNotFound", "Repository not found")
        if repo.disabled and "/resolve/" in self.path:
            raise _Refused(403, message="Access to this resource is disabled.")
        return repo

    def _sha(self, repo: Repo, revision: str) -> str:
        sha = repo.sha(revision)
        if sha is None:
            raise _Refused(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return sha

    def _split(self, rest: str) -> tuple[Any, ...]:
        revision, _, path = rest.partition("/")
        return unquote(revision), unquote(path)

    # ---- answers

    def _info(self, repo: Repo, sha: str, query: Mapping[str, list[str]]) -> None:
        facts = {
            "_id": _sha1(repo.id)[:24],
            "id": repo.id.removeprefix("spaces/"),
            "author": repo.id.removeprefix("spaces/").partition("/")[0],
            "sha": sha,
            "private": repo.private,
            "gated": repo.gated,
            "disabled": repo.disabled,
            "tags": [],
            "cardData": {},
            "siblings": [{"rfilename": path} for path in repo.commits[sha]],
        }
        asked = query.get("expand")
        self._json({k: v for k, v in facts.items() if k in ("_id", "id", *asked)} if asked else facts)

    def _tree(self, repo: Repo, revision: str, path: str, query: Mapping[str, list[str]]) -> None:
        folders = repo.folders(self._sha(repo, revision))
        if path not in folders:
            raise _Refused(404, "EntryNotFound", f"{path} does not exist on {revision!r}")
        entries = list(folders[path])
        if query.get("recursive", [""])[0].lower() == "true":
            for folder in sorted(f for f in folders if f.startswith(f"{path}/") or (not path and f)):
                entries += folders[folder]
        start, size = int(query.get("cursor", ["0"])[0]), self.server.hub.page_size
        headers = {}
        if start + size < len(entries):
            base = self.path.partition("&cursor=")[0]
            headers["Link"] = f'<{self.server.hub.endpoint}{base}&cursor={start + size}>; rel="next"'
        self._json(entries[start : start + size], **headers)

    def _paths_info(self, repo: Repo, sha: str) -> None:
        form = parse_qs(self._form)
        by_path = {entry["path"]: entry for entries in repo.folders(sha).values() for entry in entries}
        self._json([by_path[path] for path in form.get("paths", []) if path in by_path])

    def _refs(self, repo: Repo) -> None:
        def shown(names: Mapping[str, str], prefix: str) -> list[dict[str, str]]:
            return [{"name": n, "ref": f"{prefix}{n}", "targetCommit": sha} for n, sha in names.items()]

        self._json(
            {
                "branches": shown(repo.branches, "refs/heads/"),
                "converts": [],
                "tags": shown(repo.tags, "refs/tags/"),
                "pullRequests": shown(repo.pulls, ""),
            }
        )

    def _resolve(self, repo: Repo, revision: str, path: str) -> None:
        sha = self._sha(repo, revision)
        if repo.gated and not self.server.hub.may_read(repo.id, self._token()):
            status = self._not_found() if self._token() is None else 403
            raise _Refused(status, "GatedRepo", f"Access to dataset {repo.id} is restricted.")
        content = repo.commits[sha].get(path)
        if content is None:
            raise _Refused(404, "EntryNotFound", "Entry not found", X_Repo_Commit=sha)
        if repo.is_lfs(path):
            oid = hashlib.sha256(content).hexdigest()
            # Another origin, as with the real store: the client reads our headers only if it need not follow.
            location = f"{self.server.hub.endpoint.replace('127.0.0.1', 'localhost')}/lfs/{oid}"
            headers = {"X-Linked-Etag": f'"{oid}"', "X-Linked-Size": str(len(content)), "Location": location}
            self._send(302, b"", **{"X-Repo-Commit": sha}, **headers)
            return
        self._content(content, **{"X-Repo-Commit": sha, "ETag": f'"{_blob_sha(content)}"'})

    def _lfs(self, oid: str) -> None:
        if self.headers.get("Authorization"):
            raise _Refused(400, message="a token was sent to the store")
        for repo in list(self.server.hub._repos.values()):
            for contents in repo.commits.values():
                for content in contents.values():
                    if hashlib.sha256(content).hexdigest() == oid:
                        self._content(content, ETag=f'"{oid}"')
                        return
        raise _Refused(404)

    def _content(self, content: bytes, **headers: str) -> None:
        headers["Accept-Ranges"] = "bytes"
        if match := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or ""):
            start, end = int(match[1]), int(match[2] or len(content) - 1)
            headers["Content-Range"] = f"bytes {start}-{end}/{len(content)}"
            self._send(206, content[start : end + 1], **headers)
        else:
            self._send(200, content, **headers)

    def _json(self, value: Any, **headers: str) -> None:
        self._send(200, json.dumps(value).encode(), **{"Content-Type": "application/json", **headers})

    def _send(self, status: int, body: bytes, **headers: str) -> None:
        if not self.path.startswith("/api/agent-harnesses"):
            self.server.hub.record(Request(self.command, self.path, status, self._token()))
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if self._cut is not None and self._cut < len(body):
            self.wfile.write(body[: self._cut])
            self.close_connection = True
        else:
            self.wfile.write(body)


class _Answer(Exception):
    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.status)
        self.fault = fault


def _read(files: Files | Path) -> dict[str, bytes]:
    if isinstance(files, Path):
        return {
            path.relative_to(files).as_posix(): path.read_bytes()
            for path in sorted(files.rglob("*"))
            if path.is_file()
        }
    return {
        path: content.encode() if isinstance(content, str) else content for path, content in files.items()
    }


def _sha1(text: str) -> str:
    return hashlib.sha1(text.encode()).hexdigest()


def _blob_sha(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def quoted(path: str) -> str:
    """Return a path as it stands in the log's URLs."""
    return quote(path, safe="")
