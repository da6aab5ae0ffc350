"""Templates in env tables: whole values, everything missing in one message, never a value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rlenv.errors import Kind, VariableMissing
from pytest_rlenv.frameworks.harbor.templates import missing_variables, resolve_tables

RESOLVED = {
    "literal": ("plain", "plain"),
    "set": ("${A}", "1"),
    "set, with a default": ("${A:-x}", "1"),
    "unset, with a default": ("${NO:-x}", "x"),
    "unset, with an empty default": ("${NO:-}", ""),
    "set but empty counts as set": ("${EMPTY:-x}", ""),
    "only whole values": ("x-${A}", "x-${A}"),
    "not two": ("${A}${A}", "${A}${A}"),
    "no braces": ("$A", "$A"),
    "a default with braces": ("${NO:-a}b}", "a}b"),
    "a default is not expanded": ("${NO:-${A}}", "${A}"),
    "no other operator": ("${A:=x}", "${A:=x}"),
}


@pytest.mark.parametrize(("value", "expected"), RESOLVED.values(), ids=RESOLVED)
def test_resolved(value: str, expected: str) -> None:
    tables = {"verifier": {"KEY": value}}
    assert resolve_tables(tables, {"A": "1", "EMPTY": ""}) == {"verifier": {"KEY": expected}}


def test_all_missing_variables_are_named_with_their_fields_and_no_value_is_shown() -> None:
    tables = {
        "environment": {"BASE": "${SET}", "ONE": "${LOST}"},
        "verifier": {"KEY": "${LOST}", "OTHER": "${GONE}"},
    }
    with pytest.raises(VariableMissing) as caught:
        resolve_tables(tables, {"SET": "hunter2"})
    message = caught.value.message
    assert "LOST ([environment.env] ONE, [verifier.env] KEY)" in message
    assert "GONE ([verifier.env] OTHER)" in message
    assert "hunter2" not in message + caught.value.hint
    assert caught.value.kind is Kind.CONFIG


@given(st.dictionaries(st.text(), st.text(), max_size=4), st.dictionaries(st.text(), st.text(), max_size=4))
def test_every_table_resolves_or_names_what_is_missing(
    table: dict[str, str], environ: dict[str, str]
) -> None:
    tables = {"verifier": table}
    missing = missing_variables(tables, environ)
    if missing:
        with pytest.raises(VariableMissing):
            resolve_tables(tables, environ)
    else:
        assert set(resolve_tables(tables, environ)["verifier"]) == set(table)
