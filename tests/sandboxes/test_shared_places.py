"""What all processes of a user share on a machine: slots for starts, and who uses which built image."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_rlenv.sandboxes.docker.uses import ImageUses
from pytest_rlenv.sandboxes.slots import Slots


def peak_of(count: int, work: Callable[[], object]) -> int:
    """Have ``count`` threads work at once, and return how many were in it at most."""
    lock, inside, peak, problems = threading.Lock(), [0], [0], list[BaseException]()

    def enter() -> None:
        with lock:
            inside[0] += 1
            peak[0] = max(peak[0], inside[0])
        time.sleep(0.02)
        with lock:
            inside[0] -= 1

    def run() -> None:
        try:
            with work():  # type: ignore[attr-defined]  # a context manager
                enter()
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    return peak[0]


@pytest.mark.parametrize("count", [1, 3])
def test_no_more_threads_than_slots(count: int, tmp_path: Path) -> None:
    slots = Slots(tmp_path / "slots", count)
    assert peak_of(12, slots.take) <= count
    assert peak_of(12, lambda: Slots(tmp_path / "slots", count).take()) <= count, "whoever makes them"


@contextmanager
def process(script: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run a script that prints a line when it is ready; it is killed at the end."""
    argv = [sys.executable, "-c", script, *map(str, arguments)]
    running = subprocess.Popen(argv, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        yield running
    finally:
        running.kill()
        running.communicate()


HOLDS_SLOT = """
import sys, pathlib
from pytest_rlenv.sandboxes.slots import Slots
with Slots(pathlib.Path(sys.argv[1]), 1).take():
    print("ready", flush=True)
    sys.stdin.read()
"""


def is_taken(folder: Path) -> bool:
    return Slots(folder, 1)._try() is None


def test_a_killed_holder_lets_go(tmp_path: Path) -> None:
    with process(HOLDS_SLOT, tmp_path) as holder:
        assert is_taken(tmp_path)
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        assert not is_taken(tmp_path)


def test_nobody_waits_for_ever(tmp_path: Path) -> None:
    slots, went_ahead = Slots(tmp_path, 1), []
    with slots.take(), slots.take(max_wait=0.1):
        went_ahead.append(True)
    assert went_ahead == [True]


def test_who_waits_may_be_called_away(tmp_path: Path) -> None:
    slots = Slots(tmp_path, 1)

    def look() -> None:
        raise KeyboardInterrupt

    with slots.take(), pytest.raises(KeyboardInterrupt), slots.take(look):
        pass
    assert not is_taken(tmp_path)


def test_slots_that_cannot_be_made_are_no_condition(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with Slots(tmp_path / "file" / "slots", 1).take():
        pass


# ---- who uses which image

USES_IMAGE = """
import sys, pathlib
from pytest_rlenv.sandboxes.docker.uses import ImageUses
uses = ImageUses(pathlib.Path(sys.argv[1]), "engine")
for key in sys.argv[2:]:
    uses.claim(key)
print("ready", flush=True)
sys.stdin.read()
"""


def used(cache: Path, engine: str = "engine") -> frozenset[str]:
    with ImageUses(cache, engine).removing() as keys:
        return keys


def test_claims_last_as_long_as_their_process(tmp_path: Path) -> None:
    assert used(tmp_path) == frozenset()
    with process(USES_IMAGE, tmp_path, "a", "b") as user:
        own = ImageUses(tmp_path, "engine")
        own.claim("b")
        own.claim("c")
        assert used(tmp_path) == {"a", "b", "c"}
        assert used(tmp_path, "another") == frozenset()
        os.kill(user.pid, signal.SIGKILL)
        user.wait()
        assert used(tmp_path) == {"b", "c"}
        own.close()
        assert used(tmp_path) == frozenset()
        assert list(tmp_path.glob("docker-images/engine/runs/*")) == []
        own.claim("d")
        assert used(tmp_path) == {"d"}
        own.close()


def test_the_last_use_is_known_afterwards(tmp_path: Path) -> None:
    uses = ImageUses(tmp_path, "engine")
    begin = time.time() - 1
    uses.claim("a")
    os.utime(tmp_path / "docker-images/engine/a", (1, 1))
    assert uses.last_use("a") == 1
    uses.claim("a")
    uses.close()
    last = ImageUses(tmp_path, "engine").last_use("a")
    assert last is not None
    assert last >= begin
    assert uses.last_use("b") is None
    uses.forget("a")
    assert uses.last_use("a") is None


def test_nobody_claims_an_image_while_it_is_removed(tmp_path: Path) -> None:
    uses, claimed = ImageUses(tmp_path, "engine"), threading.Event()
    uses.claim("a")

    def claim() -> None:
        ImageUses(tmp_path, "engine").claim("b")
        claimed.set()

    thread = threading.Thread(target=claim)
    with ImageUses(tmp_path, "engine").removing() as keys:
        thread.start()
        assert keys == {"a"}
        assert not claimed.wait(0.1)
    thread.join()
    assert claimed.is_set()
    assert used(tmp_path) == {"a", "b"}


def test_stamps_of_images_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    uses = ImageUses(tmp_path, "engine")
    for key in "ab":
        uses.claim(key)
    uses.close()
    uses.claim("c")
    ImageUses(tmp_path, "engine").forget_all_but(frozenset("a"))
    assert [uses.last_use(key) is not None for key in "abc"] == [True, False, True]
    uses.close()


def test_a_cache_that_cannot_be_written_keeps_nobody_from_using_an_image(tmp_path: Path) -> None:
    (tmp_path / "cache").touch()
    uses = ImageUses(tmp_path / "cache", "engine")
    uses.claim("a")
    assert uses.last_use("a") is None
    uses.close()
