"""Read the dataset card: the front matter of ``README.md``."""

from __future__ import annotations

from dataclasses import dataclass

ENVIRONMENT_TAG = "rl-environment"
FRAMEWORK_TAGS = ("harbor", "verifiers", "openenv", "nemo-gym")


@dataclass(frozen=True)
class Card:
    """What a card says that matters here; a card never stops a run.

    Attributes:
        tags: in the order they are written.
        warnings: one line each.
    """

    tags: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def read_card(readme: str | None, where: str, *, published: bool) -> Card:
    """Read the card of an environment.

    Args:
        readme: the text of ``README.md``, ``None`` if there is none.
        where: the environment as shown to people, for the warnings.
        published: it is on the Hub, where a card is expected. The README of a local folder is only taken for
            a card if it has a front matter.
    """
    front_matter = _front_matter(readme or "")
    if front_matter is None and not published:
        return Card()
    if readme is None:
        return Card(warnings=(f"{where}: there is no dataset card (README.md)",))
    tags, problem = _tags(front_matter or "")
    if problem:
        return Card(warnings=(f"{where}: {problem}",))
    return Card(tags, tuple(f"{where}: {warning}" for warning in _missing_tags(tags)))


def _front_matter(readme: str) -> str | None:
    lines = readme.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != "---":
        return None
    end = next((i for i, line in enumerate(lines[1:], start=1) if line.rstrip() == "---"), None)
    return None if end is None else "\n".join(lines[1:end])


def _tags(front_matter: str) -> tuple[tuple[str, ...], str]:
    """Return the tags, or what is wrong with them."""
    import yaml

    try:
        card = yaml.safe_load(front_matter)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a date as 2024-13-45
        first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
        return (), f"the front matter of README.md is not valid YAML ({first_line})"
    tags = card.get("tags") if isinstance(card, dict) else None
    if isinstance(tags, str):
        tags = [tags]
    if tags is not None and not isinstance(tags, list):
        return (), f"README.md: tags is {type(tags).__name__}, not a list"
    return tuple(str(tag) for tag in tags or () if isinstance(tag, (str, int, float))), ""


def _missing_tags(tags: tuple[str, ...]) -> list[str]:
    lacking = []
    if ENVIRONMENT_TAG not in tags:
        lacking.append(f"the card (README.md) lacks the tag {ENVIRONMENT_TAG!r}")
    if not any(tag in FRAMEWORK_TAGS for tag in tags):
        lacking.append(f"the card (README.md) has no framework tag ({', '.join(FRAMEWORK_TAGS)})")
    return lacking
