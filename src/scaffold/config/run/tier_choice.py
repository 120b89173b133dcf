"""The tier of a run: the user's choice, or a guess from the words of the request."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from scaffold.config.settings import Settings, load_settings
from scaffold.core.run_settings import BUILDER, TierChoice
from scaffold.plan.analysis.tier_keywords import DEFAULT_TIER, TierGuess, guess_tier
from scaffold.plan.message_text import quoted_list


class SettingsInTier(Struct, frozen=True):
    """The settings for a run in its tier, and how the tier was found."""

    settings: Settings
    choice: TierChoice

    @property
    def notice(self) -> str:
        """The note about the tier for the user; empty if the user chose it."""
        return self.choice.text(self.settings.tier().name)


class TierQuestion(Struct, frozen=True, kw_only=True):
    """The input for the choice of a tier."""

    texts: Sequence[str] = ()
    """The request, or the titles of its tasks."""
    has_plan: bool = False
    """Whether the user wrote the plan: `builder` applies unless the user chose a tier."""
    needs_planner: bool = False
    """Whether tiers without a planner are excluded."""


def settings_in_tier(
    start: Path, environ: Mapping[str, str], flags: Mapping[str, object], question: TierQuestion, *, trust_once: bool
) -> SettingsInTier:
    """Return the settings of the folder `start` in the tier that is given or configured, or else in a guessed one.

    Raises as `load_settings` does.
    """
    settings = load_settings(start, environ, flags, trust_once=trust_once)
    if settings.tier_is_chosen:
        return SettingsInTier(settings, TierChoice())
    if question.has_plan:
        return SettingsInTier(_tier_settings(BUILDER.name, start, environ, flags, trust_once=trust_once), TierChoice())
    guess = guess_tier([_title_or_text(text) for text in question.texts])
    tier, reason = guess.tier, _tier_reason(guess)
    chosen = _tier_settings(tier, start, environ, flags, trust_once=trust_once)
    if question.needs_planner and not chosen.tier().decompose:
        reason = f"{_words_call(guess)} for {tier}, but this needs a planner"
        chosen = _tier_settings(DEFAULT_TIER, start, environ, flags, trust_once=trust_once)
    return SettingsInTier(chosen, TierChoice(confidence=guess.confidence, found_words=guess.words, reason=reason))


def _tier_reason(guess: TierGuess) -> str:
    if not guess.words:
        return "no word of the request suggests another tier"
    if guess.leaning:
        return f"{_words_call(guess)} for {guess.leaning}, but not clearly"
    return f"the request has {quoted_list(guess.words)}"


def _words_call(guess: TierGuess) -> str:
    return f"{quoted_list(guess.words)} {'call' if len(guess.words) > 1 else 'calls'}"


def _tier_settings(
    tier: str, start: Path, environ: Mapping[str, str], flags: Mapping[str, object], *, trust_once: bool
) -> Settings:
    # Loaded again: what a project may lower depends on the tier.
    return load_settings(start, environ, {**flags, "tier": tier}, trust_once=trust_once)


def _title_or_text(text: str) -> str:
    # The first line of a longer text is its title, if it has a keyword.
    title, newline, _ = text.strip().partition("\n")
    return title if newline and guess_tier([title]).words else text
