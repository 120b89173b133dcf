"""The gate: whether a tool call may run, must be asked about, or is denied. Pure; who asks stands elsewhere.

In this order: protected files, the pause after denials, rules that allow, the category.
"""

from collections.abc import Mapping
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from scaffold.core.errors import UsageProblem
from scaffold.core.tool import Category
from scaffold.policy.protected import protected_by
from scaffold.policy.rules import Rule, Wish

Decision = Literal["allow", "ask", "deny"]
DECISIONS: tuple[Decision, ...] = get_args(Decision)
CATEGORIES: tuple[Category, ...] = get_args(Category)
DEFAULTS: Mapping[Category, Decision] = {
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
"""What holds for a category that nobody set; python is allowed where it runs in a sandbox."""
STRICTNESS: Mapping[Decision, int] = {"allow": 0, "ask": 1, "deny": 2}

FREE_DENIALS = 3
LONGEST_PAUSE_S = 60.0


class Rules(Struct, frozen=True, kw_only=True):
    """What a user decided beforehand."""

    categories: Mapping[Category, Decision] = {}
    """What differs from `DEFAULTS`."""
    allow: tuple[Rule, ...] = ()
    always: frozenset[tuple[str, str]] = frozenset()
    """Tool and subject of calls that were allowed once and for all, exactly so."""
    yolo: bool = False
    sandboxed: bool = False

    def of(self, category: Category) -> Decision:
        """Return what holds for a category."""
        default: Decision = "allow" if category == "python" and self.sandboxed else DEFAULTS[category]
        return self.categories.get(category, default)


class Judgement(Struct, frozen=True):
    """A decision, what it rests on (`protected:.git`, `pause`, `shell:git *`, `category`, `--yolo`) and why."""

    decision: Decision
    rule: str
    reason: str


class Denials(Struct, frozen=True):
    """How often calls of a category were denied; times are in seconds of a clock that never goes back."""

    count: int = 0
    until_s: float = 0.0

    def another(self, now_s: float) -> "Denials":
        """Return the count after one more: from the third on each is followed by a pause, 1 s doubling to 60 s."""
        count = self.count + 1
        beyond = min(count - FREE_DENIALS, 10)  # doubling further would only overflow
        pause_s = min(2.0**beyond, LONGEST_PAUSE_S) if beyond >= 0 else 0.0
        return Denials(count, now_s + pause_s)

    def pause_s(self, now_s: float) -> float:
        """Return how long nothing of the category is looked at from now; 0 if there is no pause."""
        return max(self.until_s - now_s, 0.0)


def judge(wish: Wish, rules: Rules, *, pause_s: float = 0.0) -> Judgement:
    """Return what is to become of a tool call; `pause_s` is what is left of the pause after denials."""
    for path in wish.paths:
        if wish.category != "file_read" and (entry := protected_by(path)):
            return Judgement("deny", f"protected:{entry}", f"{path} is protected ({entry}): no agent writes it")
    if pause_s > 0:
        return Judgement("deny", "pause", f"{wish.category} was denied too often; ask again in {pause_s:.1f} s")
    if (wish.tool, wish.subject) in rules.always:
        return Judgement("allow", "always", "it was allowed once and for all")
    for rule in rules.allow:
        if rule.fits(wish):
            return Judgement("allow", str(rule), f"the rule `{rule}` allows it")
    decision = rules.of(wish.category)
    if decision == "ask" and rules.yolo:
        return Judgement("allow", "--yolo", "nothing is asked")
    return Judgement(decision, "category", _by_category(wish, decision))


def tightened(user: Mapping[Category, Decision], project: Mapping[Category, Decision]) -> dict[Category, Decision]:
    """Return the categories as the user set them, made stricter where the project asks for it, looser nowhere.

    What the project sets as strict as the default stays set: a sandbox does not loosen it.
    """
    stricter = {
        category: decision
        for category, decision in project.items()
        if STRICTNESS[decision] >= STRICTNESS[user.get(category, DEFAULTS[category])]
    }
    return {**user, **stricter}


def parse_category(word: str) -> Category:
    """Return the category a user named; UsageProblem if there is none of this name."""
    try:
        return msgspec.convert(word, Category)  # type: ignore[no-any-return]
    except msgspec.ValidationError as error:
        raise UsageProblem(f"there is no category `{word}`", f"The categories are {', '.join(CATEGORIES)}.") from error


def parse_decision(word: str) -> Decision:
    """Return what a user set a category to; `gate` is another word for `ask`; UsageProblem if it is neither."""
    try:
        return msgspec.convert("ask" if word == "gate" else word, Decision)  # type: ignore[no-any-return]
    except msgspec.ValidationError as error:
        raise UsageProblem(f"a category cannot be set to `{word}`", f"Choose one of {', '.join(DECISIONS)}.") from error


def _by_category(wish: Wish, decision: Decision) -> str:
    match decision:
        case "allow":
            return f"{wish.category} is allowed"
        case "ask":
            return f"{wish.tool} needs a human's consent ({wish.category})"
        case "deny":
            return f"{wish.category} is switched off here"
