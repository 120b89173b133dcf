"""What the user decided beforehand about tool calls, from the settings and the command line."""

from collections.abc import Sequence

from scaffold.cli.settings import Settings
from scaffold.policy.gate import Rules, parse_category, parse_decision
from scaffold.policy.rules import parse_rule


def rules_of(
    settings: Settings, *, allow: Sequence[str] = (), allow_category: Sequence[str] = (), yolo: bool = False
) -> Rules:
    """Return the rules that hold with these flags of a command line; UsageProblem for a flag that means nothing."""
    categories = {parse_category(name): parse_decision(rule) for name, rule in settings.approvals().items()}
    allowed = {parse_category(name): parse_decision("allow") for name in allow_category}
    return Rules(
        categories=categories | allowed,
        allow=tuple(map(parse_rule, (*settings.texts("permissions.allow"), *allow))),
        deny=tuple(parse_rule(rule, denies=True) for rule in settings.texts("permissions.deny")),
        yolo=yolo,
    )
