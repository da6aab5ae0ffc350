"""Lists NeMo Gym's servers, agents and data sets by reading its YAML configs. Runs in the user's interpreter.

``_index_child.py CACHE [ROOT...]`` prints one JSON object. NeMo Gym itself is not imported, since that takes
seconds and changes the process. What an installed version says is kept in the folder CACHE; what further
ROOTs hold (environments with ``resources_servers/``) is read each time. Standard library and PyYAML only.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

FORM = 1
"""Grows when the index's form changes."""
DEEPEST = 20
"""Levels of a config that are looked through."""
FOLDERS = ("resources_servers", "responses_api_agents", "environments", "benchmarks")


def main() -> None:
    """Print the index of what is installed and of further roots."""
    cache, roots = pathlib.Path(sys.argv[1]), [pathlib.Path(root) for root in sys.argv[2:]]
    site, version = _installed()
    index = {
        "version": version,
        "python": sys.version.split()[0],
        "root": str(site) if site else None,
        "installed": _kept(cache, site, version) if site else None,
        "own": {str(root): _read(root) for root in roots},
    }
    json.dump(index, sys.stdout)


def _installed() -> tuple[pathlib.Path | None, str | None]:
    found = importlib.util.find_spec("nemo_gym")  # a package of the top level is found without being imported
    if found is None or found.origin is None:
        return None, None
    try:
        version = importlib.metadata.version("nemo-gym")
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    return pathlib.Path(found.origin).resolve().parent.parent, version


def _kept(cache: pathlib.Path, site: pathlib.Path, version: str | None) -> dict[str, Any]:
    package = site / "nemo_gym" / "__init__.py"
    key = json.dumps([FORM, str(site), version, package.stat().st_mtime_ns])
    kept = cache / f"index-{hashlib.sha256(key.encode()).hexdigest()[:20]}.json"
    with contextlib.suppress(OSError, ValueError):
        kept_index: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        return kept_index
    index = _read(site)
    with contextlib.suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        partial = kept.with_suffix(f".{os.getpid()}.part")
        partial.write_text(json.dumps(index), encoding="utf-8")
        partial.replace(kept)
    return index


def _read(root: pathlib.Path) -> dict[str, Any]:
    """Return what the configs below a root say."""
    servers: dict[str, Any] = {}
    agents: dict[str, Any] = {}
    repos: dict[str, list[str]] = {}
    files: dict[str, str] = {}
    documents = list(_documents(root))
    for path, document in documents:
        for instance, name, config in _of_kind(document, "resources_servers"):
            own = {"server": name, "config": path, "judges": _models(config), "root": str(root)}
            servers.setdefault(instance, own)
    for path, document in documents:
        here = {instance: _models(config) for instance, _, config in _of_kind(document, "resources_servers")}
        for instance, kind, config in _of_kind(document, "responses_api_agents"):
            reference = config.get("resources_server")
            server = reference.get("name") if isinstance(reference, dict) else None
            if not isinstance(server, str):  # a stranger's config may say anything
                server = None
            agent = {"server": server, "kind": kind, "max_steps": config.get("max_steps"), "config": path}
            if server in here:
                agent |= {"server_config": path, "judges": here[server]}
            agents.setdefault(instance, agent)
            data_sets = config.get("datasets")
            for data_set in data_sets if isinstance(data_sets, list) else ():
                if isinstance(data_set, dict):
                    _data_set(data_set, instance, repos, files)
    folders = {entry.parent.name: str(entry.parent) for entry in sorted((root / FOLDERS[0]).glob("*/app.py"))}
    return {"servers": servers, "agents": agents, "repos": repos, "files": files, "folders": folders}


def _documents(root: pathlib.Path) -> Iterator[tuple[str, dict[str, Any]]]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    paths = [path for folder in FOLDERS for path in (root / folder).glob("**/*.yaml")]
    # of two configs with one name the one that is called as its folder counts
    for path in sorted(paths, key=lambda path: (path.stem != path.parent.parent.name, str(path))):
        try:
            document = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)
        except (OSError, ValueError, RecursionError, yaml.YAMLError):
            continue
        if isinstance(document, dict):
            yield str(path), document


def _of_kind(document: dict[str, Any], kind: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield instance, type and config of all servers of a kind."""
    for instance, value in document.items():
        inner = value.get(kind) if isinstance(value, dict) else None
        if isinstance(inner, dict):
            for name, config in inner.items():
                if isinstance(config, dict):
                    yield str(instance), str(name), config


def _models(config: dict[str, Any], depth: int = 0) -> list[str]:
    """Return the names of the models that a server asks to judge."""
    if depth > DEEPEST:  # an anchor may hold itself
        return []
    if config.get("should_use_judge") is False:
        return []
    found = {key for key in map(str, config) if "judge" in key and key.endswith("base_url")}
    for value in config.values():
        if isinstance(value, dict):
            if value.get("type") == "responses_api_models" and isinstance(value.get("name"), str):
                found.add(value["name"])
            else:
                found.update(_models(value, depth + 1))
    return sorted(found)


def _data_set(
    data_set: dict[str, Any], agent: str, repos: dict[str, list[str]], files: dict[str, str]
) -> None:
    for key in ("huggingface_identifier", "source"):
        source = data_set.get(key)
        if isinstance(source, dict) and isinstance(source.get("repo_id"), str):
            known = repos.setdefault(source["repo_id"], [])
            if agent not in known:
                known.append(agent)
    if isinstance(data_set.get("jsonl_fpath"), str):
        files.setdefault(data_set["jsonl_fpath"], agent)


if __name__ == "__main__":
    main()
