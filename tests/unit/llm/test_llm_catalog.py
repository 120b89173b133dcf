from pathlib import Path

import pytest

from scaffold.core.errors import UsageProblem
from scaffold.llm.catalog import ModelName, cassette_digest, open_model, parse_model, pinned_model


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("anthropic:claude", ModelName("anthropic", "claude")),
        ("openai:gpt", ModelName("openai", "gpt")),
        ("openai-chat:gpt", ModelName("openai-chat", "gpt")),
        ("codex:gpt", ModelName("codex", "gpt")),
        ("local:qwen:7b@http://localhost:8000/v1", ModelName("local", "qwen:7b", "http://localhost:8000/v1")),
        ("cassette:/some where/a@b:c.yaml", ModelName("cassette", "/some where/a@b:c.yaml")),
    ],
)
def test_each_form_of_a_model_string_is_understood_and_written_back(text, name):
    assert parse_model(text) == name
    assert str(name) == text


@pytest.mark.parametrize(
    "text", ["", "claude", "cassette:", "Anthropic:x", "gemini:x", "local:x", "local:@http://h/v1"]
)
def test_what_is_no_model_string_is_refused_with_the_forms(text):
    with pytest.raises(UsageProblem) as caught:
        parse_model(text)
    assert text in caught.value.what
    assert "local:NAME@http://HOST:PORT/v1" in caught.value.fix


def test_a_pinned_model_means_the_same_everywhere():
    pinned = pinned_model("cassette:some/tape.yaml")
    assert pinned == f"cassette:{Path.cwd()}/some/tape.yaml"
    assert pinned_model(pinned) == pinned
    assert pinned_model("cassette:~/tape.yaml") == f"cassette:{Path.home()}/tape.yaml"
    assert pinned_model("local:q@http://h/v1") == "local:q@http://h/v1"


def test_only_cassettes_have_a_digest():
    assert cassette_digest("anthropic:claude") == ""


def test_a_live_provider_is_refused_in_plain_words():
    with pytest.raises(UsageProblem, match="no live provider") as caught:
        open_model("anthropic:claude", clock=None, rng=None)
    assert "cassette:PATH" in caught.value.fix
