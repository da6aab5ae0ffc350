"""A taskset with a task for each way in which one can end, for Verifiers 0.4 and for the fake one."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from typing import Any

import verifiers.v1 as vf
from pydantic import Field

__all__ = ["ToyTaskset"]

LIMITS = {
    "setup-slow": vf.TaskTimeout(setup=0.2),
    "scoring-slow": vf.TaskTimeout(scoring=0.2),
    "agent-slow": vf.TaskTimeout(agent=0.4),
    "validate-slow": vf.TaskTimeout(scoring=0.2),
}


class bool_:  # noqa: N801 - NumPy's name
    """What a comparison of arrays gives."""

    def item(self) -> bool:
        return True


BLOBS = {"no-row": b"\xff\xfe", "nan-in-row": float("nan")}
GOLD = {
    "gold-false": False,
    "gold-none": None,
    "gold-text": "yes",
    "gold-odd": {(1, 2): 3},
    "gold-numpy": bool_(),
}


class ToyData(vf.TaskData):
    kind: str = ""
    answer: str = "42"
    hidden: str = Field("", exclude=True)
    blob: Any = None


class ToyTask(vf.Task[ToyData]):
    async def setup(self, trace, runtime) -> None:
        kind = self.data.kind
        if kind == "setup-raises":
            raise ValueError("no set-up today")
        if kind == "setup-slow":
            await asyncio.sleep(30)
        if kind == "exits":
            raise SystemExit("no credentials")
        if kind == "hangs":
            time.sleep(600)
        if kind == "dies":
            os._exit(7)
        if kind == "prints":
            print("said by a taskset", flush=True)

    async def validate(self, runtime) -> bool | None:
        kind = self.data.kind
        if kind == "gold-raises":
            raise RuntimeError("cannot be checked")
        if kind == "gold-own-timeout":
            raise TimeoutError("the judge does not answer")
        if kind == "gold-cancels":
            raise asyncio.CancelledError
        if kind == "gold-long-error":
            raise ValueError("x" * 100_000)
        if kind == "forks" and (twin := os.fork()):
            os.waitpid(twin, 0)
        if kind == "validate-slow":
            await asyncio.sleep(30)
        if kind == "works":
            done = await runtime.run(
                ["sh", "-c", "echo $TOY; echo secret=$TOY_SECRET_TOKEN; echo home=$HOME"], {"TOY": "7"}
            )
            print(done.stdout, flush=True)
            return done.exit_code == 0
        return GOLD.get(kind, True)

    def runtime_env(self) -> dict[str, str]:
        return {"TOY": "7"}

    @vf.metric
    async def length(self, trace) -> float:
        return float(len(trace.last_reply))

    @vf.reward(weight=0.75)
    async def correct(self, trace) -> float:
        kind = self.data.kind
        if kind == "reward-raises":
            raise ZeroDivisionError("by nothing")
        if kind == "scoring-slow":
            await asyncio.sleep(30)
        if kind == "reward-nan":
            return float("nan")
        return float(self.data.answer in trace.last_reply)

    @vf.reward(weight=0.25)
    async def polite(self, trace) -> float:
        return float("please" in trace.last_reply)


class ToyConfig(vf.TasksetConfig):
    kinds: list[str] = Field(default_factory=lambda: ["good"])
    ids: list[str] = Field(default_factory=list)
    hide: bool = False
    image: str = ""


class ToyTaskset(vf.Taskset[ToyTask, ToyConfig]):
    def load(self) -> Iterator[ToyTask]:
        for index, kind in enumerate(self.config.kinds):
            yield ToyTask(
                ToyData(
                    id=self.config.ids[index] if self.config.ids else kind,
                    kind=kind,
                    prompt=None if kind == "no-prompt" else f"What is the answer, {kind}?",
                    image=self.config.image or None,
                    hidden="hidden" if self.config.hide else "",
                    blob=BLOBS.get(kind),
                    timeout=LIMITS.get(kind, vf.TaskTimeout()),
                ),
                self.config.task,
            )
