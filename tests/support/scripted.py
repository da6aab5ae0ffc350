"""A sandbox that acts out directives in the scripts instead of running them: fast, and does as it is told.

    # scripted: touch=/app/answer      (write a file)
    # scripted: reward=0.4             (write reward.txt)
    # scripted: reward-if=/app/answer  (1 if the file is there, else 0)
    # scripted: write=/app/answer text (write a file with a text)
    # scripted: reward-unless=/app/x   (0 if the file is there, else 1)
    # scripted: denied=host:443        (be refused by the box's allowlist)
    # scripted: print=text  exit=3  sleep=0.5  hang  kill-worker  count=/tmp/file
    # scripted: bad-once=/tmp/file     (reward 0 for the first that comes here, 1 for the others)
    # scripted: dies=/tmp/file 2       (the box dies under the first 2 that come here)
    # scripted: meet=/tmp/file 2       (wait until 2 scripts have come here)
    # scripted: peak=/tmp/file         (note how many boxes are up)

It obeys the sandbox protocol to the letter, so that the plugin cannot tell; what touches the world is tested
with a real engine elsewhere.
"""

from __future__ import annotations

import itertools
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from pytest_rlenv.errors import BuildFailed, SandboxFailed
from pytest_rlenv.sandboxes.model import (
    DEFAULT_OUTPUT_CAP,
    NO_NETWORK,
    PUBLIC,
    BoxSpec,
    Capabilities,
    Completed,
    Entry,
    Extracted,
    ImageRef,
    ImageSpec,
    SandboxContext,
    Stat,
)

DIRECTIVE = re.compile(r"^# scripted: (?P<name>[\w-]+)(?:=(?P<value>.*))?$", re.MULTILINE)
MEETING_LIMIT = 15.0
WORKDIR = "/app"
_numbers = itertools.count(1)


class Ran(NamedTuple):
    """A command that was run in a box."""

    argv: tuple[str, ...]
    user: str | int | None
    env: dict[str, str]
    timeout: float | None


class ScriptedBox:
    def __init__(self, up: Path) -> None:
        self.id = f"{os.getpid()}-{next(_numbers)}"
        self.files: dict[str, Entry] = {}
        self.running = True
        self.mark = up / self.id
        self.mark.parent.mkdir(parents=True, exist_ok=True)
        self.mark.touch()
        self.gone = threading.Event()
        self.ran: list[Ran] = []
        self.networks: list[tuple[str, tuple[str, ...], int]] = []
        """Each change of network, and how many commands had been run before it."""
        self.denied: dict[str, int] = {}

    def put(self, entries: Iterable[Entry], dest: str = "/") -> None:
        for entry in entries:
            name = f"/{dest}/{entry.path}".rstrip("/")
            place = "/" + "/".join(part for part in name.split("/") if part)
            if not entry.is_dir:  # a file takes the place of a folder and of all in it
                self.files = {p: e for p, e in self.files.items() if not p.startswith(f"{place}/")}
            self.files[place] = entry

    def run(
        self,
        argv: Sequence[str],
        *,
        user: str | int | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        cap: int = DEFAULT_OUTPUT_CAP,
    ) -> Completed:
        if not self.running:
            raise SandboxFailed("the box is stopped")
        self.ran.append(Ran(tuple(argv), user, dict(env or {}), timeout))
        if argv[0] == "pwd":
            return Completed(0, stdout=WORKDIR.encode() + b"\n")
        if argv[0] == "chmod":
            return Completed(0)
        if argv[0] == "rm" or "rm -rf" in " ".join(argv):
            self._remove([word for word in " ".join(argv).split() if word.startswith("/")])
            return Completed(0)
        if "# scripted:" in argv[-1]:
            return self._act(argv[-1], timeout)
        script = self.files.get(argv[-1])
        if script is None:
            return Completed(127, output=f"{argv[-1]}: not found\n".encode())
        return self._act(self._text(script), timeout)

    def set_network(self, mode: str, allowed_hosts: Iterable[str] = ()) -> None:
        if not self.running:
            raise SandboxFailed("the box is stopped")
        self.networks.append((mode, tuple(allowed_hosts), len(self.ran)))

    def take_denied(self) -> dict[str, int]:
        denied, self.denied = self.denied, {}
        return denied

    def stat(self, path: str) -> Stat | None:
        if path in self.files:
            entry = self.files[path]
            if entry.link is not None:
                return Stat("symlink", 0, 0o777, entry.link)
            size = entry.source.stat().st_size if entry.source else len(entry.content or b"")
            return Stat("directory" if entry.is_dir else "file", size, entry.mode)
        below = any(name.startswith(path + "/") for name in self.files)
        return Stat("directory", 0, 0o755) if below else None

    def get(self, path: str, *, cap: int) -> bytes:
        return self._text(self.files[path]).encode()

    def get_tree(
        self,
        path: str,
        dest: Path,
        *,
        cap: int,
        max_files: int = 10_000,
        skip: Callable[[str], bool] | None = None,
    ) -> Extracted:
        done = Extracted()
        dest.mkdir(parents=True, exist_ok=True)
        if path not in self.files and self.stat(path) is not None:
            done.entries.append(Entry(""))
        for name, entry in list(self.files.items()):
            below = name.removeprefix(path).lstrip("/") if name.startswith(path + "/") else ""
            if name == path and not entry.is_dir:
                below = name.rpartition("/")[2]
            if name == path and entry.is_dir:
                done.entries.append(replace(entry, path=""))
            parents = ["/".join(below.split("/")[:n]) for n in range(1, below.count("/") + 2)]
            if not below or (skip and any(map(skip, parents))):
                continue
            if entry.link is not None:
                done.refused.append(f"{below}: a link to {entry.link}")
                done.entries.append(replace(entry, path=below))
            elif entry.is_dir:
                (dest / below).mkdir(parents=True, exist_ok=True)
                done.entries.append(replace(entry, path=below))
            else:
                self._extract(done, entry, dest, below, cap, max_files)
        return done

    def _extract(
        self, done: Extracted, entry: Entry, dest: Path, below: str, cap: int, max_files: int
    ) -> None:
        data = self._text(entry).encode()
        if done.files >= max_files or done.bytes + len(data) > cap:
            done.over_cap = True
            done.refused.append(f"{below}: over the cap")
            return
        target = dest / below
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        done.files += 1
        done.bytes += len(data)
        done.entries.append(replace(entry, path=below, content=None, source=target))

    def quiesce(self) -> None:
        self.ran.append(Ran(("quiesce",), None, {}, None))

    def stop(self) -> None:
        self.running = False

    def destroy(self) -> None:
        self.running = False
        self.gone.set()
        self.mark.unlink(missing_ok=True)

    def _remove(self, paths: Sequence[str]) -> None:
        for name in list(self.files):
            if any(name == path or name.startswith(path + "/") for path in paths):
                del self.files[name]

    @staticmethod
    def _text(entry: Entry) -> str:
        data = entry.source.read_bytes() if entry.source else entry.content or b""
        return data.decode()

    def _act(self, text: str, timeout: float | None) -> Completed:
        output, exit_code, begin = "", 0, time.monotonic()
        for match in DIRECTIVE.finditer(text):
            name, value = match["name"], match["value"] or ""
            if name == "touch":
                self.files[value] = Entry(value, b"")
            elif name == "write":
                path, _, content = value.partition(" ")
                self.files[path] = Entry(path, content.encode())
            elif name == "reward-unless":
                self._write_reward("0" if value in self.files else "1")
            elif name == "reward":
                self._write_reward(value)
            elif name == "json":
                self.files["/logs/verifier/reward.json"] = Entry("reward.json", value.encode())
            elif name == "reward-if":
                self._write_reward("1" if value in self.files else "0")
            elif name == "bad-once":
                self._write_reward("1" if Path(value).exists() else "0")
                Path(value).touch()
            elif name == "dies":
                self._die(*value.split())
            elif name == "print":
                output += value + "\n"
            elif name == "denied":
                self.denied[value] = self.denied.get(value, 0) + 1
            elif name == "exit":
                exit_code = int(value)
            elif name == "sleep":
                self._pause(float(value))
            elif name == "hang":
                self._pause(timeout or 600)
                return Completed(None, output=output.encode(), timed_out=True)
            elif name == "kill-worker":
                os.kill(os.getpid(), signal.SIGKILL)
            elif name == "count":
                _append(Path(value), "x")
            elif name == "peak":
                _append(Path(value), str(len(list(self.mark.parent.iterdir()))))
            elif name == "meet":
                self._meet(*value.split())
            else:
                raise ValueError(f"unknown directive {name}")
        return Completed(
            exit_code,
            stdout=output.encode(),
            output=output.encode(),
            output_bytes=len(output),
            seconds=time.monotonic() - begin,
        )

    def _pause(self, seconds: float) -> None:
        if self.gone.wait(seconds):
            raise SandboxFailed("the box was destroyed meanwhile")

    def _meet(self, place: str, number: str) -> None:
        _append(Path(place), "x")
        give_up = time.monotonic() + MEETING_LIMIT
        while len(Path(place).read_text().splitlines()) < int(number):
            self._pause(0.01)
            if time.monotonic() > give_up:
                raise SandboxFailed(f"fewer than {number} have come to {place}")

    def _die(self, place: str, times: str = "1") -> None:
        _append(Path(place), "x")
        if len(Path(place).read_text().splitlines()) <= int(times):
            self.stop()
            raise SandboxFailed("the box died, as it was told")

    def _write_reward(self, value: str) -> None:
        self.files["/logs/verifier/reward.txt"] = Entry("reward.txt", value.encode())


class ScriptedSandbox:
    name = "scripted"
    capabilities = Capabilities(
        network_modes=frozenset({PUBLIC, NO_NETWORK}), builds_images=True, users=True, cpus=2, memory_mb=8192
    )

    def __init__(self, context: SandboxContext) -> None:
        self.context = context
        self.started: list[tuple[ImageRef, BoxSpec]] = []
        self.up = Path(os.environ.get("SCRIPTED_DIR", context.run_dir)) / "up"
        self.boxes: list[ScriptedBox] = []
        self.closed = False
        self.lock = threading.Lock()

    def describe(self) -> str:
        return "scripted 1"

    def check(self) -> None:
        pass

    def prepare(self, image: ImageSpec, *, timeout: float | None = None) -> ImageRef:
        if image.context and "build-fails" in (image.context / "Dockerfile").read_text():
            raise BuildFailed("image build failed at RUN build-fails", detail="sh: 1: build-fails: not found")
        return ImageRef(image.name or f"rlenv/{image.slug}", "sha256:0")

    def start(self, image: ImageRef, spec: BoxSpec, entries: Iterable[Entry] = ()) -> ScriptedBox:
        with self.lock:
            if self.closed:
                raise SandboxFailed("the sandbox was closed")
            box = ScriptedBox(self.up)
            self.boxes.append(box)
            self.started.append((image, spec))
        box.put(entries)
        return box

    def close(self) -> None:
        with self.lock:
            self.closed = True
        for box in self.boxes:
            box.destroy()


def _append(file: Path, line: str) -> None:
    with file.open("a") as opened:
        opened.write(f"{line}\n")
