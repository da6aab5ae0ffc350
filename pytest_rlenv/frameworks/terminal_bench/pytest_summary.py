"""Results of tests from what pytest printed, by the rules of Terminal-Bench 0.2.

All that is read is the part after the first line ``=== short test summary info ===``, where each line that
begins with a status is a test. Skipped and expectedly failed tests count as passed, unexpectedly passed ones
as failed. Different from there: tests of one name in two files are two tests (there, the last one counts),
and a summary without a single test is no result (there, it is a success).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEADER = re.compile(r"=+\s*short test summary info\s*=+", re.IGNORECASE)
_LINE = re.compile(r"\s*(PASSED|FAILED|SKIPPED|XFAIL|XPASS|ERROR):*\s+(\S.*)")
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[()][AB012]")
_GOOD = frozenset({"PASSED", "SKIPPED", "XFAIL"})
SKIPPED = "SKIPPED"


@dataclass(frozen=True)
class TestResult:
    """How one test ended.

    Attributes:
        name: without its file, such as ``test_answer[3]``.
        status: pytest's word, such as ``XFAIL``.
        message: what pytest says beside it, or empty.
    """

    __test__ = False  # else pytest takes the class for a test of ours

    name: str
    status: str
    message: str = ""

    @property
    def passed(self) -> bool:
        """True if it does not stand in the way of success."""
        return self.status in _GOOD


def read_summary(output: str) -> list[TestResult] | None:
    """Return the tests in the order of the summary; ``None`` if there is no summary at all.

    A test that is listed twice, as where pytest ran twice, counts as it was listed last.

    Args:
        output: all that the tests printed.
    """
    parts = _HEADER.split(_ESCAPES.sub("", output), maxsplit=1)
    if len(parts) < 2:
        return None
    found: dict[str, TestResult] = {}
    for line in parts[1].splitlines():
        match = _LINE.fullmatch(line.rstrip())
        if match:
            path, message = _without_message(match[2])
            found[path] = TestResult(path.partition("::")[2] or path, match[1], message)
    return list(found.values())


def _without_message(text: str) -> tuple[str, str]:
    """Split a test from what went wrong with it; `` - `` may stand in the brackets of its parameters, too."""
    parts = text.split(" - ")
    for end in range(1, len(parts)):
        path = " - ".join(parts[:end])
        if path.count("[") <= path.count("]"):
            return path, " - ".join(parts[end:])
    return text, ""
