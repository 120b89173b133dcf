"""Our compact price table compared with the full data it is generated from."""

from datetime import UTC, datetime
from decimal import Decimal

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


@pytest.mark.parametrize(("provider", "model"), MODELS, ids=[model.id for _, model in MODELS])
def test_our_costs_equal_those_of_the_data(provider, model):
    """RA-1."""
    prices = model_card(ModelName(provider.id, model.id)).prices
    assert prices is not None
    for day in DAYS:
        written_has_a_price = model.get_prices(day).cache_write_mtok is not None
        cached_has_a_price = model.get_prices(day).cache_read_mtok is not None
        for size, cached, written in SIZES:
            result = {"cache_read_tokens": cached} if cached_has_a_price else {}
            result |= {"cache_write_tokens": written} if written_has_a_price else {}
            theirs = model.calc_price(
                TheirUsage(input_tokens=size, output_tokens=777, **result),
                provider,
                genai_request_timestamp=day,
            ).total_price
            used = Usage(input_tokens=size, cached_input_tokens=cached, cache_write_tokens=written, output_tokens=777)
            ours = prices.cost_usd(used, day.date())
            assert Decimal(ours) == pytest.approx(theirs, rel=Decimal("1e-9"))
