"""What must have happened before an item's rollout may begin: nothing, some set-up, or all that is before it.

A rollout that is begun ahead of its test must be the one that the test would have run in its turn. So it is
not begun while anything that is neither ours nor pytest's own comes before the ``rollout`` fixture.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pytest_rlenv import fixtures

OURS = ("rollout", "rlenv_task", "rlenv_agent", "rlenv_sandbox", "rlenv_expectation")
"""What a rollout is made of; one that is overridden is only known when its test is set up."""

LASTING = ("session", "module")
"""Scopes of fixtures that are set up once for many items, so that it can be waited for."""

_SKIPS = ("skip", "skipif")
_OF_PYTEST = "_pytest."
_OF_THE_USER = ("_xunit_", "_unittest_")
"""How pytest names the fixtures that it makes of ``setup_method`` and the like."""
_HOOKS = ("pytest_runtest_protocol", "pytest_runtest_setup")

Place = tuple[int, int]
"""A fixture at the node that it lasts for, as the identities of both."""


@dataclass(frozen=True)
class Before:
    """What comes before an item's rollout.

    Attributes:
        fixtures: what must be set up, in whichever item's turn.
        reason: why it must wait for its own turn; empty if it need not.
        told: True for a reason that the user should be told of.
    """

    fixtures: frozenset[Place] = frozenset()
    reason: str = ""
    told: bool = True


def what_comes_before(item: pytest.Item) -> Before | None:
    """Return what must have happened before an item's rollout begins; ``None`` if it asks for none."""
    if not isinstance(item, pytest.Function) or "rollout" not in item.fixturenames:
        return None
    if fixtures.plan_of(item) is None:
        return None
    if _may_be_skipped(item):
        return Before(reason="it may be skipped", told=False)
    if hook := _own_hook(item):
        return Before(reason=hook)
    known = _known_fixtures(item)
    if known is None:
        return Before(reason="what fixtures it uses is not known")
    if overridden := next((name for name in OURS if not _is_ours(known.get(name, ()))), None):
        return Before(reason=f"the fixture {overridden!r} is overridden")
    return _before_rollout(item, known)


def is_overridden(item: pytest.Item, name: str) -> bool:
    """Return whether a fixture of ours is overridden for an item, as far as that can be told."""
    known = _known_fixtures(item) if isinstance(item, pytest.Function) else None
    return known is None or not _is_ours(known.get(name, ()))


def place_of(definition: pytest.FixtureDef[Any], node: object) -> Place:
    """Return the word for a fixture that is set up at a node."""
    return id(definition), id(node)


def lasting_fixtures(item: pytest.Function) -> list[pytest.FixtureDef[Any]]:
    """Return what an item uses that outlasts it: its set-up is shared, so that other items' order matters."""
    known = _known_fixtures(item) or {}
    return [each for several in known.values() for each in several if each.scope != "function"]


def _before_rollout(item: pytest.Function, known: Mapping[str, Sequence[pytest.FixtureDef[Any]]]) -> Before:
    needed: set[Place] = set()
    for name in _set_up_before(item.fixturenames, known, "rollout"):
        for definition in known.get(name, ()):
            if _is_harmless(name, definition):
                continue
            scope = definition.scope
            if scope not in LASTING:
                return Before(reason=f"the fixture {name!r} comes first")
            if definition.params is not None:
                return Before(reason=f"the fixture {name!r} comes first, with parameters")
            needed.add(place_of(definition, _node(item, scope)))
    return Before(frozenset(needed))


def _set_up_before(
    names: Iterable[str], known: Mapping[str, Sequence[pytest.FixtureDef[Any]]], until: str
) -> Iterator[str]:
    """Yield the fixtures whose code runs before that of ``until``: of each, first those that it asks for."""
    seen: set[str] = set()

    def visit(name: str) -> Iterator[str]:
        if name in seen:
            return
        seen.add(name)
        for definition in known.get(name, ()):
            for wanted in definition.argnames:
                yield from visit(wanted)
        yield name

    for name in names:
        for found in visit(name):
            if found == until:
                return
            yield found


def _may_be_skipped(item: pytest.Item) -> bool:
    return any(
        mark.name in _SKIPS or (mark.name == "xfail" and not mark.kwargs.get("run", True))
        for mark in item.iter_markers()
    )


def _own_hook(item: pytest.Item) -> str:
    """Return why a hook in a conftest must come first: it may set something up, or skip the test."""
    for name in _HOOKS:
        for hook in getattr(item.ihook, name).get_hookimpls():
            file = Path(getattr(hook.plugin, "__file__", None) or "")
            if file.name == "conftest.py":
                return f"{name} of {file.name} comes first"
    return ""


def _known_fixtures(item: pytest.Function) -> Mapping[str, Sequence[pytest.FixtureDef[Any]]] | None:
    """Return the fixtures that an item may use, by name, the nearest last.

    There is no public way to them before they are set up.
    """
    found: Mapping[str, Sequence[pytest.FixtureDef[Any]]] | None = getattr(
        getattr(item, "_fixtureinfo", None), "name2fixturedefs", None
    )
    return found


def _is_ours(definitions: Sequence[pytest.FixtureDef[Any]]) -> bool:
    return bool(definitions) and _module(definitions[-1]) == fixtures.__name__


def _is_harmless(name: str, definition: pytest.FixtureDef[Any]) -> bool:
    module = _module(definition)
    if module == fixtures.__name__:
        return True
    return module.startswith(_OF_PYTEST) and not name.startswith(_OF_THE_USER)


def _module(definition: pytest.FixtureDef[Any]) -> str:
    return str(getattr(definition.func, "__module__", ""))


def _node(item: pytest.Item, scope: str) -> object:
    return item.session if scope == "session" else item.getparent(pytest.Module)
