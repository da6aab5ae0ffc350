"""Run a verifier's ``test.sh`` in a box that is ready for it, and read the reward that it wrote."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from pytest_rlenv.errors import BoxUnfit, RewardInvalid, RewardMissing, Stage, VerifierTimeout
from pytest_rlenv.frameworks.agent_endings import note_memory, record_of
from pytest_rlenv.frameworks.harbor.reward import (
    MAX_REWARD_BYTES,
    REWARD_JSON,
    REWARD_TXT,
    check_reward_file,
    read_rewards,
    reward_missing,
    with_verifier,
)
from pytest_rlenv.frameworks.harbor.steps import Step
from pytest_rlenv.frameworks.harbor.workdir import EXEC_TIMEOUT, with_workdir
from pytest_rlenv.rollout import Note, StepRecord
from pytest_rlenv.sandboxes.model import Completed, Entry, Extracted
from pytest_rlenv.sandboxes.protocol import Box
from pytest_rlenv.text import decode, tail
from pytest_rlenv.verdict import number

RewardFiles: TypeAlias = tuple[bytes | None, bytes | None]
"""The bytes of ``reward.json`` and of ``reward.txt``, each ``None`` if there is none."""

TESTS_DIR = "/tests"
VERIFIER_DIR = "/logs/verifier"
TEST_SCRIPT = f"{TESTS_DIR}/test.sh"
EMPTY_TESTS_DIR = Entry(TESTS_DIR[1:], mode=0o755)
EMPTY_VERIFIER_DIR = Entry(VERIFIER_DIR[1:], mode=0o777)


def tests_of(step: Step) -> list[Entry]:
    """Return a step's tests, to be put below ``/``.

    Raises:
        TaskInvalid: the tests have changed since the task was loaded.
    """
    return [
        Entry(f"{TESTS_DIR[1:]}/{entry.path}", entry.content, entry.mode, entry.source)
        for entry in step.tests_entries()
    ]


def check_bundled_tests(box: Box, image: str) -> None:
    """See that an image has the tests that it is said to hold, and that their script can be run.

    Raises:
        BoxUnfit: it has none. SandboxFailed: the box died.
    """
    found = box.stat(TEST_SCRIPT)
    if found is None:
        raise BoxUnfit(
            f"the verifier's image {image} has no {TEST_SCRIPT}",
            hint="put the tests there, such as with `COPY . /tests` in tests/Dockerfile",
            stage=Stage.VERIFY,
        )
    box.run(("chmod", "+x", TEST_SCRIPT), user=0, cwd="/", timeout=EXEC_TIMEOUT)


def run_tests(
    box: Box,
    step: Step,
    record: StepRecord,
    *,
    folder: Path,
    env: Mapping[str, str],
    timeout: float | None,
    agent_was_here: bool,
) -> Completed:
    """Run ``test.sh``; its output goes to ``verifier/test-stdout.txt``.

    Its exit code says nothing: only the reward file counts.

    Args:
        box: where the tests are.
        step: what is verified.
        record: where it is written how it ended.
        folder: the step's folder on this machine.
        env: the verifier's variables.
        timeout: seconds; ``None`` is no limit.
        agent_was_here: True for the box in which the agent acted, which may be in any state.

    Raises:
        VerifierTimeout: it did not end within ``timeout`` seconds; nothing that it wrote counts.
        AgentFailed: the agent left the box in a state in which nothing can be verified.
        SandboxFailed: the box died, or the image is not fit to run ``test.sh``.
    """

    def run() -> Completed:
        return box.run(step.test_command, user=step.verifier_user, env=env, timeout=timeout)

    done = with_workdir(box, step.task, record, run) if agent_was_here else run()
    record.verifier_command = record_of(done)
    logs = folder / "verifier"
    logs.mkdir(parents=True, exist_ok=True)
    (logs / "test-stdout.txt").write_bytes(done.output)
    note_memory(done, "verifier", record)
    if done.timed_out:
        raise VerifierTimeout(
            f"the verifier ran out of time ({number(timeout or 0)} s)",
            hint=f"raise {step.verifier_limit}, or --rlenv-timeout-multiplier",
            detail=tail(decode(done.output)),
        )
    return done


def read_reward(
    box: Box, step: Step, record: StepRecord, completed: Completed, fetched: RewardFiles | None
) -> dict[str, float]:
    """Return the rewards that the verifier wrote, or printed where a task has them so.

    Args:
        box: where it ran.
        step: what was verified.
        record: where notes go.
        completed: how ``test.sh`` ended.
        fetched: the reward files as they came with the logs, ``None`` where these do not tell.

    Raises:
        RewardMissing, RewardInvalid: as :mod:`pytest_rlenv.frameworks.harbor.reward` says.
        SandboxFailed: the box is gone.
    """
    printed = step.rewards_in_output(completed, record)
    if printed is not None:
        return printed
    as_json, as_text = fetched or (_reward_bytes(box, REWARD_JSON), _reward_bytes(box, REWARD_TXT))
    if as_json is None and as_text is None:
        raise reward_missing(
            exit_code=completed.exit_code,
            output_tail=tail(decode(completed.output)),
            plural_seen=box.stat(f"{VERIFIER_DIR}/rewards.json") is not None,
        )
    try:
        rewards, notes = read_rewards(as_json, as_text)
    except (RewardMissing, RewardInvalid) as error:
        with_verifier(error, exit_code=completed.exit_code, output_tail=tail(decode(completed.output)))
        raise
    record.notes.extend(Note(code=code, text=text) for code, text in notes)
    return rewards


def reward_files(logs: Extracted) -> RewardFiles | None:
    """Return the reward files among the verifier's logs, to spare asking the box for each.

    Args:
        logs: what came of getting ``/logs/verifier``; its files are still where they were put.

    Returns:
        The bytes of ``reward.json`` and ``reward.txt``, each ``None`` if there is none. ``None`` in place of
        both where the logs leave a doubt, such as a link or a file too large: then the box has to be asked.
    """
    if logs.refused or logs.over_cap or not any(entry.path == "" for entry in logs.entries):
        return None
    files = {entry.path: entry.source for entry in logs.entries}
    found = [PurePosixPath(path).name for path in (REWARD_JSON, REWARD_TXT)]
    sources = [files.get(name) for name in found]
    if any(name in files and source is None for name, source in zip(found, sources, strict=True)):
        return None
    if any(source is not None and source.stat().st_size > MAX_REWARD_BYTES for source in sources):
        return None
    as_json, as_text = (None if source is None else source.read_bytes() for source in sources)
    return as_json, as_text


def _reward_bytes(box: Box, path: str) -> bytes | None:
    return box.get(path, cap=MAX_REWARD_BYTES) if check_reward_file(box.stat(path), path) else None
