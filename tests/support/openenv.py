"""An OpenEnv server that misbehaves as it is told, and rollouts on it without pytest around them.

The wire is that of the example environment, which speaks the real one; what it plays is told by each action.

    python tests/support/openenv.py --port 8000      the same as a program
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).parents[2] / "example_envs" / "openenv"
ACTION = {
    "type": "object",
    "properties": {"do": {"type": "string"}, "metadata": {"type": "object"}},
    "required": ["do"],
}
TOOLS = {"type": "object", "properties": {"tool_name": {"type": "string"}, "arguments": {"type": "object"}}}


def load_wire() -> Any:
    spec = importlib.util.spec_from_file_location("openenv_example_wire", EXAMPLE / "server" / "wire.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


wire: Any = load_wire()


class Misbehaving:
    """Does as each action says."""

    name = "odd"
    tasks: Mapping[str, list[Any]] = {}
    schema: Mapping[str, Any] = {
        "action": ACTION,
        "observation": {"type": "object", "properties": {"shown": {}}, "required": ["shown"]},
        "state": {"type": "object"},
    }
    told: Mapping[str, Any] = {}
    """What state says, beside what it should or in place of it."""
    begun = 0
    """Episodes so far, of all objects: what a reset may leak."""

    def reset(
        self,
        seed: int = 0,
        episode_id: str | None = None,
        reward: float | None = None,
        explode: bool = False,
        leaks: bool = False,
        **chosen: Any,
    ) -> tuple[dict[str, Any], float | None, bool]:
        if explode:
            raise RuntimeError("no such world")
        if "unfit" in chosen:
            raise wire.BadAction([{"loc": ["unfit"], "msg": "is not taken"}])
        self.episode_id, self.steps = episode_id, 0
        self.chosen = {"task": "another"} if chosen.get("ignored") else chosen
        if chosen.get("nameless"):
            self.episode_id = "own"
        type(self).begun += 1
        if chosen.get("only", seed) != seed:
            raise RuntimeError("no such seed")
        shown: dict[str, Any] = {"shown": f"seed {0 if chosen.get('seedless') else seed}"}
        if leaks:
            shown["begun"] = type(self).begun
        if chosen.get("injected_state"):
            return shown, chosen["injected_state"].get("earned"), False
        return shown, reward, False

    def step(self, action: dict[str, Any]) -> Any:
        self.steps += 1
        if action.get("type") == "list_tools":
            tools = [{"name": "add", "description": "adds", "input_schema": {"type": "object"}}]
            return {"tools": tools}, None, False
        if action.get("type") == "call_tool":
            return self.called(action)
        does = getattr(self, f"do_{action.get('do')}", None)
        if does is None:
            raise wire.BadAction([{"loc": ["do"], "msg": "is not known"}])
        return does(action)

    def called(self, action: dict[str, Any]) -> Any:
        if action["tool_name"] != "add":
            wrong = {"error_type": "tool_not_found", "message": action["tool_name"]}
            return {"result": None, "error": wrong}, None, False
        total = sum(action["arguments"].values())
        said = {"content": [{"type": "text", "text": str(total)}], "data": total, "is_error": False}
        return {"result": said, "error": None}, 1.0 if total == 5 else None, total == 5

    def state(self) -> dict[str, Any]:
        return {"episode_id": self.episode_id, "step_count": self.steps, **self.chosen, **self.told}

    def do_earn(self, action: dict[str, Any]) -> Any:
        return {"shown": "earned"}, action.get("reward"), bool(action.get("done"))

    def do_win(self, action: dict[str, Any]) -> Any:
        return {"shown": "won"}, 1.0, True

    def do_explode(self, action: dict[str, Any]) -> Any:
        raise RuntimeError("environment exploded")

    def do_draw(self, action: dict[str, Any]) -> Any:
        return {"shown": os.urandom(8).hex()}, 0.0, False

    def do_hang(self, action: dict[str, Any]) -> Any:
        HANGING.wait(20)
        return {"shown": "late"}, 1.0, True

    def do_die(self, action: dict[str, Any]) -> Any:
        print("about to die", flush=True)
        os._exit(7)

    def do_raw(self, action: dict[str, Any]) -> Any:
        return Raw(action["text"])

    def do_shout(self, action: dict[str, Any]) -> Any:
        raise RuntimeError("z" * 10_000)

    def do_grumble(self, action: dict[str, Any]) -> Any:
        raise wire.BadAction([{"loc": 5, "msg": ["z" * 10_000]}, {"loc": ["a", 1], "msg": "odd"}])

    def do_cut(self, action: dict[str, Any]) -> Any:
        raise ConnectionError("cut")


class ToolEnvironment(Misbehaving):
    """Its actions are calls of tools."""

    name = "tools"
    schema: Mapping[str, Any] = {**Misbehaving.schema, "action": TOOLS}


class Listing(Misbehaving):
    """Lists its tasks."""

    name = "listing"
    tasks: Mapping[str, list[Any]] = {
        "train": [{"id": "one"}, {"id": "two"}, {"prompt": "x"}],
        "test": [{"id": "one"}],
    }


class Raw(str):
    """What is sent as it is, each line in a frame of its own."""


HANGING = threading.Event()


class OddHandler(wire.Handler):  # type: ignore[misc]  # loaded by its path
    """Sends what is no frame, and cuts connections, where it is told to."""

    def reply(self, environment: Any, frame: dict[str, Any]) -> Any:
        data = frame.get("data", {})
        if frame.get("type") == "step" and data.get("do") == "raw":
            environment.steps += 1
            return Raw(data["text"])
        if frame.get("type") == "step" and data.get("do") == "cut":
            import socket

            self.connection.shutdown(socket.SHUT_RDWR)
        return super().reply(environment, frame)

    def send(self, frame: Any) -> None:
        if isinstance(frame, Raw):
            for each in frame.split("\n"):
                self.send_frame(0x1, each.encode())
        else:
            super().send(frame)


@contextmanager
def served(environment: type[Misbehaving] = Misbehaving, capacity: int = 4) -> Iterator[str]:
    """Serve in a thread of this process and give the address."""
    server = wire.Server(("127.0.0.1", 0), environment, capacity, OddHandler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        HANGING.set()
        server.shutdown()
        server.server_close()
        thread.join()
        HANGING.clear()


def write_environment(folder: Path, manifest: str = "name: odd\n", **plans: Any) -> Path:
    """Write an environment with recorded episodes, each given by name as its actions or a whole plan."""
    (folder / "oracle").mkdir(parents=True, exist_ok=True)
    (folder / "openenv.yaml").write_text(manifest)
    for name, plan in plans.items():
        content = {"actions": plan} if isinstance(plan, list) else plan
        (folder / "oracle" / f"{name.replace('_', '-')}.json").write_text(json.dumps(content))
    return folder


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    parser.add_argument("--mark", type=Path, help="gets a line for each start")
    parser.add_argument("--fail", help="say this and end")
    given = parser.parse_args()
    if given.mark:
        with given.mark.open("a") as file:
            file.write(f"{os.getpid()} {given.port}\n")
    if given.fail:
        print(given.fail, flush=True)
        sys.exit(3)
    wire.Server(("127.0.0.1", given.port), Misbehaving, 1, OddHandler).serve_forever()


if __name__ == "__main__":
    main()
