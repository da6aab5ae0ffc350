"""A Dockerfile that runs nothing, as what it does to a box: files, environment, working directory.

Over this machine's userland there is no image to start from, so only what does not depend on one is
done. Everything else is refused by naming the instruction: a box that differs from the task's image must
not look like it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from pytest_rlenv.errors import BuildFailed, Unsupported
from pytest_rlenv.sandboxes.build_context import DOCKERFILE, BuildContext
from pytest_rlenv.sandboxes.local.copying import CopyProblem, SourceMissing, planned
from pytest_rlenv.sandboxes.local.imageconfig import DEFAULT_PATH, ImageConfig
from pytest_rlenv.sandboxes.local.instructions import Instruction, assignments, expand, parse, split, words
from pytest_rlenv.sandboxes.model import Entry

_IGNORED = ("LABEL", "EXPOSE", "CMD", "MAINTAINER", "STOPSIGNAL")
MODE = "the local sandbox over this machine's userland"
BUILT_OTHERWISE = "its image is built with arguments, a target or another Dockerfile"
_ROOT_USERS = ("root", "0", "root:root", "0:0")
_COPY_OPTIONS = ("chmod", "chown", "link")


@dataclass(frozen=True)
class Recipe:
    """What to put into a box over this machine's userland.

    Attributes:
        base: the image that the Dockerfile names, which is not used.
        config: environment and working directory.
        entries: the files, with absolute paths.
        digest: names all of it.
    """

    base: str
    config: ImageConfig
    entries: tuple[Entry, ...]
    digest: str


@dataclass
class _Reading:
    """What the instructions read so far have come to."""

    base: str = ""
    env: dict[str, str] = field(default_factory=lambda: {"PATH": DEFAULT_PATH})
    arguments: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"
    entries: list[Entry] = field(default_factory=list)


class RecipeReader:
    """Reads one Dockerfile.

    Args:
        context: the folder that it is in.
        writable: tells whether a box can have a file at an absolute path.
    """

    def __init__(self, context: BuildContext, writable: Callable[[str], bool]) -> None:
        self._context = context
        self._writable = writable
        self._state = _Reading()

    def read(self) -> Recipe:
        """Return the recipe.

        Raises:
            Unsupported: an instruction needs an image; named with its line.
            BuildFailed: one copies a file that is not there.
            TaskInvalid: a file of the context cannot be read.
        """
        self.follow()
        state = self._state
        config = ImageConfig(env=state.env, workdir=state.workdir)
        return Recipe(state.base, config, tuple(state.entries), self._digest(config))

    def follow(self) -> None:
        """Go through the instructions, without reading the files that they copy.

        Raises:
            Unsupported, BuildFailed, TaskInvalid: as for :meth:`read`.
        """
        for instruction in parse(self._context.dockerfile):
            self._take(instruction)
        if not self._state.base:
            raise Unsupported(f"{self._name()}: there is no FROM")

    def _take(self, instruction: Instruction) -> None:
        word = instruction.word
        known: Mapping[str, Callable[[Instruction], None]] = {
            "FROM": self._from,
            "ARG": self._arg,
            "ENV": self._env,
            "WORKDIR": self._workdir,
            "USER": self._user,
            "COPY": self._copy,
            "ADD": self._copy,
            "HEALTHCHECK": self._healthcheck,
        }
        if word in _IGNORED:
            return
        if not self._state.base and word not in ("FROM", "ARG"):
            raise self._refuse(instruction, "comes before FROM")
        if word not in known:
            raise self._refuse(instruction, f"{MODE} runs no {word}")
        try:
            known[word](instruction)
        except SourceMissing as missing:
            where = f"{self._name()} line {instruction.line}: {instruction}"
            raise BuildFailed(f"{where}: {missing}", hint="add the file to the task") from missing
        except (ValueError, CopyProblem) as problem:
            raise self._refuse(instruction, str(problem)) from problem

    def _from(self, instruction: Instruction) -> None:
        if self._state.base:
            raise self._refuse(instruction, f"{MODE} has no build stages")
        _, rest = instruction.options()
        base = expand(rest.split()[0] if rest else "", self._state.arguments)
        if base in ("", "scratch"):
            raise self._refuse(instruction, f"{MODE} is no empty image")
        self._state.base = base
        self._state.arguments = {}  # those before FROM are not seen after it

    def _arg(self, instruction: Instruction) -> None:
        for word in split(instruction.rest):
            name, equals, value = word.partition("=")
            if equals:
                self._state.arguments[name] = self._fill(value)

    def _env(self, instruction: Instruction) -> None:
        # all values of one instruction see the environment from before it
        pairs = [(name, self._fill(value)) for name, value in assignments(instruction.rest)]
        self._state.env.update(pairs)

    def _workdir(self, instruction: Instruction) -> None:
        path = self._absolute(self._fill(instruction.rest))
        self._state.workdir = path
        self._add(instruction, Entry(path, mode=0o755))

    def _user(self, instruction: Instruction) -> None:
        user = self._fill(instruction.rest)
        if user not in _ROOT_USERS:
            raise self._refuse(instruction, f"{MODE} has no users of an image")

    def _healthcheck(self, instruction: Instruction) -> None:
        if instruction.rest.upper() != "NONE":
            raise self._refuse(instruction, f"{MODE} runs no HEALTHCHECK")

    def _copy(self, instruction: Instruction) -> None:
        options, rest = instruction.options()
        unknown = sorted(set(options) - set(_COPY_OPTIONS))
        if unknown:
            raise self._refuse(instruction, f"{MODE} does not know --{unknown[0]}")
        if options.get("chown", "root") not in _ROOT_USERS:
            raise self._refuse(instruction, f"{MODE} keeps no other owner than root")
        if "<<" in rest:
            raise self._refuse(instruction, f"{MODE} reads no here-documents")
        mode = int(options["chmod"], 8) if "chmod" in options else None
        found = [self._fill(word) for word in words(rest)]
        if len(found) < 2:
            raise self._refuse(instruction, "it needs a source and a destination")
        *sources, dest = found
        as_folder = dest.endswith(("/", "/.")) or dest == "."
        target = self._absolute(dest)
        entries = planned(
            self._context,
            sources,
            target.rstrip("/") + "/" if as_folder else target,
            mode=mode,
            unpacks=instruction.word == "ADD",
        )
        for entry in entries:
            self._add(instruction, entry)

    def _add(self, instruction: Instruction, entry: Entry) -> None:
        if not self._writable(entry.path):
            raise self._refuse(
                instruction, f"{entry.path} belongs to this machine and is read-only in {MODE}"
            )
        self._state.entries.append(entry)

    def _absolute(self, path: str) -> str:
        joined = PurePosixPath(self._state.workdir, path)
        parts: list[str] = []
        for part in joined.parts[1:]:
            if part == "..":
                parts[-1:] = []
            else:
                parts.append(part)
        return "/" + "/".join(parts)

    def _fill(self, text: str) -> str:
        return expand(text, {**self._state.arguments, **self._state.env})

    def _refuse(self, instruction: Instruction, reason: str) -> Unsupported:
        return Unsupported(f"{self._name()} line {instruction.line}: {instruction}: {reason}")

    def _name(self) -> str:
        return f"{self._context.root.name}/{DOCKERFILE}"

    def _digest(self, config: ImageConfig) -> str:
        described = json.dumps(config.as_json(), sort_keys=True)
        return hashlib.sha256(f"{described}\0{self._context.digest()}".encode()).hexdigest()


def read_recipe(folder: Path, writable: Callable[[str], bool]) -> Recipe:
    """Return what an image-free Dockerfile does; see :class:`RecipeReader`.

    Raises:
        Unsupported: it is not image-free. BuildFailed: no builder could follow it.
        TaskInvalid: there is no Dockerfile, or it cannot be read.
    """
    return RecipeReader(BuildContext.read(folder), writable).read()


def check_recipe(folder: Path, writable: Callable[[str], bool]) -> None:
    """See that a Dockerfile is image-free, at a fraction of the cost of :func:`read_recipe`.

    Raises:
        Unsupported, BuildFailed, TaskInvalid: as for :func:`read_recipe`.
    """
    RecipeReader(BuildContext.read(folder), writable).follow()
