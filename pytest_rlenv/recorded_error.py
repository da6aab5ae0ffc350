"""What ended a rollout, in its record: a skip, an error with its stage and its hint, or a fault of ours."""

from __future__ import annotations

import errno
import sys
import traceback
from pathlib import Path

from pytest_rlenv.disk import OUTPUT_CURE, disk_full, is_full
from pytest_rlenv.errors import Kind, RlenvError, SandboxFailed, Stage, Unsupported
from pytest_rlenv.rollout import ErrorInfo, Rollout, StageClock


def record_error(error: Exception, rollout: Rollout, clock: StageClock, folder: Path | None) -> None:
    """Write an exception that is being handled into the record of the rollout that it ended.

    Args:
        error: it.
        rollout: the record.
        clock: knows the stage that it broke.
        folder: of the rollout's logs, if there is one yet.
    """
    if isinstance(error, Unsupported):
        rollout.skip_reason = error.reason
    elif isinstance(error, RlenvError):
        error.happened_at(clock.broke)
        rollout.error = ErrorInfo.of(error)
    elif isinstance(error, OSError) and (known := _local_trouble(error, folder)) is not None:
        rollout.error = ErrorInfo.of(known)
    else:
        rollout.error = _internal_error()


def _local_trouble(error: OSError, folder: Path | None) -> SandboxFailed | None:
    """Return what is wrong with this machine, where the error says so plainly."""
    where = error.filename or folder or error
    if is_full(error):
        return disk_full("write what a rollout leaves", str(where), stage=Stage.COLLECT, hint=OUTPUT_CURE)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return SandboxFailed(
            f"may not be written: {where}",
            hint="send results elsewhere with --rlenv-output",
            stage=Stage.COLLECT,
        )
    return None


def _internal_error() -> ErrorInfo:
    lines = traceback.format_exc().rstrip().splitlines()
    kind, error, _ = sys.exc_info()
    what = traceback.format_exception_only(kind, error)[0].strip().splitlines()[0]
    return ErrorInfo(
        type="InternalError",
        stage=Stage.LOAD,
        kind=Kind.INFRA,
        message=f"a fault of pytest-rlenv itself: {what}",
        hint="please report it, with the lines below",
        detail="\n".join(lines[-30:]),
    )
