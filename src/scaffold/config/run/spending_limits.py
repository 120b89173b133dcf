"""The spending limits of a run: the user's, else those of its tier."""

from collections.abc import Iterable

from msgspec import structs

from scaffold.agent.model_access import has_known_price
from scaffold.config.settings import Settings
from scaffold.core.run_settings import ModelSettings, RunLimits, RunSettings, Tier
from scaffold.policy.trust_decision import SETTINGS_FILE

REPLACED = "a limit in dollars replaces the tier's limit in tokens"


def budget_tokens(settings: Settings) -> int | None:
    """Return the user's limit in tokens; None without one."""
    value = settings.values["budget_tokens"].value
    return value if isinstance(value, int) else None


def with_default_tokens(
    limits: RunLimits, settings: Settings, tier: Tier, models: Iterable[ModelSettings]
) -> RunLimits:
    """Return the limits of a new run with the tokens that its tier allows for each action.

    A limit in dollars takes their place if the user named it, not a project, and it can be enforced.
    """
    of_project = SETTINGS_FILE in settings.values["budget_usd"].origin
    if limits.budget_usd is not None and not of_project and _all_priced(models):
        return limits
    return structs.replace(limits, action_tokens=tier.tokens)


def with_more(run: RunSettings, *, usd: float | None, tokens: int | None) -> RunLimits:
    """Return the limits of a run that is resumed with new ones; None keeps a limit."""
    limits = run.limits
    if usd is not None:
        limits = structs.replace(limits, budget_usd=usd)
        if _all_priced(run.models):
            limits = structs.replace(limits, action_tokens=0)
    return limits if tokens is None else structs.replace(limits, budget_tokens=tokens)


def with_tier_tokens(limits: RunLimits, tier: Tier) -> RunLimits:
    """Return the limits of a run after a change of its tier; a run without a default limit stays without one."""
    return structs.replace(limits, action_tokens=tier.tokens) if limits.action_tokens else limits


def _all_priced(models: Iterable[ModelSettings]) -> bool:
    return all(has_known_price(name) for each in models for name in (each.name, *each.others))
