"""A game of guessing a number, as an environment of OpenEnv's.

python server/app.py --port 8000
"""

import argparse
import random

from wire import BadAction, serve


class Guess:
    """Guess a number from 0 to 15: each guess is answered with a hint."""

    name = "guess"
    tasks = {}
    schema = {
        "action": {
            "type": "object",
            "properties": {"guess": {"type": "integer", "description": "a number from 0 to 15"}},
            "required": ["guess"],
            "additionalProperties": False,
        },
        "observation": {
            "type": "object",
            "properties": {"question": {"type": "string"}, "hint": {"type": "string"}},
            "required": ["question", "hint"],
        },
        "state": {
            "type": "object",
            "properties": {"episode_id": {"type": "string"}, "step_count": {"type": "integer"}},
        },
    }

    def reset(self, seed=0, episode_id=None, game="usual", **_):
        self.game = game
        self.episode_id = episode_id
        self.step_count = 0
        self.target = random.Random(seed).randrange(16)
        floor = None if game == "ungraded" else 0.0
        return {"question": "Which number from 0 to 15 is it?", "hint": ""}, floor, False

    def step(self, action):
        guess = action.get("guess")
        if not isinstance(guess, int) or isinstance(guess, bool):
            raise BadAction([{"type": "int_parsing", "loc": ["guess"], "msg": "a whole number is wanted"}])
        self.step_count += 1
        right = guess == self.target
        hint = "correct" if right else "higher" if guess < self.target else "lower"
        reward = None if self.game == "ungraded" else 1.0 if right else 0.0
        return {"question": "", "hint": hint}, reward, right

    def state(self):
        return {"episode_id": self.episode_id, "step_count": self.step_count, "game": self.game}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    given = parser.parse_args()
    serve(Guess, given.host, given.port)
