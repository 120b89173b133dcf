"""Generates `src/scaffold/llm/registry/prices.json` from the data of `genai-prices`: run it after an upgrade."""

import json
import re
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any

from genai_prices import types
from genai_prices.data import providers

BOOK = Path(__file__).parents[2] / "src" / "scaffold" / "llm" / "registry" / "prices.json"
PROVIDERS = ("anthropic", "openai")
NO_CONVERSATION = re.compile(
    r"audio|realtime|transcribe|tts|image|embedding|moderation|search|computer-use|instruct|live|^ft:|oss|translate"
    r"|^(text-)?(ada|babbage|curie|davinci)|\.ft-|:extended|vision-preview"
)
KEYS = ("input_mtok", "cache_read_mtok", "cache_write_mtok", "output_mtok")


def build() -> str:
    """Return the table: one model a line, in the order in which they are matched."""
    found = {provider.id: provider for provider in providers}
    parts = [f'"source": "genai-prices {version("genai-prices")}"']
    for name in PROVIDERS:
        lines = [json.dumps(_model(model)) for model in found[name].models if _converses(model)]
        parts.append(f'"{name}": [\n' + ",\n".join(lines) + "\n]")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _converses(model: types.ModelInfo) -> bool:
    prices = _periods(model)[0][1]
    return not NO_CONVERSATION.search(model.id) and bool(prices.input_mtok and prices.output_mtok)


def _periods(model: types.ModelInfo) -> list[tuple[str | None, types.ModelPrice]]:
    """Return the prices with the start date of each; the first one has none."""
    if isinstance(model.prices, types.ModelPrice):
        return [(None, model.prices)]
    return [(_start(each.constraint), each.prices) for each in model.prices]


def _start(constraint: types.StartDateConstraint | types.TimeOfDateConstraint | None) -> str | None:
    if constraint is None:
        return None
    assert isinstance(constraint, types.StartDateConstraint), "prices by the hour are not written in the book"
    return constraint.start_date.isoformat()


def _model(model: types.ModelInfo) -> dict[str, Any]:
    periods = [{"since": since, "rates": _rates(prices)} for since, prices in _periods(model)]
    return {"id": model.id, "window": model.context_window, "match": _clauses(model.match), "periods": periods}


def _clauses(match: Any) -> list[list[str]]:
    if isinstance(match, types.ClauseOr):
        return [clause for each in match.or_ for clause in _clauses(each)]
    [(kind, text)] = vars(match).items()
    return [[kind, text]]


def _rates(prices: types.ModelPrice) -> list[list[float | None]]:
    """Return rows of: more input tokens than, then the prices of `KEYS` for a million tokens."""
    values = [getattr(prices, key) for key in KEYS]
    starts = sorted({tier.start for value in values if isinstance(value, types.TieredPrices) for tier in value.tiers})
    return [[start, *(_price(value, start) for value in values)] for start in (-1, *starts)]


def _price(value: Decimal | types.TieredPrices | None, start: int) -> float | None:
    if isinstance(value, types.TieredPrices):
        value = next((tier.price for tier in reversed(value.tiers) if tier.start <= start), value.base)
    return None if value is None else float(value)


if __name__ == "__main__":
    BOOK.write_text(build())
