"""Each setting there is: its name, what it is before anybody sets it, and what its value must be."""

import math
from collections.abc import Callable, Mapping

from msgspec import Struct

from scaffold.llm.naming import parse_model
from scaffold.policy.gate import CATEGORIES, DECISIONS

Setting = str | int | float | None
Check = Callable[[object], Setting]
"""Returns the value as it is kept; ValueError with what was expected."""

SIZES = ("small", "medium", "large")
"""Names for models that the user's configuration fills in: `models.small` and so on."""
MOST_AGENTS = 20
MOST_SUBAGENTS = 20


class Tier(Struct, frozen=True):
    """How much effort a run is worth."""

    name: str
    agents: int
    iterations: int
    """How often a failed contract may be put back into the same attempt."""
    timeout_s: float
    """What one attempt may take."""


TIERS = (Tier("quick", 1, 3, 300), Tier("scout", 2, 3, 300), Tier("builder", 3, 5, 900), Tier("architect", 5, 7, 1800))


def built_in() -> dict[str, Setting]:
    """Return every setting as it is before anybody sets it."""
    values: dict[str, Setting] = {"model": None, "tier": "builder", "agents": None, "budget_usd": None}
    values |= {"max_subagents": 5, "subagent_timeout_s": 300}
    values |= {f"models.{size}": None for size in (*SIZES, "embedding")}
    values |= {f"approvals.{category}": None for category in CATEGORIES}
    for tier in TIERS:
        values[f"tiers.{tier.name}.agents"] = tier.agents
        values[f"tiers.{tier.name}.iterations"] = tier.iterations
        values[f"tiers.{tier.name}.timeout_min"] = tier.timeout_s / 60
    return values


def _model(setting: object) -> Setting:
    return str(setting) if setting in SIZES else _named_model(setting)


def _named_model(setting: object) -> Setting:
    if isinstance(setting, str):
        return str(parse_model(setting))
    raise ValueError("a model string such as `anthropic:NAME`")


def _rule(setting: object) -> Setting:
    if setting in DECISIONS:
        return str(setting)
    raise ValueError(f"one of {', '.join(DECISIONS)}")


def _tier(setting: object) -> Setting:
    names = [tier.name for tier in TIERS]
    if setting not in names:
        raise ValueError(f"one of {', '.join(names)}")
    return str(setting)


def _whole(least: int, most: int) -> Check:
    def check(setting: object) -> Setting:
        if isinstance(setting, bool) or not isinstance(setting, int) or not least <= setting <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return setting

    return check


def _dollars(setting: object) -> Setting:
    if isinstance(setting, bool) or not isinstance(setting, int | float) or not 0 <= setting < math.inf:
        raise ValueError("an amount in dollars, 0 or more")
    return setting


def _span(unit: str) -> Check:
    def check(setting: object) -> Setting:
        if isinstance(setting, bool) or not isinstance(setting, int | float) or not 0 < setting < math.inf:
            raise ValueError(f"a number of {unit} above 0")
        return setting

    return check


CHECKS: Mapping[str, Check] = {
    "model": _model,
    "tier": _tier,
    "agents": _whole(1, MOST_AGENTS),
    "budget_usd": _dollars,
    "max_subagents": _whole(1, MOST_SUBAGENTS),
    "subagent_timeout_s": _span("seconds"),
    **{f"models.{size}": _named_model for size in (*SIZES, "embedding")},
    **{f"approvals.{category}": _rule for category in CATEGORIES},
} | {
    f"tiers.{tier.name}.{field}": check
    for tier in TIERS
    for field, check in (
        ("agents", _whole(1, MOST_AGENTS)),
        ("iterations", _whole(1, 100)),
        ("timeout_min", _span("minutes")),
    )
}
"""Every setting there is, with what its value must be."""
