"""Running ``docker compose``: at our engine, within a time limit, and with its own words for what failed."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_rlenv.sandboxes.docker.endpoint import Endpoint

_LOG_LINE = re.compile(r'^time="[^"]*" level=\w+ msg="(?P<message>.*)"$')
_OWN = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH")
_DECIDED = ("COMPOSE_FILE", "COMPOSE_PROJECT_NAME", "COMPOSE_PATH_SEPARATOR")


@dataclass(frozen=True)
class Answer:
    """How a call ended.

    Attributes:
        exit_code: ``None`` if it was ended at its time limit.
        stdout: what it printed.
        stderr: what it said, without the decoration of a log.
    """

    exit_code: int | None
    stdout: str
    stderr: str

    @property
    def complaint(self) -> str:
        """The last line of what it said, which is the reason of a failure."""
        lines = [line for line in self.stderr.splitlines() if line.strip()]
        return lines[-1].strip() if lines else f"it ended with exit code {self.exit_code} and no word"


def run_compose(
    program: Path,
    arguments: Sequence[str | Path],
    *,
    environ: Mapping[str, str],
    folder: Path,
    timeout: float | None,
) -> Answer:
    """Run the program to its end.

    Args:
        program: ``docker compose`` as a program of its own.
        arguments: what follows its name.
        environ: all that it sees of variables, but for those that say which files and project it is about.
        folder: where it runs.
        timeout: seconds; ``None`` is no limit.
    """
    variables = {name: value for name, value in environ.items() if name not in _DECIDED}
    try:
        done = subprocess.run(
            [program, *arguments],
            env=variables | {"COMPOSE_ANSI": "never", "COMPOSE_PROGRESS": "quiet"},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        return Answer(None, "", _plain(_text(expired.stderr)))
    return Answer(done.returncode, done.stdout, _plain(done.stderr))


def at_engine(endpoint: Endpoint, scratch: Path, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables with which ``docker compose`` uses our engine, whatever the user's say.

    Args:
        endpoint: the engine.
        scratch: a folder for what it needs beside them, which must stay while it runs.
        environ: the user's.
    """
    environ = os.environ if environ is None else environ
    found = {name: value for name, value in environ.items() if name not in _OWN}
    found["DOCKER_HOST"] = endpoint.url
    if endpoint.tls is not None:
        certificates = scratch / "certificates"
        certificates.mkdir()
        for name, path in (
            ("ca.pem", endpoint.tls.ca),
            ("cert.pem", endpoint.tls.cert),
            ("key.pem", endpoint.tls.key),
        ):
            if path:
                (certificates / name).symlink_to(path)
        found["DOCKER_CERT_PATH"] = str(certificates)
        found["DOCKER_TLS_VERIFY" if endpoint.tls.verify else "DOCKER_TLS"] = "1"
    return found


def _plain(text: str) -> str:
    lines = []
    for line in text.splitlines():
        match = _LOG_LINE.match(line.strip())
        lines.append(match["message"].replace('\\"', '"') if match else line)
    return "\n".join(lines)


def _text(data: bytes | str | None) -> str:
    return data.decode("utf-8", "replace") if isinstance(data, bytes) else data or ""
