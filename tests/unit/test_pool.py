"""The pool of rollouts: bounded, in order, with room for guests, and nobody waits for what hangs."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from functools import partial

import pytest

from pytest_rlenv.jobs.pool import Pool

SOON = 10.0


@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_more_than_its_size_at_once_and_in_order(size: int) -> None:
    pool, lock, begun, under_way, peak = Pool(size), threading.Lock(), [], 0, 0
    full, done = threading.Semaphore(0), threading.Semaphore(0)
    go_on = threading.Event()

    def call(number: int) -> None:
        nonlocal under_way, peak
        with lock:
            begun.append(number)
            under_way += 1
            peak = max(peak, under_way)
        full.release()
        assert go_on.wait(SOON)
        with lock:
            under_way -= 1
        done.release()

    for number in range(8):
        pool.submit(partial(call, number))
    for _ in range(size):
        assert full.acquire(timeout=SOON)
    assert sorted(begun) == list(range(size))
    go_on.set()
    for _ in range(8):
        assert done.acquire(timeout=SOON)
    assert pool.wait(SOON)
    assert peak == size
    if size == 1:
        assert begun == list(range(8))


def test_a_guest_takes_a_place_and_does_not_stand_in_line() -> None:
    pool = Pool(1)
    begun, first_may_end, rest = threading.Event(), threading.Event(), threading.Event()

    def first() -> None:
        begun.set()
        assert first_may_end.wait(SOON)

    pool.submit(first)
    pool.submit(rest.set)
    assert begun.wait(SOON)
    inside, leave = threading.Event(), threading.Event()

    def visit() -> None:
        with pool.guest():
            inside.set()
            assert leave.wait(SOON)

    guest = threading.Thread(target=visit)
    guest.start()
    give_up = time.monotonic() + SOON
    while not pool._guests and time.monotonic() < give_up:
        time.sleep(0.001)  # until it waits
    first_may_end.set()
    assert inside.wait(SOON)
    assert not rest.is_set(), "a call began in the guest's place"
    leave.set()
    guest.join(SOON)
    assert rest.wait(SOON)


def test_what_waits_when_it_is_closed_never_begins() -> None:
    pool, begun, end, never = Pool(1), threading.Event(), threading.Event(), threading.Event()

    def first() -> None:
        begun.set()
        assert end.wait(SOON)

    pool.submit(first)
    pool.submit(never.set)
    assert begun.wait(SOON)
    assert pool.close()
    assert not pool.wait(0.0)
    pool.submit(never.set)
    end.set()
    assert pool.wait(SOON)
    assert not never.is_set()
    assert not pool.close()


def test_a_process_ends_though_a_call_never_does() -> None:
    program = """
import threading
from pytest_rlenv.jobs.pool import Pool
pool, begun = Pool(2), threading.Event()
pool.submit(lambda: (begun.set(), threading.Event().wait()))
begun.wait()
pool.close()
"""
    done = subprocess.run([sys.executable, "-c", program], timeout=60, check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
