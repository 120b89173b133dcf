"""What was decided beforehand about tool calls: categories, rules, and the pause after denials; all of it values."""

from collections.abc import Mapping
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from scaffold.core.errors import UsageProblem
from scaffold.core.tool import Category
from scaffold.policy.areas import Areas
from scaffold.policy.rules import Rule

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
    deny: tuple[Rule, ...] = ()
    """What no other rule, no answer and no `--yolo` lifts."""
    always: frozenset[tuple[str, str]] = frozenset()
    """Calls that were allowed once and for all, exactly so: `Wish.same` of each."""
    yolo: bool = False
    areas: Areas = Areas()
    """Where a change deserves a second look: whoever is asked about it is told."""

    def of(self, category: Category, *, confined: bool = False) -> Decision:
        """Return what holds for a category; `confined` is what runs in a sandbox."""
        default: Decision = "allow" if category == "python" and confined else DEFAULTS[category]
        return self.categories.get(category, default)


class Judgement(Struct, frozen=True):
    """A decision, what it rests on and why.

    It rests on `protected:ENTRY`, `secret:ENTRY`, `deny:RULE`, `metadata`, `network`, `device`, `path`, `pause`,
    `mode:MODE`, a rule as it was written, `always`, `read-only`, `category`, `human`, `--yolo`; or, where it asks, on
    what raised the question.
    """

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
