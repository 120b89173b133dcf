"""The user's decisions about tool calls, as values: categories, rules, and the pause after denials."""

from collections.abc import Mapping
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from scaffold.core.errors import UsageError
from scaffold.core.tool import ToolCategory
from scaffold.policy.path.protected_areas import ProtectedAreas
from scaffold.policy.rule.tool_rules import Rule

Decision = Literal["allow", "ask", "deny"]
DECISIONS: tuple[Decision, ...] = get_args(Decision)
CATEGORIES: tuple[ToolCategory, ...] = get_args(ToolCategory)
DEFAULT_DECISIONS: Mapping[ToolCategory, Decision] = {
    "file_read": "allow",
    "file_write": "ask",
    "shell": "ask",
    "network": "ask",
    "memory": "allow",
    "subagent": "ask",
    "mcp": "ask",
    "python": "ask",
    "plugin": "ask",
}
"""The decision for a category that the user did not set; python in a sandbox is allowed instead."""
STRICTNESS: Mapping[Decision, int] = {"allow": 0, "ask": 1, "deny": 2}

FREE_DENIALS = 3
MAX_PAUSE_S = 60.0


class RuleSet(Struct, frozen=True, kw_only=True):
    """The user's categories, rules and "always" answers."""

    categories: Mapping[ToolCategory, Decision] = {}
    """Decisions in place of `DEFAULT_DECISIONS`."""
    allow: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    """Denials that no other rule, no answer and no `--yolo` overrides."""
    always: frozenset[tuple[str, str]] = frozenset()
    """`PermissionRequest.identity` of the calls that the user allowed permanently."""
    yolo: bool = False
    areas: ProtectedAreas = ProtectedAreas()
    """Protected areas; approval questions mention them."""

    def decision_for(self, category: ToolCategory, *, confined: bool = False) -> Decision:
        """Return the decision for a category; `confined` means that the tool runs in a sandbox."""
        default: Decision = "allow" if category == "python" and confined else DEFAULT_DECISIONS[category]
        return self.categories.get(category, default)


class PolicyDecision(Struct, frozen=True):
    """A decision with the rule behind it and the reason.

    `rule` is `protected:ENTRY`, `secret:ENTRY`, `deny:RULE`, `metadata`, `network`, `device`, `path`, `pause`,
    `mode:MODE`, a rule as it was written, `always`, `read-only`, `category`, `accept-edits`, `human`, `hook` or
    `--yolo`; for `ask`, the source of the question.
    """

    decision: Decision
    rule: str
    reason: str


class DenialBackoff(Struct, frozen=True):
    """How often calls of a category were denied; times are in seconds of a monotonic clock."""

    count: int = 0
    until_s: float = 0.0

    def another(self, now_s: float) -> "DenialBackoff":
        """Return the state after one more denial: from the third on, each starts a pause, 1 s doubling to 60 s."""
        count = self.count + 1
        beyond = min(count - FREE_DENIALS, 10)  # avoids overflow; the pause is capped anyway
        pause_s = min(2.0**beyond, MAX_PAUSE_S) if beyond >= 0 else 0.0
        return DenialBackoff(count, now_s + pause_s)

    def pause_s(self, now_s: float) -> float:
        """Return the seconds left of the pause for this category; 0 if there is none."""
        return max(self.until_s - now_s, 0.0)


def tighten_categories(
    user: Mapping[ToolCategory, Decision], project: Mapping[ToolCategory, Decision]
) -> dict[ToolCategory, Decision]:
    """Return the user's categories, tightened by the project's settings but never loosened.

    A project setting equal to the default is kept, so that a sandbox does not loosen it.
    """
    stricter = {
        category: decision
        for category, decision in project.items()
        # Not only stricter ones: an explicit `ask` for python also holds in a sandbox, where the default is `allow`.
        if STRICTNESS[decision] >= STRICTNESS[user.get(category, DEFAULT_DECISIONS[category])]
    }
    return {**user, **stricter}


def parse_category(word: str) -> ToolCategory:
    """Return the category with this name; raise UsageError if there is none."""
    try:
        return msgspec.convert(word, ToolCategory)  # type: ignore[no-any-return]
    except msgspec.ValidationError as error:
        raise UsageError(f"there is no category `{word}`", f"The categories are {', '.join(CATEGORIES)}.") from error


def parse_decision(word: str) -> Decision:
    """Return the decision that `word` names; `gate` is an alias of `ask`. Raise UsageError if it is invalid."""
    try:
        return msgspec.convert("ask" if word == "gate" else word, Decision)  # type: ignore[no-any-return]
    except msgspec.ValidationError as error:
        raise UsageError(f"a category cannot be set to `{word}`", f"Choose one of {', '.join(DECISIONS)}.") from error
