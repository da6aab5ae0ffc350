"""Answers that are a message: what is expected, in the form that the server reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_rlenv.frameworks.nemo_gym.responses import Item, message

Row = Mapping[str, Any]


def _said(text: str) -> Sequence[Item]:
    return [message(text)]


def _expected(row: Row) -> str | None:
    """Return the expected answer; an empty one is none, and servers take it for a wrong answer."""
    value = row.get("expected_answer")
    return None if value is None or value == "" else str(value)


def boxed(row: Row) -> Sequence[Item] | None:
    r"""Answer ``\boxed{...}``; what is boxed already stays so."""
    answer = _expected(row)
    if answer is None:
        return None
    inner = answer.strip()
    for begin, end in (("\\(", "\\)"), ("$$", "$$"), ("$", "$")):
        if inner.startswith(begin) and inner.endswith(end) and len(inner) > len(begin) + len(end):
            inner = inner[len(begin) : -len(end)].strip()
    return _said(inner if inner.startswith("\\boxed") else f"\\boxed{{{inner}}}")


def as_expected(row: Row) -> Sequence[Item] | None:
    """Answer what is expected, word for word."""
    answer = _expected(row)
    return None if answer is None else _said(answer)


def answer_object(row: Row) -> Sequence[Item] | None:
    """Answer ``{"answer": ...}``."""
    answer = _expected(row)
    return None if answer is None else _said(json.dumps({"answer": answer}))


def tagged_answer(row: Row) -> Sequence[Item] | None:
    """Answer between ``<answer>`` tags; rows whose answer is null have many right ones, and name none."""
    answer = row.get("answer")
    return None if answer is None else _said(f"<answer>{answer}</answer>")


def node_list(row: Row) -> Sequence[Item] | None:
    """Answer ``Final Answer: [a, b]``; what is expected is a JSON list in a text."""
    answer = _expected(row)
    return None if answer is None else _said(f"Final Answer: [{', '.join(map(str, json.loads(answer)))}]")


def arc_grid(row: Row) -> Sequence[Item] | None:
    """Answer the expected grid as boxed JSON."""
    grid = row.get("expected_output")
    return None if grid is None else _said(f"\\boxed{{{json.dumps(grid)}}}")


def proof_judgement(row: Row) -> Sequence[Item] | None:
    """Answer the expected judgement, which is a line such as ``Judgement: Yes``."""
    judgement = row.get("expected_judgement")
    return None if not judgement else _said(str(judgement))


def best_proof(row: Row) -> Sequence[Item] | None:
    """Answer which of two proofs is better."""
    index = row.get("correct_index")
    return None if index is None else _said(f"<best_solution>{index}</best_solution>")


def circle_count(row: Row) -> Sequence[Item]:
    """Count the circles of the colour that is asked for: the row has what the picture shows."""
    count = sum(circle["color"] == row["target_color"] for circle in row["circles"])
    return _said(f"\\boxed{{{count}}}")
