"""Which resources server judges a row: the user's word, the row's, its file's, or its repository's."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_rlenv.errors import SpecError, Stage, TaskInvalid
from pytest_rlenv.frameworks.nemo_gym.index import INSTALL, OPTION, Index

SERVER_OPTION = "--rlenv-nemo-server"
ALIASES = {"turing_vif_simple_agent": "verifif"}
"""Agents that rows on the Hub name and no release of NeMo Gym has, by what they are called now."""
APP = "app.py"
_NAME_IT = f"name the server with {SERVER_OPTION} NAME, or a running one with --rlenv-nemo-url"
_NEAR = 6
_RAY = re.compile(r"^\s*(import|from) ray\b", re.MULTILINE)
_RUNS_CODE = frozenset(
    {
        "bigcodebench",
        "bird_sql",
        "code_fim",
        "code_gen",
        "competitive_coding_challenges",
        "evalplus",
        "math_with_code",
        "newton_bench",
        "nvarc",
        "scicode",
        "spider2_lite",
    }
)
"""Servers that run what a model wrote as a process of their own, with nothing around it."""
_JUDGES_LAST = frozenset({"physics_judge", "terminus_judge", "ugphysics_judge"})
"""Servers that ask their judge only where a rule does not settle it, and break where there is none to ask."""


@dataclass(frozen=True)
class ServerSpec:
    """A server that can be started.

    Attributes:
        name: the folder's name, such as ``mcqa``, which oracles go by.
        instance: what its config calls it.
        folder: where its code is.
        config: its YAML config; ``None`` for one that has none.
        entry: the program in its folder.
        judges: models that it asks to judge.
        trusted: False for code that comes with the environment.
        agent_kind: the kind of agent that its rows are made for.
        max_steps: answers that NeMo Gym gives a model there.
    """

    name: str
    instance: str
    folder: Path
    config: Path | None = None
    entry: str = APP
    judges: tuple[str, ...] = ()
    trusted: bool = True
    agent_kind: str | None = None
    max_steps: int | None = None

    @property
    def on_nemo_gym(self) -> bool:
        """True if it is built on the package; else it is a program that is given its socket."""
        code = self._code(self.folder / self.entry)
        return self.trusted or "nemo_gym" in code or "run_webserver" in code  # it may inherit all of it

    @property
    def uses_ray(self) -> bool:
        """True if its code asks for Ray, which takes some 2 GB of memory."""
        files = (file for file in self.folder.rglob("*.py") if "tests" not in file.parts)
        return any(_RAY.search(self._code(file)) for file in files)

    @property
    def runs_code(self) -> bool:
        """True if it runs what agents write, with nothing around it."""
        return self.trusted and self.name in _RUNS_CODE

    @property
    def needs_judge(self) -> bool:
        """True if rewards cannot be had of it, or not be trusted, without a model that judges."""
        return bool(self.judges) and not (self.trusted and self.name in _JUDGES_LAST)

    @staticmethod
    def _code(file: Path) -> str:
        try:
            return file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""


def resolve_server(
    index: Index, data: Mapping[str, Any], *, environment: Path, option: str | None = None
) -> ServerSpec:
    """Return the server of a row.

    Args:
        index: of the interpreter.
        data: what the finder noted of the row.
        environment: the environment's root.
        option: what the user named: a server, an agent, or a file in the environment.

    Raises:
        TaskInvalid: none is known. SpecError: the user named one that is not there.
    """
    if option is not None:
        found = _program(option, environment) or _named(index, option)
        if found is None:
            raise SpecError(
                f"{SERVER_OPTION} {option}: there is neither such a file in {environment} nor such a server",
                hint=_near(index, option)
                or _missing(index)
                or f"NeMo Gym {index.version} has {_some(index)}",
                stage=Stage.START,
            )
        return found
    for name in _names(index, data, environment):
        found = _named(index, name)
        if found is not None:
            return found
    raise _unknown(index, data)


def _names(index: Index, data: Mapping[str, Any], environment: Path) -> Iterator[str]:
    """Yield what may name the server, the surest first.

    Raises:
        TaskInvalid: it is the repository's turn, and several servers are named for it.
    """
    file = str(data.get("file", ""))
    agent = data.get("agent")
    if agent is not None:
        yield str(agent)
    whole = (environment / file).as_posix()
    for tables in (index.own, index.installed):
        yield from (name for path, name in tables["files"].items() if whole.endswith(f"/{path}"))
    parts = whole.split("/")
    if "resources_servers" in parts[:-2]:
        yield parts[len(parts) - parts[::-1].index("resources_servers")]
    yield from _of_repo(index, data.get("repo"))
    if agent is not None and agent in ALIASES:
        yield ALIASES[agent]
    if agent is None and len(index.own["folders"]) == 1:  # an environment with one server means it
        yield from index.own["folders"]


def _of_repo(index: Index, repo: object) -> list[str]:
    names = [name for tables in (index.own, index.installed) for name in tables["repos"].get(repo, ())]
    servers = {spec.name for name in names if (spec := _named(index, name)) is not None}
    if len(servers) > 1:
        raise TaskInvalid(
            f"the configs name several servers for {repo}: {', '.join(sorted(servers))}",
            hint=f"choose one with {SERVER_OPTION}",
            stage=Stage.START,
        )
    return names


def _named(index: Index, name: str) -> ServerSpec | None:
    """Return the server of an agent, an instance, or a folder of this name."""
    agent = _listed(index, "agents", name)
    instance = agent["server"] if agent else name
    server = _listed(index, "servers", instance)
    if server is not None:
        return _spec(index, instance, server, agent or _agent_of(index, instance))
    folder = _listed(index, "folders", name)
    return None if folder is None else _of_folder(index, name, Path(folder))


def _listed(index: Index, table: str, name: str) -> Any:
    """Return an entry of a table, the environment's own first."""
    return next(
        (tables[table][name] for tables in (index.own, index.installed) if name in tables[table]), None
    )


def _agent_of(index: Index, instance: str) -> Mapping[str, Any] | None:
    agents = (agent for tables in (index.own, index.installed) for agent in tables["agents"].values())
    return next((agent for agent in agents if agent["server"] == instance), None)


def _spec(
    index: Index, instance: str, server: Mapping[str, Any], agent: Mapping[str, Any] | None
) -> ServerSpec | None:
    folder = Path(server["root"]) / "resources_servers" / server["server"]
    leaves = server["server"] in ("", "..") or "/" in server["server"]  # as a stranger's config may say
    if leaves or not (folder / APP).is_file():
        return None
    ours = agent or {}
    config = ours.get("server_config", server["config"])  # of several configs the agent's own counts
    return ServerSpec(
        name=server["server"],
        instance=instance,
        folder=folder,
        config=Path(config),
        judges=tuple(ours.get("judges", server["judges"])),
        trusted=_trusted(index, folder),
        agent_kind=ours.get("kind"),
        max_steps=steps if isinstance(steps := ours.get("max_steps"), int) else None,
    )


def _of_folder(index: Index, name: str, folder: Path) -> ServerSpec | None:
    for tables in (index.own, index.installed):
        for instance, server in tables["servers"].items():
            if server["server"] == name and Path(server["root"]) == folder.parent.parent:
                return _named(index, instance)
    return ServerSpec(name, name, folder, trusted=_trusted(index, folder))


def _program(option: str, environment: Path) -> ServerSpec | None:
    """Return the server that the environment holds as a file."""
    path = (environment / Path(option).expanduser()).resolve()
    if not path.is_file():
        return None
    name = path.parent.name if path.stem in ("app", "server") else path.stem
    return ServerSpec(name, name, path.parent, entry=path.name, trusted=False)


def _trusted(index: Index, folder: Path) -> bool:
    """Return whether a folder is part of the installed package."""
    return index.root is not None and folder.resolve().is_relative_to(index.root.resolve())


def _missing(index: Index) -> str:
    if index.version is not None:
        return ""
    return f"{index.python} has no NeMo Gym: {INSTALL} in an environment of its own, and name it in {OPTION}"


def _near(index: Index, name: str) -> str:
    """Return which names are like one that is not there."""
    known = {
        each
        for tables in (index.own, index.installed)
        for table in ("folders", "servers", "agents")
        for each in tables[table]
    }
    alike = difflib.get_close_matches(name, sorted(known), n=3)
    return f"did you mean {' or '.join(alike)}?" if alike else ""


def _some(index: Index) -> str:
    names = sorted(index.installed["folders"])
    return ", ".join(names[:_NEAR]) + (f" and {len(names) - _NEAR} more" if len(names) > _NEAR else "")


def _unknown(index: Index, data: Mapping[str, Any]) -> TaskInvalid:
    agent, repo = data.get("agent"), data.get("repo")
    said = f"agent_ref {agent!r}" if agent is not None else "no agent_ref"
    where = f", and {repo} is in none of its configs" if repo is not None else ""
    known = (
        f"NeMo Gym {index.version} has none of that name" if agent is not None else "so no server is named"
    )
    near = _near(index, str(agent)) if agent is not None else ""
    return TaskInvalid(
        f"no resources server is known for this row: it has {said}; {_missing(index) or known + where}",
        hint=f"{near} {_NAME_IT}".strip(),
        stage=Stage.START,
    )
