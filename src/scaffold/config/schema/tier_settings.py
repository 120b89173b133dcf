"""The settings of each tier: the schema of the built-in tiers, the user's files, and `tiers.NAME.FIELD`."""

import re
from collections.abc import Iterable, Mapping
from typing import get_args

from msgspec import Struct

from scaffold.config.schema import parsers
from scaffold.config.schema.parsers import AUTO, NONE, SIZES, UNLIMITED, Parser, integer, one_of, positive
from scaffold.config.schema.setting import LOWER, NEVER, RAISE, MergeRule, Setting, stricter
from scaffold.core.errors import UsageError
from scaffold.core.run_settings import ReviewMode, Tier
from scaffold.plan.message_text import quoted_list
from scaffold.plan.spelling_hints import SpellingHints

BUILT_IN_TIERS = ("quick", "scout", "builder", "architect")
"""From the least effort to the most."""
MAX_AGENTS = 20
MIN_ACTION_TOKENS = 1_000
MAX_QUESTIONS = 1_000
MAX_TIMEOUT_MIN = 10_080
"""A week."""
NAME_RULE = "a small letter, then small letters, digits, `-` and `_`; 40 at most"
_SETTING = re.compile(r"tiers\.(?P<tier>[^.]+)(\.(?P<field>.+))?", re.DOTALL)


class TierField(Struct, frozen=True):
    """A field of a tier."""

    purpose: str
    parse: Parser
    project: MergeRule = NEVER
    is_required: bool = True
    """Whether a tier of the user's own must have it."""


FIELDS: Mapping[str, TierField] = {
    "agents": TierField("how many agents work at once", integer(1, MAX_AGENTS), LOWER),
    "decompose": TierField(
        "whether a planner breaks the request down: `on`, or `off` for one action by one agent", parsers.switch
    ),
    "model": TierField("the size of the model, if `model` is not set: `small`, `medium` or `large`", one_of(*SIZES)),
    "fallback": TierField(
        "the size that takes its place while its provider accepts no requests: `small`, `medium`, `large` or `none`",
        one_of(*SIZES, NONE),
        is_required=False,
    ),
    "task_models": TierField("whether the type of a task chooses its model: `on` or `off`", parsers.switch),
    "iterations": TierField("how many times an attempt may try to pass its contract", integer(1, 100), LOWER),
    "timeout_min": TierField("how many minutes an attempt may take", positive("minutes", MAX_TIMEOUT_MIN), LOWER),
    "tokens": TierField(
        "how many tokens, input that no cache has and output, a run may use for each action of the agreed plan",
        integer(MIN_ACTION_TOKENS, parsers.MAX_BUDGET_TOKENS),
        LOWER,
    ),
    "threshold": TierField(
        "the critic's passing score, out of 9; 0 disables the critic and drafted contracts", integer(0, 9), RAISE
    ),
    "questions": TierField(
        "how many questions the agents of one action may ask: a number, or `unlimited`",
        parsers.limit("questions", MAX_QUESTIONS),
    ),
    "question_gates": TierField(
        "whether agents that may ask nothing do so nevertheless after 5 failed executions, and about protected areas: "
        "`on` or `off`",
        parsers.switch,
        is_required=False,
    ),
    "review": TierField(
        "who judges what no program can decide: `none`, a `second` reviewer, or a `human` after it",
        one_of(*get_args(ReviewMode)),
        stricter(get_args(ReviewMode)),
    ),
    "review_share": TierField(
        "the share, from 0 to 1, of the large or widespread changes that the second reviewer judges, in place of "
        "`reviewer.share`",
        parsers.share,
        is_required=False,
    ),
}
"""The fields of a tier by name, in the order in which they are shown."""


def tier_rows(tier: str) -> Iterable[Setting]:
    """Return the settings of a tier, without values: those of the built-in tiers are in their files."""
    return (
        Setting(f"tiers.{tier}.{name}", field.purpose, field.parse, project=field.project)
        for name, field in FIELDS.items()
    )


def own_tier_setting(name: str) -> Setting | None:
    """Return the setting with this name of a tier of the user's own; None if it is no such name."""
    found = _SETTING.fullmatch(name)
    if found is None or found["field"] not in FIELDS or not is_tier_name(found["tier"]):
        return None
    return next(row for row in tier_rows(found["tier"]) if row.name == name)


def is_tier_field(name: str) -> bool:
    """Return whether `name` is `tiers.TIER.FIELD`."""
    return (found := _SETTING.fullmatch(name)) is not None and found["field"] is not None


def is_tier_section(name: str) -> bool:
    """Return whether `name` is `tiers.TIER`, whichever tier that is."""
    found = _SETTING.fullmatch(name)
    return found is not None and found["field"] is None and is_tier_name(found["tier"])


def is_tier_name(word: str) -> bool:
    """Return whether a tier may have this name."""
    try:
        return parsers.tier(word) != AUTO
    except ValueError:
        return False


def tier_names(settings: Iterable[str]) -> tuple[str, ...]:
    """Return the tiers that these settings are about, the built-in ones first."""
    found = (match["tier"] for match in map(_SETTING.fullmatch, settings) if match)
    return tuple(dict.fromkeys((*BUILT_IN_TIERS, *found)))


def require_tier(word: str, known: Iterable[str], origin: str) -> None:
    """Raise UsageError if there is no such tier."""
    names = tuple(known)
    if word not in names:
        hint = SpellingHints(names).hint(word)
        raise UsageError(
            f"{origin}: there is no tier `{word}`",
            f"{hint}There are {quoted_list(names)}; a file `tiers/{word}.yaml` beside your configuration adds one."
            if is_tier_name(word)
            else f"{hint}There are {quoted_list(names)}.",
        )


def require_complete(tier: str, held: Mapping[str, object], origin: str) -> None:
    """Raise UsageError if a tier of the user's own lacks fields; a misspelt name looks like such a tier."""
    missing = [name for name, field in FIELDS.items() if field.is_required and held.get(name) is None]
    if missing:
        hint = SpellingHints(BUILT_IN_TIERS).hint(tier)
        what = f"{origin}: `{tier}` is not a built-in tier, and lacks {quoted_list(missing)}"
        raise UsageError(what, f"{hint}A tier of your own has every field; see docs/tiers.md.")


def require_other_fallback(tier: str, held: Mapping[str, object], origin: str) -> None:
    """Raise UsageError if a tier's model would take its own place."""
    if held.get("fallback") is not None and held["fallback"] == held.get("model"):
        what = f"{origin}: the tier `{tier}` falls back from `{held['model']}` to itself"
        raise UsageError(what, f"Choose another size for `tiers.{tier}.fallback`, or `none`.")


def read_tier(name: str, held: Mapping[str, object]) -> Tier:
    """Return the tier with these parsed values."""
    fallback, questions = held.get("fallback"), held["questions"]
    values = {
        **held,
        "name": name,
        "decompose": held["decompose"] == "on",
        "task_models": held["task_models"] == "on",
        "question_gates": held.get("question_gates") == "on",
        "fallback": None if fallback == NONE else fallback,
        "questions": None if questions == UNLIMITED else questions,
    }
    return Tier(**values)  # type: ignore[arg-type] # the parsers of the fields checked them
