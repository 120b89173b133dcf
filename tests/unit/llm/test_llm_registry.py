from datetime import date

import pytest

from scaffold.core.model import Usage
from scaffold.llm.registry.cards import known_models, model_card
from scaffold.llm.registry.model_name import parse_model
from scaffold.llm.registry.prices import PricePeriod, Prices, TokenRate, find_family

TODAY = date(2026, 11, 1)
MILLION = 1_000_000


def cost(model, day=TODAY, **tokens):
    return model_card(parse_model(model)).prices.cost_usd(Usage(**tokens), day)


def test_cached_input_is_cheaper_and_cache_writes_are_dearer():
    """RA-1."""
    rows = [
        ({"input_tokens": 1_000}, 0.003),
        ({"input_tokens": 1_000, "cached_input_tokens": 1_000}, 0.0003),
        ({"input_tokens": 100_000, "cached_input_tokens": 90_000}, 0.027 + 0.030),
        ({"input_tokens": 100_000, "cached_input_tokens": 90_000, "cache_write_tokens": 8_000}, 0.027 + 0.030 + 0.006),
        ({"output_tokens": 1_000}, 0.015),
    ]
    assert [
        (tokens, usd) for tokens, usd in rows if cost("anthropic:claude-sonnet-4-5", **tokens) != pytest.approx(usd)
    ] == []


def test_input_without_its_own_price_costs_the_input_price():
    assert cost("openai:gpt-5", input_tokens=2_000) == pytest.approx(0.0025)
    assert cost("openai:gpt-4", input_tokens=2_000, cached_input_tokens=2_000) == pytest.approx(0.06)


def test_large_requests_have_their_own_price_and_prices_have_a_start_date():
    before = date(2026, 3, 12)
    small, large = {"output_tokens": MILLION}, {"input_tokens": 200_001, "output_tokens": MILLION}
    assert cost("anthropic:claude-opus-4-6", before, **small) == pytest.approx(25)
    assert cost("anthropic:claude-opus-4-6", before, **large) == pytest.approx(37.5 + 0.200001 * 10)
    assert cost("anthropic:claude-opus-4-6", date(2026, 3, 13), **large) == pytest.approx(25 + 0.200001 * 5)


def test_an_unknown_price_is_not_guessed():
    """RA-1: unknown models count tokens, their cost is unknown."""
    models = [
        "anthropic:claude-nobody-1",
        "openai:my-tune",
        "local:gpt-5@http://h/v1",
        "codex:gpt-5",
        "cassette:a.yaml",
    ]
    assert [model for model in models if model_card(parse_model(model)).prices is not None] == []


def test_an_unknown_window_is_not_guessed():
    assert model_card(parse_model("anthropic:claude-nobody-1")).window_tokens is None
    assert model_card(parse_model("local:q@http://h/v1")).window_tokens is None
    assert model_card(parse_model("codex:gpt-5")).window_tokens == 400_000


def test_the_output_limit_of_a_request_does_not_exceed_the_models():
    expected = {
        "claude-3-haiku-20240307": 4_096,
        "claude-3-5-sonnet-latest": 8_192,
        "claude-3-7-sonnet-latest": 64_000,
        "claude-opus-4-1": 32_000,
        "claude-opus-4-20250514": 32_000,
        "claude-opus-4-5": 64_000,
        "claude-sonnet-5": 64_000,
        "something-else": None,
    }
    assert {name: model_card(parse_model(f"anthropic:{name}")).max_output_tokens for name in expected} == expected


def test_the_features_of_models_are_known():
    """RA-1: features."""
    assert model_card(parse_model("openai:o3")).may_think
    assert not model_card(parse_model("openai:gpt-4.1")).may_think
    assert model_card(parse_model("local:q@http://h/v1")).thinking_tags
    assert not model_card(parse_model("openai:gpt-5")).thinking_tags
    assert model_card(parse_model("openai:gpt-5")).images
    assert not model_card(parse_model("openai:gpt-3.5-turbo")).images


def test_a_name_belongs_to_a_provider_only_if_it_is_registered():
    assert find_family("claude-opus-4-5") == "anthropic"
    assert find_family("CLAUDE-opus-4-5") == "anthropic"
    assert find_family("gpt-5.1-codex") == "openai"
    assert find_family("llama-3") is None


def test_every_listed_model_has_a_complete_description():
    for known in known_models():
        assert known.window_tokens
        assert known.prices.on(TODAY)[0].output > 0
        assert model_card(parse_model(known.model)) == known


def test_a_day_before_the_first_known_prices_has_those():
    periods = (PricePeriod(date(2026, 1, 1), (rate(2.0),)), PricePeriod(date(2026, 6, 1), (rate(1.0),)))
    prices = Prices(periods)
    days = (date(2025, 1, 1), date(2026, 3, 1), date(2026, 7, 1))
    assert [prices.on(day)[0].input for day in days] == [2.0, 2.0, 1.0]


def rate(dollars):
    return TokenRate(above=0, input=dollars, cached=None, written=None, output=dollars)


def test_a_model_family_has_the_tools_it_is_trained_to_use():
    """RA-1, RA-4."""
    rows = [
        ("openai:gpt-5.1", True),
        ("codex:gpt-5-codex", True),
        ("openai-chat:gpt-4.1-mini", True),
        ("local:openai/gpt-oss-20b@http://h/v1", True),
        ("openai:gpt-4o", False),
        ("anthropic:claude-sonnet-4-5", False),
        ("local:qwen3-coder@http://h/v1", False),
    ]
    assert [
        (model, trained)
        for model, trained in rows
        if model_card(parse_model(model)).trained_tools != (frozenset({"apply_patch"}) if trained else frozenset())
    ] == []


def test_the_thoughts_to_expect_depend_on_what_is_asked_for():
    """RA-2, BX-11: a first request's estimated cost contains them."""
    rows = [
        ("anthropic:claude-3-5-haiku-latest", {None: 0, "auto": 0, "high": 0}),
        ("anthropic:claude-sonnet-4-5", {"off": 0, "low": 500, "auto": 2_000, "medium": 2_000, "high": 6_000}),
        ("openai:gpt-5", {"off": 0, "auto": 2_000, "high": 6_000}),
        ("openai:gpt-5-pro", {"off": 6_000, "low": 6_000, "auto": 6_000}),
        ("openai:o3", {"off": 500, "auto": 2_000}),
        ("local:q@http://h/v1", {None: 0, "auto": 0, "off": 0, "low": 500}),
    ]
    for model, tokens in rows:
        support = model_card(parse_model(model)).thinking
        assert {effort: support.expected_tokens(effort) for effort in tokens} == tokens, model
