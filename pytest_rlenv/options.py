"""Every option in one table: command line, environment variable and ini value, and who of them wins.

The command line beats the environment, which beats the ini file, which beats the default. The table is read
at every pytest start, so it is plain data; :mod:`pytest_rlenv.settings` turns the values into checked ones.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_rlenv.frameworks.option_rows import ROWS
from pytest_rlenv.option import Option

if TYPE_CHECKING:
    import pytest


OPTIONS: tuple[Option, ...] = (
    Option(
        "repos",
        "environment whose tasks become test items: org/repo[@rev][/folder], hf://..., a Hub URL or a local "
        "folder. May be repeated. The ini key rlenv_repos acts like testpaths.",
        "SPEC",
        many=True,
        flag="--rlenv",
        env=False,
    ),
    Option(
        "agent",
        "agents to run, separated by commas: oracle, nop, bash, model, replay:PATH and others by name, "
        "each maybe with :variant; or your own as module:Class or module:function (default: oracle)",
        "NAMES",
        many=True,
        alias="--agent",
    ),
    Option("model", "model for agents that use one, as provider/name", "MODEL", alias="--model"),
    Option(
        "model_url",
        "the address of the model's server, as its clients' base URL, such as http://127.0.0.1:8000/v1",
        "URL",
    ),
    Option(
        "model_key_env",
        "the variable that holds the key for it (default: that of the provider, such as OPENAI_API_KEY)",
        "NAME",
    ),
    Option(
        "model_price",
        "what the model costs in USD for 1M tokens, as INPUT/OUTPUT or INPUT/OUTPUT/CACHED",
        "PRICES",
    ),
    Option("max_turns", "answers of the model that an agent gets in a rollout", "N"),
    Option("max_tokens", "tokens, input and output, that the model takes in a rollout", "N"),
    Option("max_rollout_cost", "USD that the model costs in a rollout", "USD"),
    Option("record", "keep all calls of the model in DIR, to be replayed", "DIR"),
    Option("replay", "answer all calls of the model from those that were recorded in DIR", "DIR"),
    Option(
        "replay_ignore",
        "a regular expression for texts in which a call may differ from the recorded one; may be repeated",
        "REGEX",
        many=True,
    ),
    Option("task", "run only tasks whose id matches this glob; may be repeated", "GLOB", many=True),
    Option("exclude_task", "leave out tasks whose id matches this glob; may be repeated", "GLOB", many=True),
    Option("limit", "run at most N tasks of each environment, the first by id", "N"),
    Option("attempts", "run each task N times with each agent (default: 1)", "N"),
    Option("retries", "run a rollout that an error ended again, up to N times (default: 0)", "N"),
    Option(
        "retry_on",
        "after which errors, separated by commas: kinds (infra, task, agent, config) or types such as "
        "SandboxFailed (default: infra)",
        "KINDS",
        many=True,
    ),
    Option("quarantine", "TOML file of rollouts that do not gate, each for a reason and until a day", "FILE"),
    Option("expectations", "TOML file of what rewards must be, by task and agent", "FILE"),
    Option("max_seconds", "start no more rollouts after so long, such as 1800 or 30m", "SECONDS"),
    Option("max_cost", "start no more rollouts once the agents' usage.cost_usd adds up to USD", "USD"),
    Option(
        "max_errors",
        "start no more rollouts after N errors, or once P% of those that ended (10 or more) are errors",
        "N|P%",
    ),
    Option("dataset", "take the tasks from this entry of the environment's registry.json", "NAME[@VERSION]"),
    Option(
        "framework",
        "take the tasks of this framework only, wherever they might be; else the files' shape decides",
        "NAME",
        choices=("harbor", "terminal-bench", "openenv", "nemo-gym", "verifiers"),
    ),
    Option("threshold", "reward that an agent must reach, and that nop must stay below (default: 1.0)", "R"),
    Option("reward_key", "the reward to judge where a verifier gives several (default: reward)", "KEY"),
    Option(
        "sandbox",
        "where rollouts run: docker; local or local-host, for trusted tasks on Linux; auto, which is docker "
        "where an engine answers, else local-host (this machine's userland) if no selected task needs an "
        "image; or your own as module:Class (default: auto)",
        "NAME",
    ),
    Option(
        "jobs",
        "run up to N rollouts at once in one process; not with xdist's -n, except -n 0 (default: 1)",
        "N",
    ),
    Option(
        "build",
        "build images from the tasks' Dockerfiles also where a task names a prebuilt one (docker_image)",
    ),
    Option(
        "min_free",
        "make no image where less than SIZE is free, such as 500M; 0 never minds (default: 1G)",
        "SIZE",
    ),
    Option("output", "folder for results and logs (default: .rlenv/<run>)", "DIR"),
    Option("ctrf", "write the results to FILE as CTRF JSON, too", "FILE"),
    Option(
        "markdown", "write a summary to FILE, for a comment on a pull request that is kept up to date", "FILE"
    ),
    Option(
        "github",
        "annotations and a job summary for GitHub Actions; auto is where GITHUB_ACTIONS is set "
        "(default: auto)",
        "WHEN",
        choices=("auto", "on", "off"),
    ),
    Option("html", "write the run as one HTML page to FILE when it ends, to be read from disk", "FILE"),
    Option("junit_dd_tags", "give JUnit properties a second time, as dd_tags[...] for Datadog"),
    Option(
        "progress",
        "on a terminal, a line of what runs since when; auto is where pytest captures output (default: auto)",
        "WHEN",
        choices=("auto", "off"),
    ),
    Option(
        "heartbeat",
        "without such a line, say what runs when nothing was said for SECONDS; 0 never does (default: 60)",
        "SECONDS",
    ),
    Option("timeout_multiplier", "multiply the tasks' time limits by X (default: 1)", "X"),
    Option(
        "limits",
        "enforce the tasks' cpu and memory limits, or ignore them (default: enforce)",
        "WHAT",
        choices=("enforce", "ignore"),
    ),
    Option(
        "verifier",
        "how far a verifier in the agent's box is kept from what the agent left: shared, as the task says; "
        "quiesce, all processes are killed first; fresh, in a new box with the agent's working directory "
        "(default: shared). A task's own separate verifier stays one.",
        "LEVEL",
        choices=("shared", "quiesce", "fresh"),
    ),
    Option(
        "extra_instruction",
        "a text that agents are given after the task's instruction, or @FILE with one; may be repeated",
        "TEXT",
        many=True,
    ),
    Option(
        "prompt_template",
        "a file with the words around each instruction for agents; {{ instruction }} is its place in them",
        "FILE",
    ),
    Option(
        "allow_unsafe_compose",
        "let the tasks' Compose files ask for what reaches out of containers: privileges, devices, the "
        "host's namespaces and folders; for tasks that you trust as you trust your own scripts",
    ),
    *ROWS,
    Option("allow_unscored", "let a run exit 0 though it selected tasks and scored none of them"),
    Option(
        "baseline",
        "compare with the run stored there: a run's folder, its results.jsonl, or the JUnit file of it",
        "PATH",
    ),
    Option(
        "fail_on",
        "let the run fail also on what --rlenv-baseline shows, separated by commas: regression, "
        "inconclusive, broken (any task), error (any that the baseline scored), gone (any that is listed "
        "no more, or had no turn); where nothing could be compared, any of them fails it",
        "WORDS",
    ),
    Option(
        "margin",
        'the fall that "no regression" rules out, as a share of the range of rewards (default: 0.05)',
        "X",
    ),
    Option(
        "resume",
        "keep what the run stored there has scored already, and run the rest; the same folder as "
        "--rlenv-output goes on with that run",
        "RUN",
    ),
    Option("shard", "run only part I of N of the tasks; all parts take about as long", "I/N"),
    Option(
        "durations",
        "a run's folder or results.jsonl from which --rlenv-shard takes how long tasks take",
        "PATH",
    ),
)
"""The one table. ``--help``, the ini keys, the variables and the docs come from it."""


RULES = ("quarantine", "expectations", "max_seconds", "max_cost", "max_errors")
"""Options that set a rule over a whole run."""


def add_options(parser: pytest.Parser) -> None:
    """Register the table's flags and ini keys with pytest."""
    group = parser.getgroup("rlenv", "tasks of RL environments as test items")
    for option in OPTIONS:
        text = option.help.replace("%", "%%")  # as argparse wants it
        keywords: dict[str, Any] = {"dest": option.dest, "default": None, "help": text}
        if option.metavar is None:
            keywords["action"] = "store_true"
        else:
            keywords |= {"action": "append" if option.many else "store", "metavar": option.metavar}
        if option.choices:
            keywords["choices"] = option.choices
        if option.alias:
            keywords["help"] += f" [short: {option.alias}]"
        group.addoption(option.cli_flag, **keywords)
        ini_type: Any = "bool" if option.metavar is None else "linelist" if option.many else "string"
        parser.addini(option.ini_key, option.help, type=ini_type, default=None)


def replace_aliases(parser: pytest.Parser, args: list[str]) -> None:
    """Put the long flags in the place of the short ones that nobody else has registered.

    Args:
        parser: pytest's, after all conftests of the start have had their say.
        args: the command line; changed in place.
    """
    for option in OPTIONS:
        alias = option.alias
        if alias is None or not any(arg == alias or arg.startswith(alias + "=") for arg in args):
            continue
        _, unknown = parser.parse_known_and_unknown_args([alias, "value"])
        if alias in unknown:
            args[:] = [
                option.cli_flag + arg[len(alias) :] if arg == alias or arg.startswith(alias + "=") else arg
                for arg in args
            ]


class Value(NamedTuple):
    """A value as the user gave it, and where: ``--rlenv-limit``, ``env RLENV_LIMIT``, ``ini rlenv_limit``."""

    raw: Any
    source: str


def read_options(config: pytest.Config, environ: Mapping[str, str] | None = None) -> dict[str, Value]:
    """Return the options that were given anywhere, by name; the strongest source wins."""
    environ = os.environ if environ is None else environ
    found: dict[str, Value] = {}
    for option in OPTIONS:
        from_cli = getattr(config.option, option.dest, None)
        from_env = environ.get(option.variable) if option.env else None
        from_ini = config.getini(option.ini_key)
        if from_cli is not None:
            found[option.name] = Value(from_cli, option.cli_flag)
        elif from_env:
            found[option.name] = Value(from_env, f"env {option.variable}")
        elif from_ini not in (None, "", []):
            found[option.name] = Value(from_ini, f"ini {option.ini_key}")
    return found
