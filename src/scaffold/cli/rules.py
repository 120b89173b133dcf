"""What the user decided beforehand about tool calls, from the settings and the command line."""

from collections.abc import Sequence

from scaffold.cli.quality import added_areas
from scaffold.cli.settings import Settings
from scaffold.core.tool import Category
from scaffold.policy.areas import Areas
from scaffold.policy.gate import Decision, Rules, parse_category, parse_decision
from scaffold.policy.rules import parse_rule


def rules_of(
    settings: Settings, *, allow: Sequence[str] = (), allow_category: Sequence[str] = (), yolo: bool = False
) -> Rules:
    """Return the rules that hold with these flags of a command line; UsageProblem for a flag that means nothing."""
    allowed = {parse_category(name): parse_decision("allow") for name in allow_category}
    return Rules(
        categories=categories_of(settings) | allowed,
        allow=tuple(map(parse_rule, (*settings.texts("permissions.allow"), *allow))),
        deny=tuple(parse_rule(rule, denies=True) for rule in settings.texts("permissions.deny")),
        yolo=yolo,
        areas=Areas.with_added(added_areas(settings)),
    )


def categories_of(settings: Settings) -> dict[Category, Decision]:
    """Return what the settings say of categories of tools, those that nobody set left out."""
    return {parse_category(name): parse_decision(rule) for name, rule in settings.approvals().items()}
