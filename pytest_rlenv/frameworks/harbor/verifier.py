"""The verifier's part of a rollout: empty its folders, bring the tests, run them, read the reward."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pytest_rlenv.errors import RewardInvalid, RewardMissing, SandboxFailed, Stage, VerifierTimeout
from pytest_rlenv.frameworks.harbor.agent_phase import note_memory, record_of
from pytest_rlenv.frameworks.harbor.reward import (
    MAX_REWARD_BYTES,
    REWARD_JSON,
    REWARD_TXT,
    check_reward_file,
    read_rewards,
    reward_missing,
    with_verifier,
)
from pytest_rlenv.frameworks.harbor.task import HarborTask
from pytest_rlenv.rollout import Note, Rollout
from pytest_rlenv.sandboxes.protocol import Box, Completed, Entry
from pytest_rlenv.text import decode, tail
from pytest_rlenv.verdict import number

TESTS_DIR = "/tests"
VERIFIER_DIR = "/logs/verifier"
WIPE = ("sh", "-c", f"rm -rf {TESTS_DIR} {VERIFIER_DIR}")
WIPE_TIMEOUT = 60.0


def run_verifier(
    box: Box,
    task: HarborTask,
    rollout: Rollout,
    *,
    folder: Path,
    env: Mapping[str, str],
    timeout: float | None,
) -> Completed:
    """Run the task's ``test.sh`` in the agent's box; its output goes to ``verifier/test-stdout.txt``.

    Its exit code says nothing: only the reward file counts.

    Raises:
        VerifierTimeout: it did not end within ``timeout`` seconds; nothing that it wrote counts.
        SandboxFailed: the box died, or the verifier's folders cannot be emptied.
    """
    rollout.verifier_level = "shared"
    empty_folders(box)
    box.put((Entry(VERIFIER_DIR[1:], mode=0o777), *_below(TESTS_DIR, task.tests_entries())))
    done = box.run(
        ["bash", "-c", f"{TESTS_DIR}/test.sh"], user=task.config.verifier.user, env=env, timeout=timeout
    )
    rollout.verifier_command = record_of(done)
    logs = folder / "verifier"
    logs.mkdir(exist_ok=True)
    (logs / "test-stdout.txt").write_bytes(done.output)
    note_memory(done, "verifier", rollout)
    if done.timed_out:
        raise VerifierTimeout(
            f"the verifier ran out of time ({number(timeout or 0)} s)",
            hint="raise [verifier] timeout_sec in task.toml, or --rlenv-timeout-multiplier",
            detail=tail(decode(done.output)),
        )
    return done


def empty_folders(box: Box) -> None:
    """Remove what the agent left where the verifier looks: tests of its own, a reward written beforehand.

    The agent may have been root and replaced ``rm``, so what is left is looked at from outside.
    """
    done = box.run(WIPE, user="root", timeout=WIPE_TIMEOUT)
    for path in (TESTS_DIR, VERIFIER_DIR):
        if box.stat(path) is not None:
            raise SandboxFailed(
                f"{path} cannot be emptied before the verifier runs (rm exited {done.exit_code})",
                detail=tail(decode(done.output)),
                stage=Stage.VERIFY,
            )


def read_reward(box: Box, rollout: Rollout, completed: Completed) -> dict[str, float]:
    """Return the rewards that the verifier wrote; the box is stopped, so nobody writes any more.

    Raises:
        RewardMissing, RewardInvalid: as :mod:`pytest_rlenv.frameworks.harbor.reward` says.
    """
    as_json = _reward_bytes(box, REWARD_JSON)
    as_text = _reward_bytes(box, REWARD_TXT)
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
    rollout.notes.extend(Note(code=code, text=text) for code, text in notes)
    return rewards


def _reward_bytes(box: Box, path: str) -> bytes | None:
    return box.get(path, cap=MAX_REWARD_BYTES) if check_reward_file(box.stat(path), path) else None


def _below(folder: str, entries: list[Entry]) -> list[Entry]:
    return [Entry(f"{folder[1:]}/{entry.path}", entry.content, entry.mode, entry.source) for entry in entries]
