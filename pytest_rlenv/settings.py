"""The checked settings of a run, made from the option table."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError

from pytest_rlenv.agents.words import split_agents
from pytest_rlenv.amounts import parse_size
from pytest_rlenv.disk import MIN_FREE
from pytest_rlenv.errors import SpecError
from pytest_rlenv.model_proxy.comparable import check_pattern
from pytest_rlenv.model_proxy.prices import check_prices
from pytest_rlenv.options import OPTIONS, Value
from pytest_rlenv.prompt_template import check_template
from pytest_rlenv.reports.comparison.gate import MARGIN, check_fail_on
from pytest_rlenv.rules.budgets import check_error_limit, parse_seconds
from pytest_rlenv.rules.error_words import check_words
from pytest_rlenv.sharding.shards import Shard


def _split(raw: Any) -> Any:
    """Split ``a,b`` and lists of such texts into single words."""
    parts = [raw] if isinstance(raw, str) else raw
    return tuple(word for part in parts for word in re.split(r"[,\s]+", part.strip()) if word)


def _agents(raw: Any) -> Any:
    """Split agents as people name them."""
    return tuple(word for part in ([raw] if isinstance(raw, str) else raw) for word in split_agents(part))


def _lines(raw: Any) -> Any:
    """Take a text from the environment as words, a list as it is."""
    return tuple(raw.split()) if isinstance(raw, str) else tuple(raw)


def _texts(raw: Any) -> Any:
    """Take each text as it is, and ``@FILE`` as what the file holds; from the environment it is one."""
    return tuple(_text(given) for given in ([raw] if isinstance(raw, str) else raw))


def _text(given: str) -> str:
    if not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).expanduser().read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{given[1:]} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{given[1:]} is not UTF-8") from None


def _template(raw: Any) -> Any:
    """Read a file as a prompt template."""
    return check_template(_text(f"@{raw}"))


def _each(raw: Any) -> Any:
    """Take each text as it is; from the environment it is one."""
    return (raw,) if isinstance(raw, str) else tuple(raw)


def _pairs(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        key, equals, _ = text.partition("=")
        if not equals or not all(key.split(".")):
            raise ValueError(f"{text!r} is not KEY=VALUE")
    return texts


def _oracles(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        if ":" not in text.partition("=")[2]:
            raise ValueError(f"{text!r} is not SERVER=module:function")
    return texts


def _unique(words: tuple[str, ...]) -> tuple[str, ...]:
    for word in words:
        if words.count(word) > 1:
            raise ValueError(f"{word} is named twice")
    return words


def _fail_on(words: tuple[str, ...]) -> tuple[str, ...]:
    check_fail_on(words)
    return words


def _shard(text: str) -> str:
    return str(Shard.parse(text))


def _http_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("is not an address such as http://127.0.0.1:8000")
    if parts.query or parts.fragment:
        raise ValueError("is not an address alone: paths are put after it")
    return text.rstrip("/")


def _host_alone(text: str) -> str:
    parts = urlsplit(_http_url(text))
    if parts.scheme != "http" or parts.path.strip("/") or "@" in parts.netloc:
        raise ValueError("is not http://HOST:PORT alone, which is all that servers of NeMo Gym can be told")
    return text.rstrip("/")


def _size(raw: Any) -> Any:
    return parse_size(raw) if isinstance(raw, str) else raw


Size = Annotated[int, BeforeValidator(_size)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Words = Annotated[tuple[str, ...], BeforeValidator(_split)]
Agents = Annotated[tuple[str, ...], BeforeValidator(_agents), Field(min_length=1), AfterValidator(_unique)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_texts)]
Template = Annotated[str | None, BeforeValidator(_template)]
FrameworkName = Literal["harbor", "terminal-bench", "openenv", "nemo-gym", "verifiers"]
Patterns = Annotated[tuple[Annotated[str, AfterValidator(check_pattern)], ...], BeforeValidator(_each)]
Pairs = Annotated[tuple[str, ...], BeforeValidator(_each), AfterValidator(_pairs)]
Globs = Annotated[tuple[str, ...], BeforeValidator(_lines)]


MOST_ATTEMPTS = 10_000
"""Attempts at a task in one run: each is an item that pytest holds in memory."""


class Settings(BaseModel):
    """What the user asked for. Field names are the option names of :data:`pytest_rlenv.options.OPTIONS`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    repos: Globs = ()
    agent: Agents = ("oracle",)
    model: str | None = None
    model_url: str | None = None
    model_key_env: str | None = None
    model_price: Annotated[str, AfterValidator(check_prices)] | None = None
    max_turns: Annotated[int, Field(ge=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_rollout_cost: Annotated[Finite, Field(gt=0)] | None = None
    record: Path | None = None
    replay: Path | None = None
    replay_ignore: Patterns = ()
    task: Globs = ()
    exclude_task: Globs = ()
    limit: Annotated[int, Field(ge=1)] | None = None
    attempts: Annotated[int, Field(ge=1, le=MOST_ATTEMPTS)] = 1
    retries: Annotated[int, Field(ge=0)] = 0
    retry_on: Annotated[Words, Field(min_length=1), AfterValidator(check_words)] = ("infra",)
    quarantine: Path | None = None
    expectations: Path | None = None
    max_seconds: Annotated[Finite, BeforeValidator(parse_seconds), Field(gt=0)] | None = None
    max_cost: Annotated[Finite, Field(gt=0)] | None = None
    max_errors: Annotated[str, BeforeValidator(check_error_limit)] | None = None
    dataset: str | None = None
    framework: FrameworkName | None = None
    threshold: Finite = 1.0
    reward_key: str | None = None
    sandbox: str = "auto"
    jobs: Annotated[int, Field(ge=1)] = 1
    build: bool = False
    min_free: Size = MIN_FREE
    output: Path | None = None
    ctrf: Path | None = None
    markdown: Path | None = None
    html: Path | None = None
    github: Literal["auto", "on", "off"] = "auto"
    junit_dd_tags: bool = False
    progress: Literal["auto", "off"] = "auto"
    heartbeat: Annotated[Finite, Field(ge=0)] = 60.0
    timeout_multiplier: Annotated[Finite, Field(gt=0)] = 1.0
    limits: Literal["enforce", "ignore"] = "enforce"
    verifier: Literal["shared", "quiesce", "fresh"] = "shared"
    extra_instruction: Texts = ()
    prompt_template: Template = None
    allow_unsafe_compose: bool = False
    trust_code: bool = False
    openenv_launcher: Literal["docker", "process", "url"] | None = None
    openenv_url: Annotated[str, AfterValidator(_http_url)] | None = None
    openenv_image: str | None = None
    openenv_python: str | None = None
    openenv_command: str | None = None
    openenv_tasks: Path | None = None
    openenv_task_key: str | None = None
    openenv_reward: Literal["last", "sum", "max", "final"] = "last"
    openenv_max_steps: Annotated[int, Field(ge=1)] = 100
    openenv_step_timeout: Annotated[Finite, BeforeValidator(parse_seconds), Field(gt=0)] = 120.0
    openenv_env_error: Literal["error", "agent"] = "error"
    taskset: str | None = None
    taskset_option: Pairs = ()
    verifiers_python: str | None = None
    verifiers_env: Words = ()
    verifiers_harness: str | None = None
    verifiers_seat: str | None = None
    verifiers_gold: str | None = None
    nemo_python: str | None = None
    nemo_server: str | None = None
    nemo_url: Annotated[str, AfterValidator(_http_url)] | None = None
    nemo_oracle: Annotated[Pairs, AfterValidator(_oracles)] = ()
    nemo_judge_url: Annotated[str, AfterValidator(_host_alone)] | None = None
    nemo_ray: bool = False
    allow_unscored: bool = False
    baseline: Path | None = None
    fail_on: Annotated[Words, AfterValidator(_fail_on)] = ()
    margin: Annotated[Finite, Field(gt=0, le=1)] = MARGIN
    resume: Path | None = None
    shard: Annotated[str, AfterValidator(_shard)] | None = None
    durations: Path | None = None

    sources: Annotated[Mapping[str, str], Field(default_factory=dict)]
    """Where each value that is not a default came from, by option name."""

    @property
    def model_words(self) -> str:
        """The model as the header names it: where it is, and whether its calls are kept or replayed."""
        if self.model is None:
            return ""
        if self.replay is not None:
            return f"{self.model} (replayed from {self.replay})"
        at = f" at {urlsplit(self.model_url).netloc.rpartition('@')[2]}" if self.model_url else ""
        return f"{self.model}{at}{f' (recorded in {self.record})' if self.record else ''}"

    @property
    def passwords(self) -> dict[str, str]:
        """The passwords in addresses of servers, by what is shown in their place."""
        given = ((name, getattr(self, name)) for name in ("openenv_url", "nemo_url"))
        return {
            f"RLENV_{name.upper()}_PASSWORD": password
            for name, url in given
            if url is not None and (password := urlsplit(url).password)
        }

    @property
    def conditions(self) -> dict[str, JsonValue]:
        """What of it the result of a rollout depends on, beside the task, the agent and the sandbox."""
        found: dict[str, JsonValue] = {
            "timeout_multiplier": self.timeout_multiplier,
            "limits": self.limits,
            "verifier": self.verifier,
            "build": self.build,
        }
        for name in ("max_turns", "max_tokens", "max_rollout_cost"):
            if (limit := getattr(self, name)) is not None:
                found[name] = limit
        if self.replay is not None:
            found["model_calls"] = "replayed"
        for name in ("launcher", "image", "command", "task_key", "reward", "max_steps", "env_error"):
            if (key := f"openenv_{name}") in self.sources:
                found[key] = getattr(self, key)
        if self.trust_code:
            found["trust_code"] = True
        for name in ("verifiers_harness", "verifiers_seat", "verifiers_gold"):
            if (chosen := getattr(self, name)) is not None:
                found[name] = chosen
        if self.nemo_server is not None:
            found["nemo_server"] = self.nemo_server
        for name in ("openenv_url", "nemo_url", "nemo_judge_url"):
            if (url := getattr(self, name)) is not None:
                found[name] = urlsplit(url).netloc.rpartition("@")[2]
        if self.nemo_oracle:
            found["nemo_oracle"] = list(self.nemo_oracle)
        if self.extra_instruction:
            text = "\0".join(self.extra_instruction)
            found["extra_instruction"] = hashlib.sha256(text.encode()).hexdigest()[:16]
        if self.prompt_template:
            found["prompt_template"] = hashlib.sha256(self.prompt_template.encode()).hexdigest()[:16]
        return found


def _said(message: str) -> str:
    """Return pydantic's words as part of a sentence; what our own checks say is one already."""
    own = message.removeprefix("Value error, ")
    return message.lower() if own == message else own


def load_settings(values: Mapping[str, Value]) -> Settings:
    """Check the given values.

    Raises:
        SpecError: naming the option, its source and the value.
    """
    try:
        return Settings(
            **{name: value.raw for name, value in values.items()},
            sources={name: value.source for name, value in values.items()},
        )
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        value = values[name]
        help_text = next(option.help for option in OPTIONS if option.name == name)
        raise SpecError(
            f"{value.source} = {value.raw!r}: {_said(first['msg'])}", hint=f"{name}: {help_text}"
        ) from error
