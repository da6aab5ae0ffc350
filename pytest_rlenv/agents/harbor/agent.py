"""``harbor:NAME``: an agent that comes with Harbor, or one that is written for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from pytest_rlenv.agents.harbor.box_calls import BoxCalls
from pytest_rlenv.agents.harbor.process import ChildFailed, HarborProcess, command
from pytest_rlenv.agents.model_endpoint import ModelEndpoint
from pytest_rlenv.agents.protocol import Agent, AgentContext, AgentOutcome, AgentStopped, Stop
from pytest_rlenv.errors import AgentFailed, SpecError, Stage
from pytest_rlenv.model_proxy.providers import PROVIDERS
from pytest_rlenv.text import tail

PYTHON = "RLENV_HARBOR_PYTHON"
"""The variable that names the interpreter with Harbor in it."""
LOG = "harbor.txt"

_HERE = frozenset({"terminus-2", "computer-1", "dspy-rlm", "nop", "oracle"})
"""Harbor's own agents that call the model from its process, not from the box."""
_CHECK_LIMIT = 120.0
_FINISH_LIMIT = 45.0
_USAGE = {
    "input_tokens": "n_input_tokens",
    "output_tokens": "n_output_tokens",
    "cached_tokens": "n_cache_tokens",
    "cost_usd": "cost_usd",
}
_STOPS = {
    "ContextWindowExceededError": Stop.CONTEXT_EXCEEDED,
    "ContextLengthExceededError": Stop.CONTEXT_EXCEEDED,
    "AgentSafetyRefusalError": Stop.REFUSAL,
    "ContentPolicyViolationError": Stop.REFUSAL,
}


class HarborAgent(Agent):
    """Run the agent in a child process of Harbor's interpreter; its commands and files go to our box.

    It installs itself in each box, as it does under Harbor.
    """

    name = "harbor"
    variants = "the name of an agent of Harbor's, or module:Class"

    def __init__(self, model: str | None = None) -> None:
        super().__init__(model)
        self.needs_model = model is not None
        self._process: HarborProcess | None = None

    @property
    def calls_model_from_box(self) -> bool:
        """False for agents that run outside the box: Harbor's few such ones, and those of others."""
        return self.variant not in _HERE and ":" not in self.variant

    def check(self) -> None:
        """See that there is a Harbor with such an agent."""
        if not self.variant:
            raise SpecError("agent harbor: whose agent?", hint="say harbor:NAME, such as harbor:terminus-2")
        _check(find_python(os.environ), self.variant)

    def prepare(self, context: AgentContext) -> None:
        """Start the child, and let the agent set itself up."""
        endpoint = context.model_endpoint
        self._process = HarborProcess(
            find_python(os.environ), _variables(os.environ, endpoint), context.logs / LOG
        )
        request = {
            "agent": self.variant,
            "model": _model(self.model, endpoint),
            "task": context.task or "task",
            "session": uuid.uuid4().hex,
            "logs": str(context.logs),
            "user": context.box.user,
            "mcp_servers": [
                {
                    "name": each.name,
                    "transport": each.transport,
                    "url": each.url,
                    "command": each.command,
                    "args": list(each.args),
                    "headers": dict(each.headers),
                }
                for each in context.mcp_servers
            ],
            "skills_dir": context.skills_dir,
        }
        try:
            told = self._process.ask("prepare", request, BoxCalls(context.box), lambda: context.box.remaining)
        except ChildFailed as failure:
            raise AgentFailed(
                f"agent harbor:{self.variant}: it could not be set up: {failure}",
                detail=tail(failure.detail),
                stage=Stage.AGENT_SETUP,
            ) from None
        self.version = told["version"]

    def run(self, context: AgentContext) -> AgentOutcome:
        """Let the agent act on the instruction."""
        if self._process is None:
            raise AgentFailed(f"agent harbor:{self.variant}: it was not prepared")
        request = {
            "instruction": context.instruction,
            "logs": str(context.logs),
            "resume": context.resume,
        }
        try:
            self._process.ask("run", request, BoxCalls(context.box), lambda: context.box.remaining)
        except ChildFailed as failure:
            if failure.judged:
                kind = _STOPS.get(failure.type, Stop.GAVE_UP)
                raise AgentStopped(" ".join(str(failure).split())[:500], kind) from None
            raise AgentFailed(
                f"agent harbor:{self.variant} raised {failure}", detail=tail(failure.detail)
            ) from None
        return AgentOutcome()

    def finish(self, context: AgentContext) -> AgentOutcome | None:
        """Let the agent read its logs, and tell what it has used."""
        if self._process is None:
            return None
        told = self._process.ask("finish", {}, BoxCalls(context.box), _left(_FINISH_LIMIT))
        usage = told["usage"]
        return AgentOutcome(usage={key: usage[name] for key, name in _USAGE.items() if name in usage})


def _left(seconds: float) -> Callable[[], float]:
    end = time.monotonic() + seconds
    return lambda: max(0.0, end - time.monotonic())


def find_python(environ: Mapping[str, str]) -> str:
    """Return the interpreter that has Harbor: the one that the user names, else that of ``harbor`` itself.

    Raises:
        SpecError: there is none.
    """
    if named := environ.get(PYTHON):
        if shutil.which(named) is None:
            raise SpecError(f"{PYTHON}={named}: there is no such program")
        return named
    program = shutil.which("harbor", path=environ.get("PATH"))
    if program is not None:
        with Path(program).open("rb") as file:
            first = file.readline(4096).decode("utf-8", "replace").strip()
        python = first.removeprefix("#!").strip()
        if first.startswith("#!") and shutil.which(python) is not None:
            return python
    raise SpecError(
        "agents of Harbor's need an installed Harbor, and none was found",
        hint=f"`uv tool install harbor`, or name an interpreter that has it in {PYTHON}",
    )


@cache
def _check(python: str, agent: str) -> None:
    try:
        done = subprocess.run(
            command(python, "check", agent), capture_output=True, text=True, timeout=_CHECK_LIMIT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SpecError(f"agent harbor:{agent}: {python} cannot be run: {error}") from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise SpecError(
            f"agent harbor:{agent}: {last}",
            hint=f"asked of {python}; Harbor 0.26 is the version that this was written for",
        )


def _variables(environ: Mapping[str, str], endpoint: ModelEndpoint | None) -> dict[str, str]:
    """Return the child's variables: the caller's, with our endpoint in place of the provider's own.

    The keys of all providers are taken out: agents of Harbor's that run in the box hand on what they find.
    """
    known = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", **environ}  # else prices are fetched at each start
    if endpoint is None:
        return known
    keys = {name for provider in PROVIDERS.values() for name in provider.key_variables}
    return {
        **{name: value for name, value in known.items() if name not in keys},
        "OPENAI_API_KEY": endpoint.key,
        "OPENAI_BASE_URL": endpoint.openai_base_url,
        "OPENAI_API_BASE": endpoint.openai_base_url,
        "ANTHROPIC_API_KEY": endpoint.key,
        "ANTHROPIC_BASE_URL": endpoint.anthropic_base_url,
        "ANTHROPIC_API_BASE": endpoint.anthropic_base_url,
    }


def _model(model: str | None, endpoint: ModelEndpoint | None) -> str | None:
    """Return the model as Harbor is to name it, so that it calls our endpoint."""
    if endpoint is None:
        return model
    provider = "anthropic" if endpoint.provider == "anthropic" else "openai"
    return f"{provider}/{endpoint.model}"
