"""What work will cost, who pays, and which budget holds: told before the first request."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from scaffold.core.model import Usage
from scaffold.core.plan import ActionSpec
from scaffold.core.printable_text import format_usd, printable
from scaffold.core.run_settings import RunSettings
from scaffold.llm.registry.cards import model_card
from scaffold.llm.registry.model_name import parse_model
from scaffold.llm.registry.prices import Prices

TYPICAL_REQUEST = Usage(input_tokens=20_000, cached_input_tokens=16_000, output_tokens=600, requests=1)
REQUESTS_PER_ACTION = 20
"""A rough estimate for one action: so many typical requests."""
REQUESTS_PER_PLAN = 10
"""Likewise for the planner's turn."""
ASSUMED_CHILDREN = 3
"""How many children a compound is assumed to get."""


def planning_terms(settings: RunSettings, now: datetime) -> str:
    """Return two lines: the model that plans, its prices, an estimate of the plan's cost, and the budget."""
    model = settings.model.name
    text = f"planning with {model} ({billing_note(model, now)})\n"
    return printable(f"{text}  {cost_estimate(model, REQUESTS_PER_PLAN, now)} for the plan; {budget_note(settings)}")


def run_terms(settings: RunSettings, actions: Sequence[ActionSpec], now: datetime) -> Iterator[str]:
    """Yield lines: the models of a planned run, their prices, an estimate of its cost, and the budget."""
    model = settings.model.name
    others = "".join(f", else {each} ({billing_note(each, now)})" for each in settings.model.others)
    yield f"model {model} ({billing_note(model, now)}){others}"
    yield f"  {cost_estimate(model, REQUESTS_PER_ACTION * _estimated_attempts(actions), now)}; {budget_note(settings)}"
    if (reviewer := settings.planning.reviewer) is not None:
        yield f"second reviewer {reviewer.model.name} ({billing_note(reviewer.model.name, now)})"


def billing_note(model: str, now: datetime) -> str:
    """Return in words who pays for the model, and its prices if the user is billed by them."""
    match parse_model(model).provider:
        case "cassette":
            return "replayed from a file, free"
        case "local":
            return "your own server, free"
        case "codex":
            return "covered by your subscription"
        case _:
            prices = model_card(parse_model(model)).prices
            rates = "price unknown" if prices is None else _rates(prices, now)
            return f"billed to your API key, {rates}"


def cost_estimate(model: str, requests: int, now: datetime) -> str:
    """Return a rough estimate of the cost of so many typical requests, in words."""
    name = parse_model(model)
    if name.provider in {"cassette", "local", "codex"}:
        return "no cost"
    if (prices := model_card(name).prices) is None:
        return "cost unknown"
    usd = prices.cost_usd(TYPICAL_REQUEST, now.astimezone(UTC).date()) * requests
    return f"roughly {format_usd(usd / 2)} to {format_usd(usd * 2)}"


def budget_note(settings: RunSettings) -> str:
    """Return in words which budget holds for the whole run, or that none does and how to set one."""
    budget_usd = settings.limits.budget_usd
    if budget_usd is None:
        return "no budget limits the run: `--budget-usd X` does"
    return f"the run may cost at most {format_usd(budget_usd)}"


def _rates(prices: Prices, now: datetime) -> str:
    rate = prices.on(now.astimezone(UTC).date())[0]
    return f"{format_usd(rate.input)} in and {format_usd(rate.output)} out per million tokens"


def _estimated_attempts(actions: Sequence[ActionSpec]) -> int:
    """Return how many primitive actions the plan is estimated to have."""
    parents = {action.parent for action in actions}
    open_ended = sum(action.kind == "compound" and action.key not in parents for action in actions)
    return sum(action.kind == "primitive" for action in actions) + ASSUMED_CHILDREN * open_ended
