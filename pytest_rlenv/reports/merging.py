"""Several runs made one again, such as the shards of one: results, logs, JUnit, and a job of Harbor's."""

from __future__ import annotations

import json
import shutil
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pytest_rlenv._version import __version__
from pytest_rlenv.errors import SpecError
from pytest_rlenv.reports.harbor_job import HarborJob, leave_trial
from pytest_rlenv.reports.junit_file import JUNIT, write_junit
from pytest_rlenv.reports.stored import FACTS, RESULTS, StoredRun
from pytest_rlenv.rollout import SCHEMA_VERSION
from pytest_rlenv.run_folder import ROLLOUTS

SHOWN = 3
"""Tests that a message names."""

Record = dict[str, Any]


class Part(NamedTuple):
    """A run that goes into another, by the name that people know it by."""

    name: str
    run: StoredRun


@dataclass(frozen=True)
class Merged:
    """What came of it.

    Attributes:
        folder: the run's.
        verdicts: how many rollouts of each.
        warnings: what makes it less than one run, in a line each.
    """

    folder: Path
    verdicts: Counter[str]
    warnings: tuple[str, ...]


def merge_runs(parts: Sequence[Part], output: Path) -> Merged:
    """Write a run's folder of the rollouts of several runs, which stay as they are.

    Args:
        parts: the runs.
        output: the folder to make; it appears when all of it is there.

    Raises:
        SpecError: a test is in more than one run, the folder holds something, or it cannot be written.
    """
    _refuse_twice(parts)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise SpecError(f"--output {output}: there is something already", hint="choose a folder that is new")
    partial = output.with_name(f".{output.name}.part")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        (partial / ROLLOUTS).mkdir(parents=True)
        records = [
            _brought(record, part.run.folder, partial) for part in parts for record in part.run.records
        ]
        _write(partial, parts, records)
        if output.exists():
            output.rmdir()
        partial.rename(output)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        where = error.filename or output
        raise SpecError(f"--output {output} cannot be written: {error.strerror}: {where}") from error
    return Merged(output, Counter(each["verdict"] for each in records), tuple(_warnings(parts)))


def _refuse_twice(parts: Sequence[Part]) -> None:
    first: dict[str, str] = {}
    twice: list[str] = []
    for part in parts:
        for node in (str(record["node"]) for record in part.run.records):
            if node in first:
                twice.append(f"{node} is in {first[node]} and in {part.name}")
            first.setdefault(node, part.name)
    if not twice:
        return
    more = f", and {len(twice) - SHOWN} more" if len(twice) > SHOWN else ""
    raise SpecError(
        f"the same test is in more than one run: {'; '.join(twice[:SHOWN])}{more}",
        hint="merge the shards of one run; of a run that was repeated give the one that counts",
    )


def _brought(record: Record, source: Path | None, target: Path) -> Record:
    """Copy a rollout's logs, and return its record with where they are now."""
    moved: dict[str, str] = {}
    tries = record.get("tries") or []
    for logs in (record.get("logs"), *(each.get("logs") for each in tries)):
        if logs and source is not None and (brought := _copy_logs(source, logs, target)):
            moved[logs] = brought
    found = {**record, "logs": moved.get(record.get("logs") or "")}
    if tries:
        found["tries"] = [{**each, "logs": moved.get(each.get("logs") or "")} for each in tries]
    if record.get("trajectories"):
        found["trajectories"] = [
            f"{new}/{Path(path).relative_to(old).as_posix()}"
            for path in record["trajectories"]
            for old, new in moved.items()
            if Path(path).is_relative_to(old)
        ]
    if found["logs"]:
        leave_trial(target / found["logs"], found, str(record.get("run") or ""))
    return found


def _copy_logs(source: Path, logs: str, target: Path) -> str | None:
    """Copy a folder of logs, and return its place in the new run; ``None`` if it is not there."""
    folder = (source / logs).resolve()
    if not folder.is_dir() or not folder.is_relative_to((source / ROLLOUTS).resolve()):
        return None
    name, number = folder.name, 1
    while (target / ROLLOUTS / name).exists():
        number += 1
        name = f"{folder.name}-{number}"
    shutil.copytree(folder, target / ROLLOUTS / name, symlinks=True)
    return f"{ROLLOUTS}/{name}"


def _write(folder: Path, parts: Sequence[Part], records: Sequence[Record]) -> None:
    facts = _facts(parts)
    lines = (json.dumps(each, ensure_ascii=False, allow_nan=False) + "\n" for each in records)
    (folder / RESULTS).write_text("".join(lines), encoding="utf-8")
    (folder / FACTS).write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    write_junit(folder / JUNIT, records, run_dir=folder, scratch=folder)
    agents = sorted({str(each["agent"]) for each in records})
    job = HarborJob(folder / ROLLOUTS, facts["run"], agents, facts["settings"].get("model"))
    job.begin()
    for each in records:
        job.add(each)
    job.finish()


def _facts(parts: Sequence[Part]) -> dict[str, Any]:
    """Return the facts of the whole: what the runs share is the first one's."""
    all_facts = [part.run.facts for part in parts]
    ends = [str(facts["finished_at"]) for facts in all_facts if facts.get("finished_at")]
    codes = [int(facts["exit_code"]) for facts in all_facts if facts.get("exit_code") is not None]
    environments: dict[str, Any] = {}
    for facts in all_facts:
        for each in facts.get("environments") or ():
            environments.setdefault(each["name"], each)
    first = next(filter(None, all_facts), {})
    return {
        "schema_version": SCHEMA_VERSION,
        "run": uuid.uuid4().hex[:12],
        "started_at": min(filter(None, (facts.get("started_at") for facts in all_facts)), default=None),
        "finished_at": max(ends) if len(ends) == len(parts) else None,
        "exit_code": max(codes) if len(codes) == len(parts) else None,
        "pytest_rlenv": __version__,
        "settings": {**(first.get("settings") or {}), "shard": None},
        "machine": first.get("machine") or {},
        "sandbox": ", ".join(sorted({facts["sandbox"] for facts in all_facts if facts.get("sandbox")}))
        or None,
        "environments": list(environments.values()),
        "merged_from": [_part_facts(part) for part in parts],
    }


def _part_facts(part: Part) -> dict[str, Any]:
    facts = part.run.facts
    kept = ("run", "started_at", "finished_at", "exit_code", "pytest_rlenv", "machine", "sandbox")
    return {
        "path": part.name,
        "rollouts": len(part.run.records),
        "shard": _shard(facts),
        **{name: facts.get(name) for name in kept},
    }


def _warnings(parts: Sequence[Part]) -> Iterator[str]:
    for part in parts:
        yield from part.run.problems
        if part.run.facts and not part.run.facts.get("finished_at"):
            yield f"{part.name} did not come to its end"
    yield from _missing_shards([shard for part in parts if (shard := _shard(part.run.facts))])
    revisions: dict[str, dict[str, str]] = {}
    conditions: dict[str, str] = {}
    for part in parts:
        for record in part.run.records:
            if record.get("revision"):
                revisions.setdefault(record["environment"], {}).setdefault(record["revision"], part.name)
            conditions.setdefault(json.dumps(record.get("conditions") or {}, sort_keys=True), part.name)
    for environment, found in revisions.items():
        if len(found) > 1:
            each = ", ".join(f"{revision[:12]} in {name}" for revision, name in found.items())
            yield f"{environment} is not of one commit: {each}; name one with @revision"
    if len(conditions) > 1:
        yield f"rollouts were not all run in one way, see {' and '.join(sorted(set(conditions.values())))}"


def _missing_shards(shards: Sequence[str]) -> Iterator[str]:
    given: dict[str, set[int]] = {}
    for shard in shards:
        number, _, of = shard.partition("/")
        given.setdefault(of, set()).add(int(number))
    for of, numbers in given.items():
        missing = sorted(set(range(1, int(of) + 1)) - numbers)
        if missing:
            yield f"not all shards are there: {', '.join(f'{number}/{of}' for number in missing)} missing"


def _shard(facts: Mapping[str, Any]) -> str | None:
    shard = (facts.get("settings") or {}).get("shard")
    return shard if isinstance(shard, str) and shard.replace("/", "", 1).isdecimal() else None
