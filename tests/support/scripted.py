"""A sandbox that acts out directives in the scripts instead of running them: fast, and does as it is told.

    # scripted: touch=/app/answer      (write a file)
    # scripted: reward=0.4             (write reward.txt)
    # scripted: reward-if=/app/answer  (1 if the file is there, else 0)
    # scripted: print=text  exit=3  sleep=0.5  hang  kill-worker  count=/tmp/file

It obeys the sandbox protocol to the letter, so that the plugin cannot tell; what touches the world is tested
with a real engine elsewhere.
"""

from __future__ import annotations

import itertools
import os
import re
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pytest_rlenv.errors import BuildFailed, SandboxFailed
from pytest_rlenv.sandboxes.protocol import (
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
_numbers = itertools.count(1)


class ScriptedBox:
    def __init__(self, up: Path) -> None:
        self.id = f"{os.getpid()}-{next(_numbers)}"
        self.files: dict[str, Entry] = {}
        self.running = True
        self.mark = up / self.id
        self.mark.parent.mkdir(parents=True, exist_ok=True)
        self.mark.touch()

    def put(self, entries: Iterable[Entry], dest: str = "/") -> None:
        for entry in entries:
            self.files[f"{dest.rstrip('/')}/{entry.path}"] = entry

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
        if "rm -rf" in argv[-1]:
            self._remove(argv[-1].split()[2:])
            return Completed(0)
        script = self.files.get(argv[-1])
        if script is None:
            return Completed(127, output=f"{argv[-1]}: not found\n".encode())
        return self._act(self._text(script), timeout)

    def stat(self, path: str) -> Stat | None:
        if path in self.files:
            entry = self.files[path]
            return Stat("directory" if entry.is_dir else "file", len(entry.content or b""), entry.mode)
        below = any(name.startswith(path + "/") for name in self.files)
        return Stat("directory", 0, 0o755) if below else None

    def get(self, path: str, *, cap: int) -> bytes:
        return self.files[path].content or b""

    def get_tree(self, path: str, dest: Path, *, cap: int, max_files: int = 10_000) -> Extracted:
        done = Extracted()
        for name, entry in self.files.items():
            if name.startswith(path + "/") and not entry.is_dir:
                target = dest / name[len(path) + 1 :]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(self._text(entry).encode())
                done.files += 1
        return done

    def quiesce(self) -> None:
        pass

    def stop(self) -> None:
        self.running = False

    def destroy(self) -> None:
        self.running = False
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
            elif name == "reward":
                self._write_reward(value)
            elif name == "json":
                self.files["/logs/verifier/reward.json"] = Entry("reward.json", value.encode())
            elif name == "reward-if":
                self._write_reward("1" if value in self.files else "0")
            elif name == "print":
                output += value + "\n"
            elif name == "exit":
                exit_code = int(value)
            elif name == "sleep":
                time.sleep(float(value))
            elif name == "hang":
                time.sleep(timeout or 600)
                return Completed(None, output=output.encode(), timed_out=True)
            elif name == "kill-worker":
                os.kill(os.getpid(), signal.SIGKILL)
            elif name == "count":
                with Path(value).open("a") as file:
                    file.write("x\n")
            else:
                raise ValueError(f"unknown directive {name}")
        return Completed(
            exit_code,
            stdout=output.encode(),
            output=output.encode(),
            output_bytes=len(output),
            seconds=time.monotonic() - begin,
        )

    def _write_reward(self, value: str) -> None:
        self.files["/logs/verifier/reward.txt"] = Entry("reward.txt", value.encode())


class ScriptedSandbox:
    name = "scripted"
    capabilities = Capabilities(
        network_modes=frozenset({PUBLIC, NO_NETWORK}), builds_images=True, users=True, cpus=2, memory_mb=8192
    )

    def __init__(self, context: SandboxContext) -> None:
        self.context = context
        self.up = Path(os.environ.get("SCRIPTED_DIR", context.run_dir)) / "up"

    def describe(self) -> str:
        return "scripted 1"

    def check(self) -> None:
        pass

    def prepare(self, image: ImageSpec, *, timeout: float | None = None) -> ImageRef:
        if image.context and "build-fails" in (image.context / "Dockerfile").read_text():
            raise BuildFailed("image build failed at RUN build-fails", detail="sh: 1: build-fails: not found")
        return ImageRef(image.name or f"rlenv/{image.slug}", "sha256:0")

    def start(self, image: ImageRef, spec: BoxSpec, entries: Iterable[Entry] = ()) -> ScriptedBox:
        box = ScriptedBox(self.up)
        box.put(entries)
        return box

    def close(self) -> None:
        pass
