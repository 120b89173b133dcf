"""Our compact price table compared with the full data it is generated from."""

from datetime import UTC, datetime
from decimal import Decimal
from itertools import product

import pytest
from genai_prices import Usage as TheirUsage
from genai_prices.data import providers

from scaffold.core.model import Usage
from scaffold.llm.registry.cards import model_card
from scaffold.llm.registry.model_name import ModelName
from support import price_table

DAYS = [datetime(2025, 6, 9, tzinfo=UTC), datetime(2026, 3, 12, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)]
SIZES = [(500, 0, 0), (2_000, 0, 1_500), (150_000, 120_000, 20_000), (272_001, 200_000, 0)]
"""All input, what of it came from the cache, what was put into it."""
MODELS = [
    (provider, model)
    for provider in providers
    if provider.id in price_table.PROVIDERS
    for model in provider.models
    if price_table._converses(model) and "/" not in model.id
]


def test_the_table_is_generated_from_the_installed_data():
    """RA-1: it cannot drift from its source unnoticed; `python tests/support/price_table.py` rewrites it."""
    assert price_table.BOOK.read_text() == price_table.build()


def test_our_costs_equal_those_of_the_data():
    """RA-1."""
    cases = list(product(MODELS, DAYS, SIZES))
    theirs = {(model.id, day, size): their_cost(provider, model, day, *size) for (provider, model), day, size in cases}
    ours = {(model.id, day, size): our_cost(provider, model, day, *size) for (provider, model), day, size in cases}
    assert ours == pytest.approx(theirs, rel=Decimal("1e-9"))


def their_cost(provider, model, day, size, cached, written):
    used = TheirUsage(input_tokens=size, output_tokens=777)
    if model.get_prices(day).cache_read_mtok is not None:
        used.cache_read_tokens = cached
    if model.get_prices(day).cache_write_mtok is not None:
        used.cache_write_tokens = written
    return model.calc_price(used, provider, genai_request_timestamp=day).total_price


def our_cost(provider, model, day, size, cached, written):
    prices = model_card(ModelName(provider.id, model.id)).prices
    used = Usage(input_tokens=size, cached_input_tokens=cached, cache_write_tokens=written, output_tokens=777)
    return Decimal(prices.cost_usd(used, day.date()))
