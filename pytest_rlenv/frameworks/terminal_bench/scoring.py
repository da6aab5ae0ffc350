"""From what ``run-tests.sh`` printed to a reward: 1 if every test passed, else 0; without tests, none."""

from __future__ import annotations

from pytest_rlenv.errors import RewardMissing
from pytest_rlenv.frameworks.harbor.checks import MAX_FAILING, MAX_NAME
from pytest_rlenv.frameworks.terminal_bench.pytest_summary import SKIPPED, TestResult, read_summary
from pytest_rlenv.rollout import MAIN_REWARD_KEY, Checks, StepRecord
from pytest_rlenv.sandboxes.model import Completed
from pytest_rlenv.text import decode, tail, text_of

SOURCE = "short test summary info"


def score(completed: Completed, record: StepRecord) -> dict[str, float]:
    """Return the reward, and write the tests into the record.

    Args:
        completed: how ``run-tests.sh`` ended; its exit code decides nothing.
        record: gets the tests.

    Raises:
        RewardMissing: the output has no summary of pytest, or one without tests.
    """
    output = decode(completed.output)
    results = read_summary(output)
    if not results:
        raise _no_result(completed, output, summary_seen=results is not None)
    record.checks = _checks(results)
    skipped = [result.name for result in results if result.status == SKIPPED]
    if skipped:
        record.note(
            "tests-skipped", f"{len(skipped)} of {len(results)} tests were skipped, which counts as passed"
        )
    return {MAIN_REWARD_KEY: float(all(result.passed for result in results))}


def _checks(results: list[TestResult]) -> Checks:
    failing = [_named(result) for result in results if not result.passed]
    other = sum(result.status == SKIPPED for result in results)
    return Checks(
        source=SOURCE,
        passed=len(results) - len(failing) - other,
        failed=len(failing),
        other=other,
        failing=failing[:MAX_FAILING],
    )


def _named(result: TestResult) -> str:
    name = " ".join(text_of(result.name).split())
    return name if len(name) <= MAX_NAME else name[:MAX_NAME] + "..."


def _no_result(completed: Completed, output: str, *, summary_seen: bool) -> RewardMissing:
    lacking = "a summary without a test" if summary_seen else f"no {SOURCE!r}"
    ended = f" (it exited {completed.exit_code})"
    kept = len(completed.output)
    if kept < completed.output_bytes:
        ended = f" (it exited {completed.exit_code}; {kept} of {completed.output_bytes} bytes were kept)"
    return RewardMissing(
        f"no reward: the output of run-tests.sh has {lacking}{ended}",
        hint=_hint(completed.exit_code),
        detail=tail(output),
    )


def _hint(exit_code: int | None) -> str:
    if exit_code in (126, 127):
        return f"run-tests.sh stopped before pytest ran (exit {exit_code}): a command it needs was not found"
    if exit_code:
        return f"pytest did not run, or not to its end (exit {exit_code}): see the output"
    return "run pytest with -rA, so that it lists all tests, also those that passed"
