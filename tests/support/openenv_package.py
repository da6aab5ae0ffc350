"""Environments written against the package `openenv` itself, which only its own interpreter imports."""

GUESS_APP = """
import os
import time
from typing import Any, Optional

from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class GuessAction(Action):
    guess: int
    mood: str = "calm"


class GuessObservation(Observation):
    hint: str = ""


class GuessState(State):
    split: Optional[str] = None
    index: Optional[int] = None


class GuessEnvironment(Environment):
    def __init__(self):
        super().__init__()
        self._state = GuessState(episode_id=None, step_count=0)

    def reset(
        self,
        seed: Optional[int] = None,
        episode_id: Optional[str] = None,
        split: str = "train",
        index: int = 0,
        target: Optional[int] = None,
        **kwargs: Any,
    ) -> GuessObservation:
        self._state = GuessState(episode_id=episode_id, step_count=0, split=split, index=index)
        self._target = index * 3 + 1 if target is None else target
        return GuessObservation(hint="go", reward=None)

    def step(self, action: GuessAction, timeout_s: Optional[float] = None, **kwargs: Any) -> GuessObservation:
        self._state.step_count += 1
        if action.mood == "explode":
            raise RuntimeError("environment exploded")
        if action.mood == "die":
            os._exit(9)
        if action.mood == "slow":
            time.sleep(3)
        right = action.guess == self._target
        reward = {"nan": float("nan"), "null": None, "bool": True}.get(action.mood, 1.0 if right else 0.25)
        return GuessObservation(hint="correct" if right else "other", reward=reward, done=right)

    @property
    def state(self) -> GuessState:
        return self._state

    def list_splits(self):
        return ["train", "test"]

    def list_tasks(self, split):
        return [{"id": f"{split}-{n}", "index": n} for n in range(self.num_tasks(split))]

    def num_tasks(self, split):
        return {"train": 3, "test": 1}[split]

    def get_task(self, split, index):
        return self.list_tasks(split)[index]

    def get_task_range(self, split, start=None, stop=None):
        return self.list_tasks(split)[start:stop]


app = create_app(GuessEnvironment, GuessAction, GuessObservation, env_name="guess", state_cls=GuessState)
"""

TOOLS_APP = '''
from fastmcp import FastMCP

from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Observation, State


class AddEnvironment(MCPEnvironment):
    def __init__(self):
        mcp = FastMCP("adding")

        @mcp.tool()
        def add(a: int, b: int) -> int:
            """Add two numbers."""
            return a + b

        super().__init__(mcp)
        self._state = State(episode_id=None, step_count=0)

    def reset(self, seed=None, episode_id=None, **kwargs):
        self._state = State(episode_id=episode_id, step_count=0)
        return Observation(metadata={"question": "What makes 5?"})

    def _step_impl(self, action, timeout_s=None, **kwargs):
        return Observation(metadata={"error": "only tools"})

    def step(self, action, timeout_s=None, **kwargs):
        self._state.step_count += 1
        return self._graded(super().step(action, timeout_s=timeout_s, **kwargs))

    async def step_async(self, action, timeout_s=None, **kwargs):
        self._state.step_count += 1
        return self._graded(await super().step_async(action, timeout_s=timeout_s, **kwargs))

    def _graded(self, observation):
        result = getattr(observation, "result", None)
        if result is not None:
            observation.reward = 1.0 if "5" in str(result) else 0.0
            observation.done = observation.reward == 1.0
        return observation

    @property
    def state(self):
        return self._state


app = create_app(AddEnvironment, CallToolAction, CallToolObservation, env_name="adding")
'''
