"""What the user decided beforehand about tool calls, from the settings and the command line."""

from collections.abc import Sequence

from scaffold.config.proof import added_areas
from scaffold.config.settings import Settings
from scaffold.core.tool import ToolCategory
from scaffold.policy.path.protected_areas import ProtectedAreas
from scaffold.policy.rule.rules import parse_rule
from scaffold.policy.rule.ruleset import Decision, RuleSet, parse_category, parse_decision


def permission_rules(
    settings: Settings, *, allow: Sequence[str] = (), allow_category: Sequence[str] = (), yolo: bool = False
) -> RuleSet:
    """Return the rules that hold with these flags of a command line; UsageProblem for a flag that means nothing."""
    allowed = {parse_category(name): parse_decision("allow") for name in allow_category}
    return RuleSet(
        categories=category_decisions(settings) | allowed,
        allow=tuple(map(parse_rule, (*settings.texts("permissions.allow"), *allow))),
        deny=tuple(parse_rule(rule, denies=True) for rule in settings.texts("permissions.deny")),
        yolo=yolo,
        areas=ProtectedAreas.with_added(added_areas(settings)),
    )


def category_decisions(settings: Settings) -> dict[ToolCategory, Decision]:
    """Return what the settings say of categories of tools, those that nobody set left out."""
    return {parse_category(name): parse_decision(rule) for name, rule in settings.approvals().items()}
