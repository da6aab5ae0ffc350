"""How the user configures a taskset, and the field of its configuration that takes an environment's files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pytest_rlenv.environments.finders import Place
from pytest_rlenv.errors import SpecError

FOLDER_FIELDS = (
    *("data_dir", "data_path", "dataset_path", "dataset_dir", "local_path", "snapshot", "path", "data_files"),
    *("root", "folder"),
)
"""Names of fields that take a folder of data, the plainest first."""
NAME_FIELDS = ("dataset_name", "dataset", "dataset_id", "repo_id", "hf_dataset", "repo")
"""Names of fields that take what ``datasets.load_dataset`` does: a repository, or a folder."""
REVISION_FIELDS = ("revision", "dataset_revision", "commit", "ref")


class Given(NamedTuple):
    """How a taskset is given the data of an environment.

    Attributes:
        options: for its configuration.
        words: which data that is, for the record; empty where there is nothing to tell.
        files: True if the environment's files must be on this machine for that.
    """

    options: dict[str, Any]
    words: str
    files: bool = False


def user_options(pairs: Sequence[str]) -> dict[str, Any]:
    """Return the user's ``KEY=VALUE`` as a configuration.

    Raises:
        SpecError: a key is both a value and a table.
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        key, _, text = pair.partition("=")
        *parents, last = key.split(".")
        table = found
        for parent in parents:
            table = table.setdefault(parent, {})
            if not isinstance(table, dict):
                raise SpecError(f"--rlenv-taskset-option {pair}: {parent} has a value already")
        table[last] = _value(text)
    return found


def give_data(fields: Mapping[str, Any], place: Place, options: Mapping[str, Any]) -> Given:
    """Return how a taskset gets the data of an environment.

    Args:
        fields: what its configuration has, by name, each with ``text``: whether it takes a text or a path.
        place: the environment.
        options: what the user set; that stays.
    """
    if place.taskset is not None:
        return Given({}, "")
    free = [name for name, field in fields.items() if field["text"] and name not in options]
    folder = next((name for name in FOLDER_FIELDS if name in free), None)
    if folder is not None:
        return Given({folder: str(_root(place))}, f"{place.title}, as {folder}", files=True)
    name = next((name for name in NAME_FIELDS if name in free), None)
    revision = next((name for name in REVISION_FIELDS if name in free), None)
    if name is not None and place.repo_id is not None and revision is not None:
        given = {name: place.repo_id, revision: place.revision}
        return Given(given, f"{place.title}, as {name} and {revision}")
    if name is not None:
        return Given({name: str(_root(place))}, f"{place.title}, as {name}", files=True)
    return Given({}, f"its own: no field of its configuration takes the files of {place.title}")


def _root(place: Place) -> Any:
    return place.root / place.base if place.base else place.root


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
