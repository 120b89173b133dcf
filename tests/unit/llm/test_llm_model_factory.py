from datetime import date
from pathlib import Path

import pytest

from scaffold.core.errors import UsageError
from scaffold.llm.model_factory import cassette_digest, open_model
from scaffold.llm.registry.cards import known_models
from scaffold.llm.registry.model_name import ModelName, absolute_model, is_live, parse_model
from support.errors import error_of
from support.fake_clock import FakeClock


def test_each_form_of_a_model_string_parses_and_formats_back():
    """RA-1: chosen by URL or name."""
    rows = [
        ("anthropic:claude", ModelName("anthropic", "claude")),
        ("openai:gpt", ModelName("openai", "gpt")),
        ("openai-chat:gpt", ModelName("openai-chat", "gpt")),
        ("codex:gpt", ModelName("codex", "gpt")),
        ("local:qwen:7b@http://localhost:8000/v1", ModelName("local", "qwen:7b", "http://localhost:8000/v1")),
        ("local:claude-4@20250514@https://h/v1", ModelName("local", "claude-4@20250514", "https://h/v1")),
        ("local:m@http://h/@cf/v1", ModelName("local", "m", "http://h/@cf/v1")),
        ("anthropic:claude-4@20250514", ModelName("anthropic", "claude-4@20250514")),
        ("cassette:/some where/a@b:c.yaml", ModelName("cassette", "/some where/a@b:c.yaml")),
    ]
    assert [(text, name) for text, name in rows if parse_model(text) != name or str(name) != text] == []


def test_an_invalid_model_string_is_refused_with_the_valid_forms():
    texts = ["", "claude", "cassette:", "Anthropic:x", "gemini:x", "local:x", "local:@http://h/v1", "claude-9"]
    for text in [*texts, "gpt-oss-20b", "gpt-5:latest"]:
        error = error_of(UsageError, parse_model, text)
        assert error is not None, text
        assert text in error.what
        assert "local:NAME@http://HOST:PORT/v1" in error.fix, text


def test_credentials_in_a_model_string_are_refused_and_not_shown():
    """RA-1: model strings are stored and shown."""
    error = error_of(UsageError, parse_model, "local:q@http://me:secret@h/v1")
    assert error is not None
    assert "secret" not in error.what + error.fix


def test_the_plain_name_of_a_known_model_is_enough():
    """RA-1."""
    expected = {
        "claude-sonnet-4-5": "anthropic:claude-sonnet-4-5",
        "claude-sonnet-4-5-20250929": "anthropic:claude-sonnet-4-5-20250929",
        "gpt-5": "openai:gpt-5",
        " o3 ": "openai:o3",
    }
    assert {name: absolute_model(name) for name in expected} == expected


def test_a_pinned_model_means_the_same_everywhere():
    pinned = absolute_model("cassette:some/tape.yaml")
    assert pinned == f"cassette:{Path.cwd()}/some/tape.yaml"
    assert absolute_model(pinned) == pinned
    assert absolute_model("cassette:~/tape.yaml") == f"cassette:{Path.home()}/tape.yaml"
    assert absolute_model("local:q@http://h/v1") == "local:q@http://h/v1"


def test_only_cassettes_have_a_digest():
    assert cassette_digest("anthropic:claude") == ""


def test_a_live_model_needs_a_live_context_and_a_cassette_does_not():
    assert is_live("local:q@http://h/v1")
    assert not is_live("cassette:tape.yaml")
    with pytest.raises(UsageError) as caught:
        open_model("anthropic:claude", clock=FakeClock(), rng=None)
    assert "cassette:PATH" in caught.value.fix


def test_the_listed_models_are_current_with_windows_and_prices():
    """RA-1: `/model` lists them."""
    listed = {known.model: known for known in known_models()}
    sonnet = listed["anthropic:claude-sonnet-4-5"]
    assert sonnet.window_tokens == 200_000
    assert sonnet.prices.on(date(2026, 1, 1))[0].input == 3.0
    assert "openai:gpt-5" in listed
    assert not [model for model in listed if "claude-3" in model or "gpt-4" in model]
