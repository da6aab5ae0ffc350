"""What a machine has of sandboxes, as its files say: who asks for Docker or local boxes is noted, and told.

With a file ``no-docker`` or ``no-local-host`` in ``MACHINE_DIR`` there is none. Boxes are scripted ones.
"""

from __future__ import annotations

import os
from pathlib import Path

from support.scripted import ScriptedSandbox

from pytest_rlenv.errors import EngineUnavailable
from pytest_rlenv.sandboxes.model import SandboxContext


class _Asked(ScriptedSandbox):
    word: str

    def __init__(self, context: SandboxContext) -> None:
        super().__init__(context)
        self.here = Path(os.environ["MACHINE_DIR"])

    def check(self) -> None:
        with (self.here / "asked").open("a") as file:
            print(self.context.worker, self.word, file=file)
        if (self.here / f"no-{self.word}").exists():
            raise EngineUnavailable(f"no {self.word} here", hint=f"get {self.word}")

    def describe(self) -> str:
        return f"{self.name} for tests"


class Docker(_Asked):
    word = name = "docker"


class Host(_Asked):
    word = "local-host"
    name = "local (host userland)"
