"""The words around an instruction: one place to fill, nothing else of Jinja."""

from __future__ import annotations

import pytest

from pytest_rlenv.prompt_template import check_template, fill_template


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("Do this:\n{{ instruction }}\nNow.", "Do this:\n{{ x }}\\1\nNow."),
        ("{{instruction}}{{- instruction -}}", "{{ x }}\\1{{ x }}\\1"),
        ("{ {{ instruction }} }", "{ {{ x }}\\1 }"),
    ],
)
def test_the_instruction_is_put_in_as_it_is(template: str, filled: str) -> None:
    assert fill_template(check_template(template), "{{ x }}\\1") == filled


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("", "no {{ instruction }}"),
        ("{ instruction }", "no {{ instruction }}"),
        ("{{ instruction }} {{ task }}", "'{{ task }}' is not known"),
        ("{{ instruction }}{% if x %}y{% endif %}", "'{% if x %}' is not known"),
        ("{# a comment #}{{ instruction }}", "'{# a comment #}' is not known"),
        ("{{ instruction | upper }}{{ instruction }}", "'{{ instruction | upper }}' is not known"),
    ],
)
def test_what_cannot_be_filled_is_refused(template: str, words: str) -> None:
    with pytest.raises(ValueError, match="instruction") as caught:
        check_template(template)
    assert words in str(caught.value)
