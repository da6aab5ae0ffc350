"""A taskset for Verifiers 0.4: say how many words a sentence has.

A row is a question with its answer. The gold check looks whether the answer is right, the reward whether the model
gave it. Rows of `verdicts.jsonl` show what else may happen: a wrong answer in the row, none at all, a reward that
raises.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import verifiers.v1 as vf

__all__ = ["WordCountTaskset"]


class WordCountData(vf.TaskData):
    sentence: str = ""
    answer: int | None = None


class WordCountTask(vf.Task[WordCountData]):
    async def validate(self, runtime) -> bool | None:
        """The gold check: is the row's own answer right? None says that there is nothing to check."""
        if self.data.answer is None:
            return None
        return self.data.answer == len(self.data.sentence.split())

    @vf.reward(weight=1.0)
    async def correct(self, trace) -> float:
        """1 for the right number, 0.25 for one that is off by one."""
        if self.data.answer is None:
            raise ValueError("the row has no answer to compare with")
        found = re.search(r"<answer>\s*(\d+)\s*</answer>", trace.last_reply)
        if found is None:
            return 0.0
        off = abs(int(found[1]) - self.data.answer)
        return 1.0 if off == 0 else 0.25 if off == 1 else 0.0

    @vf.metric
    async def reply_length(self, trace) -> float:
        return float(len(trace.last_reply))


class WordCountConfig(vf.TasksetConfig):
    data_path: Path = Path(__file__).parent
    """The folder with the rows; pytest-rlenv sets it to the environment's own."""
    rows: str = "good"
    """Which file of it: good, or verdicts."""


class WordCountTaskset(vf.Taskset[WordCountTask, WordCountConfig]):
    def load(self) -> Iterator[WordCountTask]:
        for line in (self.config.data_path / f"{self.config.rows}.jsonl").read_text().splitlines():
            row = json.loads(line)
            question = (
                f"How many words are in this sentence? Answer as <answer>N</answer>.\n\n{row['sentence']}"
            )
            yield WordCountTask(WordCountData(prompt=question, **row), self.config.task)
