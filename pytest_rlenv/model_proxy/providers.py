"""Who has models: addresses, the variables that hold keys, and what each provider speaks."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from pytest_rlenv.errors import SpecError
from pytest_rlenv.model_proxy.wires import Wire

ALL = (Wire.CHAT, Wire.RESPONSES, Wire.MESSAGES)
_OPENAI_BELOW_GOOGLE = "/openai"
CUSTOM = "custom"
"""The provider of a model that is only known by its address."""


@dataclass(frozen=True)
class Provider:
    """One provider.

    Attributes:
        name: the word before the slash in ``--model``.
        url: its base URL, before ``/chat/completions`` and the like; empty if it has none of its own.
        key_variables: where its key may be, the first that is set; none for a server that takes no key.
        wires: what it speaks.
        messages_key: the header with the key on Anthropic's wire; it is a bearer token if this is empty.
        messages_url: its base URL on that wire, if it is another.
        tells_cost: True if its answers say what they cost.
    """

    name: str
    url: str = ""
    key_variables: tuple[str, ...] = ()
    wires: tuple[Wire, ...] = (Wire.CHAT,)
    messages_key: str = ""
    messages_url: str = ""
    tells_cost: bool = False


_TWO = (Wire.CHAT, Wire.RESPONSES)

PROVIDERS = {
    each.name: each
    for each in (
        Provider("openai", "https://api.openai.com/v1", ("OPENAI_API_KEY",), _TWO),
        Provider(
            "anthropic",
            "https://api.anthropic.com/v1",
            ("ANTHROPIC_API_KEY",),
            (Wire.CHAT, Wire.MESSAGES),
            messages_key="x-api-key",
        ),
        Provider(
            "google",
            "https://generativelanguage.googleapis.com/v1beta/openai",
            ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            (Wire.CHAT, Wire.GOOGLE),
        ),
        Provider("huggingface", "https://router.huggingface.co/v1", ("HF_TOKEN",), ALL),
        Provider("openrouter", "https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",), ALL, tells_cost=True),
        Provider("groq", "https://api.groq.com/openai/v1", ("GROQ_API_KEY",), _TWO),
        Provider("xai", "https://api.x.ai/v1", ("XAI_API_KEY",), _TWO),
        Provider(
            "deepseek",
            "https://api.deepseek.com/v1",
            ("DEEPSEEK_API_KEY",),
            (Wire.CHAT, Wire.MESSAGES),
            messages_key="x-api-key",
            messages_url="https://api.deepseek.com/anthropic/v1",
        ),
        Provider("mistral", "https://api.mistral.ai/v1", ("MISTRAL_API_KEY",)),
        Provider("together", "https://api.together.ai/v1", ("TOGETHER_API_KEY",)),
        Provider("fireworks", "https://api.fireworks.ai/inference/v1", ("FIREWORKS_API_KEY",), ALL),
        Provider(
            "moonshot",
            "https://api.moonshot.ai/v1",
            ("MOONSHOT_API_KEY",),
            ALL,
            messages_url="https://api.moonshot.ai/anthropic/v1",
        ),
        Provider("ollama", "http://127.0.0.1:11434/v1", wires=ALL),
        Provider("vllm", "http://127.0.0.1:8000/v1", wires=ALL),
        Provider(CUSTOM, wires=ALL),
    )
}
"""By name. Base URLs and variables are those that each provider's own documentation gives."""


@dataclass(frozen=True)
class Named:
    """A model as the user named it.

    Attributes:
        provider: who has it.
        model: its name there.
        url: the base URL, without a slash at its end.
        wires: what is spoken there: any, as far as we know, at an address of the user's own.
    """

    provider: Provider
    model: str
    url: str
    wires: tuple[Wire, ...]

    def url_of(self, wire: Wire) -> str:
        """Return the base URL for a wire."""
        if wire is Wire.GOOGLE:
            return self.url.removesuffix(_OPENAI_BELOW_GOOGLE)  # the one for OpenAI's is a folder of it
        if wire is Wire.MESSAGES and self.url == self.provider.url:
            return self.provider.messages_url or self.url
        return self.url


def find_model(text: str | None, url: str | None = None) -> Named:
    """Return what ``--model`` and ``--rlenv-model-url`` name.

    With a URL, a first word that is no known provider is part of the model's name.

    Raises:
        SpecError: there is no model, its provider is not known, or the URL is none.
    """
    if not text:
        raise SpecError(
            "the agent calls a model, and none is named", hint="say --model provider/name, and which one"
        )
    word, slash, rest = text.partition("/")
    provider = PROVIDERS.get(word) if slash else None
    if provider is None and url:
        provider, rest = PROVIDERS[CUSTOM], text
    if provider is None or not rest:
        known = ", ".join(name for name in PROVIDERS if name != CUSTOM)
        raise SpecError(
            f"--rlenv-model {text}: not a model of a known provider",
            hint=f"say provider/name, with one of {known}; or give the address with --rlenv-model-url",
        )
    address = _checked(url or provider.url, text)
    own = provider.wires if address.endswith(_OPENAI_BELOW_GOOGLE) else ()
    return Named(provider, rest, address, tuple(dict.fromkeys([*ALL, *own])) if url else provider.wires)


def _checked(url: str, model: str) -> str:
    if not url:
        raise SpecError(f"--rlenv-model {model}: no address", hint="give it with --rlenv-model-url")
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise SpecError(
            f"--rlenv-model-url {url}: not an http:// or https:// address",
            hint="it is what clients call the base URL, such as http://127.0.0.1:8000/v1",
        )
    return url.rstrip("/")
