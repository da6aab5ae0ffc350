"""From options and variables to a model: provider, address, key, prices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_rlenv.errors import SpecError
from pytest_rlenv.model_proxy.access import ModelAccess
from pytest_rlenv.model_proxy.answers import Tokens
from pytest_rlenv.model_proxy.prices import Prices
from pytest_rlenv.model_proxy.providers import ALL, PROVIDERS, find_model
from pytest_rlenv.model_proxy.wires import Wire
from pytest_rlenv.secrets import SECRETS
from pytest_rlenv.settings import Settings

URL = "http://127.0.0.1:8000/v1"


@pytest.mark.parametrize(
    ("text", "url", "found"),
    [
        ("openai/gpt-x", None, ("openai", "gpt-x", "https://api.openai.com/v1")),
        ("anthropic/claude-x", None, ("anthropic", "claude-x", "https://api.anthropic.com/v1")),
        ("openrouter/z-ai/glm", None, ("openrouter", "z-ai/glm", "https://openrouter.ai/api/v1")),
        ("huggingface/Q/Q3:fast", None, ("huggingface", "Q/Q3:fast", "https://router.huggingface.co/v1")),
        ("ollama/q", None, ("ollama", "q", "http://127.0.0.1:11434/v1")),
        ("openai/gpt-x", f"{URL}/", ("openai", "gpt-x", URL)),
        ("custom/q", URL, ("custom", "q", URL)),
        ("Qwen/Qwen3-32B", URL, ("custom", "Qwen/Qwen3-32B", URL)),
        ("qwen", URL, ("custom", "qwen", URL)),
    ],
)
def test_models_and_where_they_are(text: str, url: str | None, found: tuple[str, str, str]) -> None:
    named = find_model(text, url)
    assert (named.provider.name, named.model, named.url) == found
    assert named.wires == (ALL if url else PROVIDERS[found[0]].wires)


def test_googles_own_wire_is_above_the_one_for_openais_clients() -> None:
    named = find_model("google/gemini-x")
    assert named.url_of(Wire.GOOGLE) == "https://generativelanguage.googleapis.com/v1beta"
    assert Wire.GOOGLE in named.wires
    here = find_model("google/gemini-x", "http://127.0.0.1:1/v1beta/openai")
    assert here.url_of(Wire.GOOGLE) == "http://127.0.0.1:1/v1beta"
    assert Wire.GOOGLE in here.wires
    assert Wire.GOOGLE not in find_model("google/gemini-x", "http://127.0.0.1:1/v1").wires
    assert Wire.GOOGLE not in find_model("openai/x").wires


def test_some_speak_anthropics_wire_elsewhere() -> None:
    named = find_model("deepseek/x")
    assert named.url_of(Wire.CHAT) == "https://api.deepseek.com/v1"
    assert named.url_of(Wire.MESSAGES) == "https://api.deepseek.com/anthropic/v1"
    assert find_model("deepseek/x", URL).url_of(Wire.MESSAGES) == URL
    assert find_model("anthropic/x").url_of(Wire.MESSAGES) == "https://api.anthropic.com/v1"


@pytest.mark.parametrize(
    ("text", "url", "words"),
    [
        (None, None, "none is named"),
        ("", URL, "none is named"),
        ("gpt-x", None, "not a model of a known provider"),
        ("nobody/gpt-x", None, "not a model of a known provider"),
        ("openai/", None, "not a model of a known provider"),
        ("custom/q", None, "no address"),
        ("openai/q", "127.0.0.1:8000", "not an http"),
        ("openai/q", "ftp://x/v1", "not an http"),
        ("openai/q", "http://", "not an http"),
        ("openai/q", "http://x:99999999", "not an http"),
    ],
)
def test_what_names_no_model(text: str | None, url: str | None, words: str) -> None:
    with pytest.raises(SpecError, match=words) as caught:
        find_model(text, url)
    assert caught.value.hint


def test_every_provider_is_known_by_its_name_and_has_an_address() -> None:
    for name, provider in PROVIDERS.items():
        assert provider.name == name
        assert provider.wires
        assert provider.url.startswith("http") or name == "custom"
        assert not provider.url.endswith("/")


@pytest.mark.parametrize(
    ("settings", "environ", "key"),
    [
        ({"model": "openai/x"}, {"OPENAI_API_KEY": "sk-one-two-three"}, "sk-one-two-three"),
        ({"model": "google/x"}, {"GOOGLE_API_KEY": "AIza-one-two-three"}, "AIza-one-two-three"),
        ({"model": "openai/x", "model_key_env": "MINE"}, {"MINE": " k-one-two-three\n"}, "k-one-two-three"),
        ({"model": "ollama/x"}, {}, ""),
        ({"model": "x", "model_url": URL}, {"OPENAI_API_KEY": "sk-one-two-three"}, ""),
        ({"model": "x", "model_url": URL, "model_key_env": "MINE"}, {"MINE": "k-1-2-3-4-5"}, "k-1-2-3-4-5"),
        ({"model": "openai/x", "model_key_env": "MY_MODEL"}, {"MY_MODEL": "k-6-7-8-9"}, "k-6-7-8-9"),
    ],
)
def test_the_key_is_found_and_is_a_secret(
    settings: dict[str, Any], environ: dict[str, str], key: str
) -> None:
    access = ModelAccess.of(Settings(**settings), environ)
    assert access.key == key
    assert not key or key not in repr(access)
    assert not key or key not in SECRETS.redact(f"it is {key} here")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"model": "openai/x"}, "no key for model openai/x: OPENAI_API_KEY is not set"),
        ({"model": "google/x"}, "GEMINI_API_KEY or GOOGLE_API_KEY is not set"),
        ({"model": "ollama/x", "model_key_env": "MINE"}, "MINE is not set"),
        ({"model": "ollama/x", "record": "a", "replay": "b"}, "choose one"),
        ({"model": "ollama/x", "replay": "/no/such/folder"}, "no such folder"),
        ({"model": "ollama/x", "max_rollout_cost": 1.0}, "ollama does not say what its answers cost"),
    ],
)
def test_what_is_missing_is_told_before_anything_starts(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        ModelAccess.of(Settings(**settings), {})


def test_a_replay_asks_for_no_key(tmp_path: Path) -> None:
    access = ModelAccess.of(Settings(model="openai/x", replay=tmp_path), {"OPENAI_API_KEY": "sk-1-2-3-4"})
    assert access.key == ""
    assert access.cost_of(Tokens(1, 1, cost=5.0)) == 0.0


@pytest.mark.parametrize(
    ("text", "tokens", "cost"),
    [
        ("2/10", Tokens(1_000_000, 100_000), 3.0),
        ("2/10", Tokens(1_000_000, 0, cached=500_000), 2.0),
        ("2/10/1", Tokens(1_000_000, 0, cached=500_000), 1.5),
        ("0/0", Tokens(5, 5), 0.0),
        ("1/1/1", Tokens(1, 0, cached=5), 5e-6),
    ],
)
def test_prices(text: str, tokens: Tokens, cost: float) -> None:
    assert Prices.parse(text).cost_of(tokens) == pytest.approx(cost)


@pytest.mark.parametrize("text", ["", "1", "1/2/3/4", "a/b", "-1/2", "1/nan", "1/inf"])
def test_what_is_no_price(text: str) -> None:
    with pytest.raises(ValueError, match="INPUT/OUTPUT"):
        Prices.parse(text)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, ""),
        ({"model": "openai/x"}, "openai/x"),
        ({"model": "x", "model_url": "https://me:secret@gate.test/v1"}, "x at gate.test"),
        ({"model": "x", "model_url": URL, "record": "t"}, "x at 127.0.0.1:8000 (recorded in t)"),
        ({"model": "x", "model_url": URL, "replay": "t"}, "x (replayed from t)"),
    ],
)
def test_what_the_header_says(settings: dict[str, Any], words: str) -> None:
    assert Settings(**settings).model_words == words


def test_a_password_in_the_address_is_a_secret() -> None:
    ModelAccess.of(Settings(model="x", model_url="https://me:pass-word-of-mine@gate.test/v1"), {})
    assert "pass-word-of-mine" not in SECRETS.redact("it is pass-word-of-mine")
