"""The rows of the option table for frameworks whose tasks have no box."""

from __future__ import annotations

from pytest_rlenv.option import Option

ROWS: tuple[Option, ...] = (
    Option(
        "trust_code",
        "let the code of environments run on this machine outside of a container, as servers and "
        "interpreters of some frameworks do; for environments that you trust as you trust your own scripts",
    ),
    Option(
        "openenv_launcher",
        "OpenEnv: how an environment's server is run: docker, from its image; process, on this machine, with "
        "--rlenv-trust-code; url, one that is up already (default: docker, or url with --rlenv-openenv-url)",
        "HOW",
        choices=("docker", "process", "url"),
    ),
    Option(
        "openenv_url", "OpenEnv: the address of a server that is up, such as http://127.0.0.1:8000", "URL"
    ),
    Option(
        "openenv_image",
        "OpenEnv: the image that servers are started from (default: built from the environment's Dockerfile)",
        "IMAGE",
    ),
    Option(
        "openenv_python",
        "OpenEnv: the interpreter with the environment's packages for --rlenv-openenv-launcher process "
        "(default: uv run, which installs them)",
        "PATH",
    ),
    Option(
        "openenv_command",
        "OpenEnv: what to start for --rlenv-openenv-launcher process, with {port}, and maybe {python}, in it "
        "(default: uvicorn with the app of openenv.yaml)",
        "COMMAND",
    ),
    Option(
        "openenv_tasks",
        "OpenEnv: a YAML or JSON file with the list of tasks, in place of what the environment says",
        "FILE",
    ),
    Option(
        "openenv_task_key",
        "OpenEnv: the argument of reset that takes the id of a task from the list `tasks` of openenv.yaml",
        "NAME",
    ),
    Option(
        "openenv_reward",
        "OpenEnv: which reward an episode has: the last of its steps', their sum, the max, or the final one: "
        "that of the step that ended it (default: last)",
        "WHICH",
        choices=("last", "sum", "max", "final"),
    ),
    Option(
        "openenv_max_steps", "OpenEnv: steps that an agent has where the task sets none (default: 100)", "N"
    ),
    Option(
        "openenv_step_timeout",
        "OpenEnv: seconds for a reset or a step of the environment's (default: 120)",
        "SECONDS",
    ),
    Option(
        "openenv_env_error",
        "OpenEnv: what an error in the environment's own code is when an agent of yours has made a step: an "
        "error of the rollout, or an answer for the agent (default: error)",
        "WHAT",
        choices=("error", "agent"),
    ),
    Option(
        "taskset",
        "Verifiers: the taskset whose tasks become test items, as its id or owner/id; with --rlenv, what "
        "scores the rows there; alone, it is the environment",
        "ID",
    ),
    Option(
        "taskset_option",
        "Verifiers: a value of the taskset's own configuration; VALUE is JSON, else text, and a dot in KEY "
        "goes one level down; may be repeated",
        "KEY=VALUE",
        many=True,
    ),
    Option(
        "verifiers_python",
        "Verifiers: the interpreter that has verifiers and the taskset (default: this one, else that of "
        "vf-eval on the PATH)",
        "PATH",
    ),
    Option(
        "verifiers_env",
        "Verifiers: variables of yours, separated by commas, that the taskset is given though their names "
        "say that they are secret",
        "NAMES",
        many=True,
    ),
    Option(
        "verifiers_harness",
        "Verifiers: the harness in which the model acts, such as null or bash (default: the taskset's own, "
        "else bash)",
        "ID",
    ),
    Option(
        "verifiers_seat",
        "Verifiers: whose rewards are judged where several agents take part (default: the first seat)",
        "NAME",
    ),
    Option(
        "verifiers_gold",
        "Verifiers: have the oracle give this answer, with fields of the row such as {answer} in it, and "
        "judge its reward, in place of the task's own gold check",
        "TEMPLATE",
    ),
    Option(
        "nemo_python",
        "NeMo Gym: the interpreter that has nemo-gym, which servers are started in (default: this one, if it "
        "has it)",
        "PATH",
    ),
    Option(
        "nemo_server",
        "NeMo Gym: the server that judges all rows: its name or its agent's, or a file of the environment "
        "(default: as the rows, their file or their repository say)",
        "NAME",
    ),
    Option(
        "nemo_url",
        "NeMo Gym: the address of a resources server that is up, which judges all rows",
        "URL",
    ),
    Option(
        "nemo_oracle",
        "NeMo Gym: your own oracle for the rows of a server, or of any with * in place of its name: a "
        "function that takes a row and returns the items of a response; may be repeated",
        "SERVER=MODULE:FUNCTION",
        many=True,
    ),
    Option(
        "nemo_judge_url",
        "NeMo Gym: a model server (/v1/responses) for servers that ask a model to judge; without it their "
        "rows are skipped",
        "URL",
    ),
    Option("nemo_ray", "NeMo Gym: let servers that need it start Ray, which takes 2 GB of memory each"),
)
