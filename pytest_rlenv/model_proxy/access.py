"""A run's model: which provider, with whose key, within which budgets; and a server for each rollout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pytest_rlenv.errors import RecordingUnusable, SpecError
from pytest_rlenv.model_proxy.answers import Tokens
from pytest_rlenv.model_proxy.comparable import Comparing
from pytest_rlenv.model_proxy.ledger import Budget, Ledger
from pytest_rlenv.model_proxy.prices import Prices
from pytest_rlenv.model_proxy.providers import Named, find_model
from pytest_rlenv.model_proxy.recording_places import RolloutName, find_recording, recording_file
from pytest_rlenv.secret_forms import says_secret
from pytest_rlenv.secrets import SECRETS

if TYPE_CHECKING:
    from pytest_rlenv.model_proxy.exchange import Source
    from pytest_rlenv.model_proxy.proxy import ModelProxy
    from pytest_rlenv.model_proxy.replay_source import ReplaySource
    from pytest_rlenv.settings import Settings


@dataclass(frozen=True)
class ModelAccess:
    """What a run knows of its model.

    Attributes:
        named: the model, its provider and address.
        key: the real key; empty for a server that takes none, and for a replay.
        budget: what one rollout may take.
        prices: what tokens cost, where the user says so.
        record, replay: the folder where calls are kept, or taken from.
        ignore: patterns of what recorded and new requests may differ in.
    """

    named: Named
    key: str = field(default="", repr=False)
    budget: Budget = field(default_factory=Budget)
    prices: Prices | None = None
    record: Path | None = None
    replay: Path | None = None
    ignore: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: Settings, environ: Mapping[str, str]) -> ModelAccess:
        """Return what the user's settings and variables give; the key is a secret from then on.

        Raises:
            SpecError: there is no model, its provider or address is not known, its key is not set, or
                options contradict each other.
        """
        named = find_model(settings.model, settings.model_url)
        if settings.record is not None and settings.replay is not None:
            raise SpecError("--rlenv-record and --rlenv-replay: choose one")
        if settings.replay is not None and not settings.replay.is_dir():
            raise SpecError(
                f"--rlenv-replay {settings.replay}: no such folder", hint="make it with --rlenv-record"
            )
        if password := urlsplit(named.url).password:
            SECRETS.add("RLENV_MODEL_PASSWORD", password)
        prices = Prices.parse(settings.model_price) if settings.model_price else None
        limit = settings.max_rollout_cost
        if limit is not None and prices is None and not named.provider.tells_cost:
            raise SpecError(
                f"--rlenv-max-rollout-cost: {named.provider.name} does not say what its answers cost",
                hint="give the prices with --rlenv-model-price",
            )
        return cls(
            named=named,
            key="" if settings.replay is not None else _key(named, settings.model_key_env, environ),
            budget=Budget(turns=settings.max_turns, tokens=settings.max_tokens, cost=limit),
            prices=prices,
            record=settings.record,
            replay=settings.replay,
            ignore=settings.replay_ignore,
        )

    def cost_of(self, tokens: Tokens) -> float | None:
        """Return what tokens cost, in US dollars; a replay is free, and ``None`` is not known."""
        if self.replay is not None:
            return 0.0
        if tokens.cost is not None:
            return tokens.cost
        return self.prices.cost_of(tokens) if self.prices is not None else None

    def proxy(self, rollout: RolloutName, log: Path | None = None) -> ModelProxy:
        """Return a new server for a rollout; close it when the rollout has ended.

        Args:
            rollout: which one.
            log: a file that gets a line for each call.

        Raises:
            RecordingUnusable: there is no recording of it to replay, or it cannot be kept.
        """
        # with them come asyncio and an HTTP client, which most runs do without
        from pytest_rlenv.model_proxy.exchange import Terms
        from pytest_rlenv.model_proxy.proxy import ModelProxy, new_key
        from pytest_rlenv.model_proxy.recording import Recorder
        from pytest_rlenv.model_proxy.upstream import Upstream
        from pytest_rlenv.sandboxes.network.background import shared_loop

        provider = self.named.provider
        terms = Terms(new_key(), self.named.model, provider.name, self.named.wires, self.budget, self.cost_of)
        recorder = None
        if self.record is not None:
            facts = {"model": f"{provider.name}/{self.named.model}", **rollout._asdict()}
            file = recording_file(self.record, rollout)
            try:
                recorder = Recorder(file, facts)
            except OSError as error:
                raise RecordingUnusable(f"{file} cannot be written: {error.strerror or error}") from error
        if self.replay is not None:
            source: Source = self._replayed(find_recording(self.replay, rollout))
        else:
            source = Upstream(self.named.url_of, self.key, provider.messages_key)
        return ModelProxy(terms, source, Ledger(log), recorder, shared_loop())

    def _replayed(self, file: Path) -> ReplaySource:
        from pytest_rlenv.model_proxy.recording import read_recording
        from pytest_rlenv.model_proxy.replay_source import ReplaySource
        from pytest_rlenv.model_proxy.replaying import Replay

        facts, exchanges = read_recording(file)
        model = f"{self.named.provider.name}/{self.named.model}"
        if facts.get("model") != model:
            raise RecordingUnusable(
                f"{file} was recorded with model {facts.get('model')}, and this run has {model}",
                hint="choose the same --model, or record it again",
            )
        return ReplaySource(Replay(exchanges, Comparing(self.ignore)))


def _key(named: Named, variable: str | None, environ: Mapping[str, str]) -> str:
    """Return the real key, which counts as a secret from now on; empty for a server that takes none.

    Raises:
        SpecError: the variable that should hold it is not set.
    """
    names = (variable,) if variable else named.provider.key_variables
    for name in names:
        value = environ.get(name, "").strip()
        if value:
            SECRETS.add(name if says_secret(name) else f"{name}_KEY", value)  # whatever its name says
            return value
    if not names:
        return ""
    provider = named.provider.name
    raise SpecError(
        f"no key for model {provider}/{named.model}: {' or '.join(names)} is not set",
        hint="set it, or name another variable with --rlenv-model-key-env",
    )
