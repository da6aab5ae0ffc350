from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rlenv.environments.card import read_card

TAG = "lacks the tag 'rl-environment'"
FRAMEWORK = "has no framework tag"


@pytest.mark.parametrize(
    ("readme", "tags", "warnings"),
    [
        ("---\ntags:\n- rl-environment\n- harbor\n---\n# x", ("rl-environment", "harbor"), []),
        ("\ufeff---\r\ntags: [rl-environment, openenv]\r\n---\r\n", ("rl-environment", "openenv"), []),
        ("---\ntags: [harbor]\n---", ("harbor",), [TAG]),
        ("---\ntags: [rl-environment, 3]\n---\n", ("rl-environment", "3"), [FRAMEWORK]),
        ("---\ntags: harbor\n---\n", ("harbor",), [TAG]),
        ("---\npretty_name: x\n---\n", (), [TAG, FRAMEWORK]),
        ("---\ntags:\n---\n", (), [TAG, FRAMEWORK]),
        ("---\n---\n", (), [TAG, FRAMEWORK]),
        ("---\n- a\n- b\n---\n", (), [TAG, FRAMEWORK]),
        ("# no front matter", (), [TAG, FRAMEWORK]),
        ("", (), [TAG, FRAMEWORK]),
        ("---\nnever closed: 1\n", (), [TAG, FRAMEWORK]),
        ("---\ntags: [a\nb: }\n---\n", (), ["not valid YAML"]),
        ("---\nwhen: 2024-13-45\n---\n", (), ["not valid YAML"]),
        ("---\ntags: {a: 1}\n---\n", (), ["tags is dict, not a list"]),
        ("---\nx: !!python/object/apply:os.system [true]\n---\n", (), ["not valid YAML"]),
        (None, (), ["there is no dataset card (README.md)"]),
    ],
)
def test_cards_on_the_hub(readme: str | None, tags: tuple[str, ...], warnings: list[str]) -> None:
    card = read_card(readme, "org/repo", published=True)
    assert card.tags == tags
    assert len(card.warnings) == len(warnings)
    for line, expected in zip(card.warnings, warnings, strict=True):
        assert line.startswith("org/repo: ")
        assert expected in line
        assert "\n" not in line


@pytest.mark.parametrize("readme", [None, "", "# My project", "---\nnever closed"])
def test_a_local_folder_needs_no_card(readme: str | None) -> None:
    card = read_card(readme, "envs", published=False)
    assert (card.tags, card.warnings) == ((), ())


@given(
    st.one_of(st.text(), st.text().map("---\n{}\n---\n".format), st.just("---\n" + "[" * 1500 + "\n---\n"))
)
def test_no_readme_stops_a_run(readme: str) -> None:
    read_card(readme, "x", published=True)
