"""The expected cost of work, who pays, and the budget: shown before the first request."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from scaffold.core.model import Usage
from scaffold.core.plan import ActionSpec
from scaffold.core.printable_text import count_of, format_usd, printable
from scaffold.core.run_settings import RunSettings
from scaffold.core.spending import PastCost
from scaffold.host.wall_clock import WallClock
from scaffold.llm.cassette_file import cassette_prices
from scaffold.llm.registry.cards import model_card
from scaffold.llm.registry.model_name import parse_model
from scaffold.llm.registry.prices import Prices
from scaffold.plan.budget import UNPLANNED_ACTIONS, format_tokens, spending_limits
from scaffold.plan.review_rates import unreliable_text
from scaffold.run.learning.stores import reviewer_standing

TYPICAL_REQUEST = Usage(input_tokens=20_000, cached_input_tokens=16_000, output_tokens=600, requests=1)
REQUESTS_PER_ACTION = 20
"""Typical requests for one action, if no earlier run tells more."""
REQUESTS_PER_PLAN = 10
"""Typical requests for the planner's turn."""
ASSUMED_CHILDREN = 3
"""Assumed children of a compound."""
UNSURE = 2.0
"""The factor by which an estimate from the rule, or from a single run, may be wrong."""


def planning_terms(settings: RunSettings, now: datetime) -> str:
    """Return two lines: the model that plans, its prices, an estimate of the plan's cost, and the budget."""
    model = settings.agent_model("planner").name
    text = f"planning with {model} ({billing_note(model, now)})\n"
    estimate = _estimate_text((model,), _by_rule({model: 1}, REQUESTS_PER_PLAN, now))
    return printable(f"{text}  {estimate} for the plan; {budget_note(settings)}")


def run_terms(
    settings: RunSettings, actions: Sequence[ActionSpec], now: datetime, past: Sequence[PastCost] = ()
) -> Iterator[str]:
    """Yield lines: the models of a planned run, their prices, an estimate of its cost, and the budget.

    `past` is what an action cost in each earlier run of the repository with this model.
    """
    model, work = settings.model.name, _work_by_model(settings, actions)
    others = "".join(f", else {each} ({billing_note(each, now)})" for each in settings.model.others)
    yield f"model {model} ({billing_note(model, now)}){others}"
    costs = _by_history(past, work.total()) if past else _by_rule(work, REQUESTS_PER_ACTION, now)
    source = f"as {count_of(len(past), 'earlier run')} here" if past else "by a rule of thumb"
    yield f"  {_estimate_text(work, costs)}, {source}; {budget_note(settings)}"
    users: dict[str, list[str]] = {}
    for use, assigned in (*settings.assigned.by_role.items(), *settings.assigned.by_task.items()):
        users.setdefault(assigned.name, []).append(use)
    for name in (name for name in users if name != model):
        yield f"  {name} for {', '.join(users[name])} ({billing_note(name, now)})"
    if (reviewer := settings.planning.reviewer) is not None:
        yield f"second reviewer {reviewer.model.name} ({billing_note(reviewer.model.name, now)})"
        standing = reviewer_standing(reviewer.model.name, WallClock())
        if standing.is_unreliable:
            yield f"  {unreliable_text(reviewer.model.name, standing)}"


def billing_note(model: str, now: datetime) -> str:
    """Return who pays for the model, with its prices if the user is billed by them."""
    match parse_model(model).provider:
        case "cassette":
            prices = _model_prices(model)
            counted = "" if prices is None else f"; counted at its prices, {_rates_text(prices, now)}"
            return f"replayed from a file, free{counted}"
        case "local":
            return "your own server, no price known"
        case "codex":
            return "covered by your subscription"
        case "executor":
            return "a program that chooses its model, and is paid as its own login says"
        case _:
            prices = _model_prices(model)
            rates = "price unknown" if prices is None else _rates_text(prices, now)
            return f"billed to your API key, {rates}"


def budget_note(settings: RunSettings) -> str:
    """Return the limits of the whole run, or how to set one if there is none."""
    limits = spending_limits(settings.limits)
    parts = [] if limits.usd is None else [f"at most {format_usd(limits.usd)}"]
    # Only a limit that follows from the tier needs an explanation; one that the user named does not.
    known, source = settings.limits.agreed_actions, ""
    if settings.limits.budget_tokens is None:
        counted = count_of(known, "action") if known else f"up to {UNPLANNED_ACTIONS} actions, as there is no plan"
        source = f" (tier {settings.tier.name}: {settings.limits.action_tokens:,} for each of {counted})"
    parts += [] if limits.tokens is None else [f"at most {format_tokens(limits.tokens)}{source}"]
    if not parts:
        return "no budget limits the run: `--budget-usd X` or `--budget-tokens N` does"
    replaced = limits.tokens is None and settings.tier.tokens > 0
    why = "; a limit in dollars replaces the tier's limit in tokens" if replaced else ""
    return f"the run may use {' and '.join(parts)}{why}"


def _by_rule(work: Mapping[str, int], requests: int, now: datetime) -> tuple[PastCost, PastCost]:
    """Return the least and the greatest estimated cost; dollars are None if the price of a model is unknown."""
    known = {model: _request_usd(model, now) for model in work}
    dollars = [None if (usd := known[model]) is None else usd * requests * count for model, count in work.items()]
    unpriced = any(each is None for each in dollars)
    tokens = TYPICAL_REQUEST.counted_tokens * requests * sum(work.values())
    return _cost_range(PastCost(tokens, None if unpriced else sum(each for each in dollars if each is not None)))


def _request_usd(model: str, now: datetime) -> float | None:
    """Return the price of a typical request; None if unknown."""
    if _is_free(model):
        return 0.0
    prices = _model_prices(model)
    return None if prices is None else prices.cost_usd(TYPICAL_REQUEST, now.astimezone(UTC).date())


def _by_history(past: Sequence[PastCost], actions: int) -> tuple[PastCost, PastCost]:
    """Return the least and the greatest cost of this many actions, by earlier runs."""
    if len(past) == 1:
        return _cost_range(_scaled_cost(past[0], actions))
    dollars = [each.usd for each in past if each.usd is not None]
    tokens = [each.tokens for each in past]
    bounds = (PastCost(of(tokens), of(dollars) if dollars else None) for of in (min, max))
    low, high = (_scaled_cost(each, actions) for each in bounds)
    return low, high


def _scaled_cost(cost: PastCost, factor: float) -> PastCost:
    return PastCost(cost.tokens * factor, None if cost.usd is None else cost.usd * factor)


def _cost_range(cost: PastCost) -> tuple[PastCost, PastCost]:
    return _scaled_cost(cost, 1 / UNSURE), _scaled_cost(cost, UNSURE)


def _estimate_text(models: Iterable[str], costs: tuple[PastCost, PastCost]) -> str:
    # Two digits: an estimate is not more exact.
    low, high = costs
    tokens = f"{_round_tokens(low.tokens):,} to {_round_tokens(high.tokens):,} tokens"
    if not high.usd and all(map(_is_free, models)):
        return f"no cost, roughly {tokens}"
    if low.usd is None or high.usd is None:
        return f"cost unknown, roughly {tokens}"
    return f"roughly {format_usd(low.usd)} to {format_usd(high.usd)}, {tokens}"


def _is_free(model: str) -> bool:
    # What the user's own server or a subscription costs is unknown, but a request costs nothing more.
    return parse_model(model).provider == "cassette" and _model_prices(model) is None


def _model_prices(model: str) -> Prices | None:
    """Return the prices of a model; None if they are unknown or nothing is charged."""
    name = parse_model(model)
    return cassette_prices(Path(name.name).expanduser()) if name.provider == "cassette" else model_card(name).prices


def _round_tokens(tokens: float) -> int:
    return int(float(f"{tokens:.2g}"))


def _rates_text(prices: Prices, now: datetime) -> str:
    rate = prices.on(now.astimezone(UTC).date())[0]
    return f"{format_usd(rate.input)} in and {format_usd(rate.output)} out per million tokens"


def _work_by_model(settings: RunSettings, actions: Sequence[ActionSpec]) -> Counter[str]:
    parents, work = {action.parent for action in actions}, Counter[str]()
    for action in actions:
        if action.kind == "primitive":
            work[settings.worker_model(action.role, action.type).name] += 1
        elif action.key not in parents:
            work[settings.worker_model("", None).name] += ASSUMED_CHILDREN
    return work
