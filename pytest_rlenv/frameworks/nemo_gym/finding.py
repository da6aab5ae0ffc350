"""Finds rows of NeMo Gym in an environment's JSONL files, without the package."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from pytest_rlenv.environments.discovery import task_id
from pytest_rlenv.environments.finders import Finding, Place
from pytest_rlenv.environments.layouts import NEMO_GYM
from pytest_rlenv.environments.model import TaskRef
from pytest_rlenv.errors import FetchFailed, SpecError
from pytest_rlenv.frameworks.nemo_gym.index import find_python
from pytest_rlenv.frameworks.nemo_gym.oracles import check_named
from pytest_rlenv.frameworks.nemo_gym.rows import REQUEST, RowPlace, holds_rows, scan
from pytest_rlenv.settings import Settings

SERVERS = "resources_servers"
"""The folder of an environment that holds servers, as NeMo Gym's own does."""
_SUFFIX = ".jsonl"
_PACKED = (".jsonl.gz", ".jsonl.zst", ".jsonl.bz2", ".jsonl.xz")
_WRITTEN = ("rollouts", "materialized", "failures", "metrics", "profiling")
"""Words in the names of files that NeMo Gym itself writes beside rows."""
_DEEPEST = 3
"""Folders down that files of rows are looked for, where nobody asked for this framework."""
_SHOWN = 3


class NemoGymFinder:
    """Finds the rows of NeMo Gym.

    Args:
        settings: of the run.
    """

    framework = NEMO_GYM
    looks_for = f"JSONL rows with {REQUEST} (NeMo Gym)"

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def find(self, place: Place, *, asked: bool) -> Finding:
        """Return the rows in a place; the first lines of a file say whether it holds rows.

        Raises:
            SpecError: the Hub refuses to give the files; or what options name for such rows is not there.
        """
        tagged = NEMO_GYM in place.tags
        files = _candidates(place, everywhere=asked or tagged)
        if place.repo_id is not None and not (asked or tagged):
            return Finding()  # files of the Hub are not fetched for a guess
        if files:
            _bring(place, files)
        rows = [file for file in files if holds_rows(place.root / file)]
        if rows:
            find_python(self._settings.nemo_python)
            check_named(self._settings.nemo_oracle)
            return Finding(_tasks(place, rows))
        return Finding(reason=_reason(place, files, asked=asked) if asked or tagged else "")


def _candidates(place: Place, *, everywhere: bool) -> list[str]:
    prefix = f"{place.base}/" if place.base else ""
    return [
        path
        for path in place.files
        if path.endswith(_SUFFIX)
        and not any(word in path.rpartition("/")[2] for word in _WRITTEN)
        and (everywhere or path[len(prefix) :].count("/") <= _DEEPEST)
    ]


def _bring(place: Place, files: Sequence[str]) -> None:
    own = [path for path in place.files if SERVERS in path.split("/")[:-1]]
    try:
        place.bring(list(dict.fromkeys([*files, *own])))
    except FetchFailed as error:
        raise SpecError(f"{place.title}: {error.message}", hint=error.hint) from error


def _tasks(place: Place, files: Sequence[str]) -> tuple[TaskRef, ...]:
    splits = _splits(files)
    tasks: list[TaskRef] = []
    for file in files:
        try:
            rows = list(scan(place.root / file, file))
        except OSError as error:
            raise SpecError(f"cannot read {place.root / file}: {error.strerror}") from error
        names = _apart([f"{splits[file]}/{row.name or f'row-{row.index}'}" for row in rows])
        tasks.extend(
            _task(place, file, splits[file], row, name) for row, name in zip(rows, names, strict=True)
        )
    return tuple(tasks)


def _task(place: Place, file: str, split: str, row: RowPlace, name: str) -> TaskRef:
    data: dict[str, object] = {"file": file, "line": row.line, "offset": row.offset}
    if row.agent is not None:
        data["agent"] = row.agent
    elif place.repo_id is not None:
        data["repo"] = place.repo_id
    return TaskRef(
        task_id(name),
        ".",
        NEMO_GYM,
        row.problem,
        tags=(split.rpartition("/")[2],),
        attributes=dict(row.labels),
        data=data,
    )


def _splits(files: Sequence[str]) -> dict[str, str]:
    """Return what each file is called in ids: its name, or its path where two have the same name."""
    stems = {file: Path(file).stem for file in files}
    uses = Counter(stems.values())
    return {file: stem if uses[stem] == 1 else file.removesuffix(_SUFFIX) for file, stem in stems.items()}


def _apart(names: Iterable[str]) -> list[str]:
    """Give names that come again a number, so that all differ."""
    seen: Counter[str] = Counter()
    taken: set[str] = set()
    apart = []
    for name in names:
        seen[name] += 1
        different = name if seen[name] == 1 else f"{name}#{seen[name]}"
        while different in taken:
            different += "#"
        taken.add(different)
        apart.append(different)
    return apart


def _reason(place: Place, files: Sequence[str], *, asked: bool) -> str:
    why = "--rlenv-framework asks for nemo-gym" if asked else f"the card of {place.name} says nemo-gym"
    packed = next((path for path in place.files if path.endswith(_PACKED)), None)
    if not files and packed is not None:
        return f"{why}, but {packed} is packed, which NeMo Gym does not read either: unpack it"
    if not files:
        return f"{why}, but there is no {_SUFFIX} file of rows: name the folder or repository that has them"
    shown = ", ".join(files[:_SHOWN]) + (" ..." if len(files) > _SHOWN else "")
    return (
        f"{why}, but none of the first lines of its {_SUFFIX} files ({shown}) is an object with {REQUEST}: "
        "rows that need a prompt are made whole by `gym dataset render`"
    )
