"""What models cost: one small file, read when a price or a maker is first asked for."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from scaffold.core.model import Usage

Family = Literal["anthropic", "openai"]
FAMILIES: tuple[Family, ...] = get_args(Family)


class Rate(Struct, frozen=True, array_like=True):
    """US dollars for a million tokens, of requests with more than `above` input tokens; None: as other input."""

    above: int
    input: float
    cached: float | None
    written: float | None
    output: float

    def cost_usd(self, usage: Usage) -> float:
        """Return what `usage` costs: fresh input, what came from the cache, what was put into it, and output."""
        cached = self.input if self.cached is None else self.cached
        written = self.input if self.written is None else self.written
        fresh_tokens = usage.input_tokens - usage.cached_input_tokens - usage.written_input_tokens
        dollars = fresh_tokens * self.input + usage.cached_input_tokens * cached + usage.written_input_tokens * written
        return (dollars + usage.output_tokens * self.output) / 1_000_000


class Period(Struct, frozen=True):
    """Prices from a day on (UTC), None for always; of `rates`, the last one counts that a request's input reaches."""

    since: date | None
    rates: tuple[Rate, ...]


class Prices(Struct, frozen=True):
    """What a model cost, costs and will cost, by days."""

    periods: tuple[Period, ...]

    def on(self, day: date) -> Sequence[Rate]:
        """Return the prices of `day` (UTC), for small requests first."""
        running = [period for period in self.periods if period.since is None or period.since <= day]
        return (running or self.periods)[-1].rates

    def cost_usd(self, usage: Usage, day: date) -> float:
        """Return what one request costs that used `usage` on `day`."""
        rates = self.on(day)
        reached = [rate for rate in rates if usage.input_tokens > rate.above]
        return (reached or rates)[-1].cost_usd(usage)


class Known(Struct, frozen=True):
    """A model, and the names it goes by at its provider."""

    id: str
    window: int | None
    match: tuple[tuple[Literal["equals", "starts_with", "contains", "regex"], str], ...]
    periods: tuple[Period, ...]

    def fits(self, name: str) -> bool:
        """Tell whether `name`, in small letters, is one of them."""
        return any(_FITS[kind](name, text) for kind, text in self.match)


class _Book(Struct, frozen=True):
    anthropic: tuple[Known, ...]
    openai: tuple[Known, ...]


_FITS: Mapping[str, Callable[[str, str], bool]] = {
    "equals": lambda name, text: name == text,
    "starts_with": lambda name, text: name.startswith(text),
    "contains": lambda name, text: text in name,
    "regex": lambda name, text: re.search(text, name) is not None,
}


def known(family: Family) -> Sequence[Known]:
    """Return the models of a family, in the order in which they are tried."""
    models: tuple[Known, ...] = getattr(_book(), family)
    return models


@cache
def find(family: Family, name: str) -> Known | None:
    """Return the first model of `family` that goes by `name`; None if nobody knows it."""
    return next((each for each in known(family) if each.fits(name.lower())), None)


def find_family(name: str) -> Family | None:
    """Return the one family that has a model called `name`; None if none does, or if it is not clear which."""
    found = [family for family in FAMILIES if find(family, name) is not None]
    return found[0] if len(found) == 1 else None


@cache
def _book() -> _Book:
    return msgspec.json.decode(Path(__file__).with_name("prices.json").read_bytes(), type=_Book)
