"""The verifier's part of a rollout: empty its folders, bring the tests, run them, read the reward."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pytest_rlenv.errors import (
    AgentFailed,
    BoxUnfit,
    RewardInvalid,
    RewardMissing,
    SandboxFailed,
    Stage,
    VerifierTimeout,
)
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
_EMPTY = f"rm -rf {TESTS_DIR} {VERIFIER_DIR} || find {TESTS_DIR} {VERIFIER_DIR} -delete"
# The agent may have removed `rm`, and put something else where /logs was.
WIPE = ("sh", "-c", f"{_EMPTY} ; [ -d logs ] || rm -rf logs")
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
        AgentFailed: the agent left the box in a state in which nothing can be verified.
        SandboxFailed: the box died, or the image is not fit to run ``test.sh``.
    """
    rollout.verifier_level = "shared"
    empty_folders(box, rollout)
    box.put((Entry(VERIFIER_DIR[1:], mode=0o777), *_below(TESTS_DIR, task.tests_entries())))
    done = _run_tests(box, task, rollout, env, timeout)
    rollout.verifier_command = record_of(done)
    logs = folder / "verifier"
    logs.mkdir(parents=True, exist_ok=True)
    (logs / "test-stdout.txt").write_bytes(done.output)
    note_memory(done, "verifier", rollout)
    if done.timed_out:
        raise VerifierTimeout(
            f"the verifier ran out of time ({number(timeout or 0)} s)",
            hint="raise [verifier] timeout_sec in task.toml, or --rlenv-timeout-multiplier",
            detail=tail(decode(done.output)),
        )
    return done


def empty_folders(box: Box, rollout: Rollout) -> None:
    """Remove what the agent left where the verifier looks: tests of its own, a reward written beforehand.

    The agent may have been root and replaced ``rm``, so what is left is looked at from outside. A folder
    that cannot be removed, such as a volume of the image, may stay if it is empty. Where something that
    the agent left running is in the way, all processes are killed.

    Raises:
        AgentFailed: what the agent left cannot be removed. SandboxFailed: the box died.
    """
    trouble = _wipe(box)
    left = _left(box)
    if not left and (trouble is None or isinstance(trouble, BoxUnfit)):
        return
    try:
        box.quiesce()
        trouble = _wipe(box)
        left = _left(box)
    except SandboxFailed as error:
        if not isinstance(trouble, BoxUnfit):
            raise
        trouble = error  # without a shell, a box that was killed does not start again
    if left:
        raise AgentFailed(
            f"the agent left the box in a state in which it cannot be verified: {left} cannot be emptied",
            detail=str(trouble or ""),
            stage=Stage.VERIFY,
        )
    rollout.note(
        "processes-killed",
        "what the agent left running was killed: the verifier's folders could not be emptied before",
    )


def _wipe(box: Box) -> SandboxFailed | None:
    """Empty the folders; return why that could not be tried, or did not end."""
    try:
        done = box.run(WIPE, user=0, cwd="/", timeout=WIPE_TIMEOUT)
    except SandboxFailed as error:
        return error
    if done.timed_out:
        return SandboxFailed(f"rm did not end within {number(WIPE_TIMEOUT)} s")
    if done.exit_code and b"fork" in done.output.lower():
        return SandboxFailed("no process left in the box for rm")
    return None


def _left(box: Box) -> str:
    """Return the folder that still holds something, seen from outside; empty if there is none."""
    for path in (TESTS_DIR, VERIFIER_DIR):
        found = box.stat(path)
        if found is not None and not (found.kind == "directory" and _is_empty(box, path)):
            return path
    return ""


def _is_empty(box: Box, path: str) -> bool:
    with tempfile.TemporaryDirectory(prefix="rlenv-left-") as scratch:
        found = box.get_tree(path, Path(scratch), cap=0, max_files=1)
        return not (found.files or found.refused or any(Path(scratch).iterdir()))


def _run_tests(
    box: Box, task: HarborTask, rollout: Rollout, env: Mapping[str, str], timeout: float | None
) -> Completed:
    """Run ``test.sh``, in a new working directory if the agent removed the one that there was."""

    def run() -> Completed:
        return box.run(
            ["bash", "-c", f"{TESTS_DIR}/test.sh"], user=task.config.verifier.user, env=env, timeout=timeout
        )

    try:
        return run()
    except SandboxFailed as error:
        workdir = _workdir(task, error)
        found = box.stat(workdir) if workdir else None
        if workdir is None or (found is not None and found.kind in ("directory", "symlink")):
            if isinstance(error, BoxUnfit):
                raise
            box.quiesce()  # what the agent left running may have used up the box's processes
            rollout.note("processes-killed", f"what the agent left running was killed: {error.message}")
            return run()
        if found is not None:
            raise AgentFailed(
                "the agent left the box in a state in which it cannot be verified: "
                f"the working directory {workdir} is now a {found.kind}",
                detail=str(error),
                stage=Stage.VERIFY,
            ) from error
    box.put([Entry(workdir[1:], mode=0o777)])
    rollout.note(
        "workdir-restored", f"the agent removed the working directory {workdir}: it is there again, empty"
    )
    return run()


_ENGINE_WORKDIR = re.compile(r'chdir to cwd \("(/[^"]+)"\)')
_DOCKERFILE_WORKDIR = re.compile(r"^[ \t]*WORKDIR[ \t]+(/[^\s$]*)[ \t]*$", re.MULTILINE | re.IGNORECASE)


def _workdir(task: HarborTask, error: SandboxFailed) -> str | None:
    """Return the working directory that ``test.sh`` should have started in, ``None`` if that is not known."""
    if task.config.environment.workdir:
        return task.config.environment.workdir
    named = _ENGINE_WORKDIR.search(error.detail)
    if named:
        return named[1]
    if task.config.environment.docker_image or task.dockerfile is None:
        return None
    found = _DOCKERFILE_WORKDIR.findall(task.dockerfile.read_text(encoding="utf-8", errors="replace"))
    return str(found[-1]) if found else None


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
