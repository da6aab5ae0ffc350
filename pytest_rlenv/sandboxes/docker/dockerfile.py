"""Just enough of the Dockerfile language to know which images a build starts from."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_SCRATCH = "scratch"
_HEREDOC = re.compile(r"(?<!\S)\d*<<-?(['\"]?)([^\s<'\"]+)\1(?!\S)")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?:(:?[-+])([^}]*))?\})")
_FROM_OPTION = re.compile(r"(?:^|,)from=([^,\s]+)")
_BUILDKIT_ONLY = (
    (re.compile(r"^RUN\s+(--\S+\s+)*--mount\b", re.I), "RUN --mount"),
    (re.compile(r"^(COPY|ADD)\s+(--\S+\s+)*--chmod\b", re.I), "--chmod"),
    (re.compile(r"^(COPY|ADD)\s+(--\S+\s+)*--link\b", re.I), "--link"),
)


@dataclass
class _Stage:
    name: str
    base: str
    uses: list[str] = field(default_factory=list)


def base_images(text: str, args: Iterable[tuple[str, str]] = (), target: str = "") -> list[str]:
    """Return the images that building a Dockerfile needs, in order, without doubles.

    Stages that the built one does not lead back to are not built, so their images are not needed.
    A name that depends on a build argument without a value is left out: only the builder can tell.

    Args:
        text: the Dockerfile.
        args: build arguments.
        target: name or number of the stage that is built; the last by default, or if there is no such stage.
    """
    stages = _stages(text, dict(args))
    images: dict[str, None] = {}
    todo = [_index_of(stages, target)] if stages else []
    seen: set[int] = set()
    while todo:
        index = todo.pop(0)
        if index in seen:
            continue
        seen.add(index)
        # a name means an earlier stage if there is one; --from knows stages by number too
        earlier = {stage.name: at for at, stage in enumerate(stages[:index]) if stage.name}
        numbers = {str(at): at for at in range(index)}
        stage = stages[index]
        for reference, known in [(stage.base, earlier), *((use, numbers | earlier) for use in stage.uses)]:
            if reference.lower() in known:
                todo.append(known[reference.lower()])
            elif reference and "$" not in reference and reference.lower() != _SCRATCH:
                images[reference] = None
    return list(images)


def needs_buildkit(text: str) -> str | None:
    """Return what a Dockerfile uses that the old builder does not know, or silently gets wrong."""
    for line in instructions(text):
        if _has_heredoc(line):
            return "a heredoc (<<)"
        for pattern, name in _BUILDKIT_ONLY:
            if pattern.search(line):
                return name
    return None


def uses_heredoc(text: str) -> bool:
    """Return True if an instruction has a here-document."""
    return any(map(_has_heredoc, instructions(text)))


def instructions(text: str) -> Iterator[str]:
    """Yield each instruction as one line; comments and the bodies of here-documents are left out."""
    escape = "\\"
    lines = iter(text.lstrip("\ufeff").splitlines())
    directives = True
    for raw in lines:
        line = raw.strip()
        if directives:
            found = re.match(r"#\s*(\w+)\s*=\s*(.*)$", line)
            directives = found is not None
            if found and found[1].lower() == "escape" and found[2].strip() in ("\\", "`"):
                escape = found[2].strip()
        if not line or line.startswith("#"):
            continue
        while line.endswith(escape):
            line = line[:-1].rstrip()
            for more in lines:
                if not more.strip() or more.strip().startswith("#"):
                    continue  # an empty line or a comment within an instruction does not end it
                line = f"{line} {more.strip()}"
                break
            else:
                break
        yield line
        if _has_heredoc(line):
            for _, end in _HEREDOC.findall(line):
                for body in lines:
                    if body.strip() == end:
                        break


def _has_heredoc(line: str) -> bool:
    return bool(re.match(r"(RUN|COPY|ADD)\b", line, re.I) and _HEREDOC.search(line))


def _index_of(stages: Sequence[_Stage], target: str) -> int:
    named = {str(at): at for at in range(len(stages))} | {stage.name: at for at, stage in enumerate(stages)}
    return named.get(target.lower(), len(stages) - 1) if target else len(stages) - 1


def _stages(text: str, given: Mapping[str, str]) -> list[_Stage]:
    stages: list[_Stage] = []
    arguments: dict[str, str] = {}
    for line in instructions(text):
        word, _, rest = line.partition(" ")
        word = word.upper()
        if word == "ARG" and not stages:
            arguments.update(_defaults(rest, arguments))
            arguments.update({name: value for name, value in given.items() if _declares(rest, name)})
        elif word == "FROM":
            parts = [part for part in rest.split() if not part.startswith("--")]
            named = len(parts) >= 3 and parts[1].upper() == "AS"
            base = _substitute(parts[0].strip("\"'"), arguments) if parts else ""
            stages.append(_Stage(parts[2].lower() if named else "", base))
        elif word in ("COPY", "ADD", "RUN") and stages:
            stages[-1].uses.extend(_references(rest))
    return stages


def _declares(rest: str, name: str) -> bool:
    return any(word.partition("=")[0] == name for word in rest.split())


def _defaults(rest: str, arguments: Mapping[str, str]) -> dict[str, str]:
    try:
        words = shlex.split(rest)
    except ValueError:
        words = rest.split()
    pairs = (word.partition("=") for word in words)
    return {name: _substitute(value, arguments) for name, equals, value in pairs if equals}


def _references(rest: str) -> Iterator[str]:
    for part in rest.split():
        if not part.startswith("--"):
            return
        if part.startswith("--from="):
            yield part[len("--from=") :].strip("\"'")
        elif part.startswith("--mount="):
            yield from _FROM_OPTION.findall(part[len("--mount=") :])


def _substitute(word: str, arguments: Mapping[str, str]) -> str:
    """Fill in variables; one that is not known stays, so that the caller sees it."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        known = arguments.get(name)
        operator, other = match[3] or "", match[4] or ""
        if operator.endswith("-"):
            return known if known or (known is not None and operator == "-") else other
        if operator.endswith("+"):
            return other if known else ""
        return match[0] if known is None else known

    return _VARIABLE.sub(value, word)
