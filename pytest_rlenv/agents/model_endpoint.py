"""Where an agent reaches its model during a rollout."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class ModelEndpoint:
    """A server that an agent calls in place of its model's provider. It ends with the rollout.

    It speaks what the provider speaks: OpenAI's chat completions and responses, Anthropic's messages, or
    Google's own. What is called is counted, held to the run's budgets and may be recorded; the provider's own
    key stays out of the box.

    Attributes:
        openai_base_url: what OpenAI's clients call the base URL, with ``/v1`` at its end.
        anthropic_base_url: what Anthropic's clients call it, without ``/v1``.
        key: the key to show there, good for this rollout alone.
        model: the model's name to ask for.
        provider: the word for who has the model, such as ``openai``.
        wires: which of ``chat``, ``responses``, ``messages`` and ``google`` are answered.
        google_base_url: what Google's clients call the base URL, without ``/v1beta``.
    """

    openai_base_url: str
    anthropic_base_url: str
    key: str = field(repr=False)
    model: str = ""
    provider: str = ""
    wires: tuple[str, ...] = ("chat",)
    google_base_url: str = ""
