"""How much of a run's budget is used, as text."""

from collections.abc import Sequence

from scaffold.plan.budget import BudgetUse


def budget_lines(use: BudgetUse) -> Sequence[str]:
    """Return how much of the budget is used, if there is one, and how sure that is."""
    if use.share is None:
        return []
    warning = f"; {use.consequence}" if use.is_low else ""
    sure = f" (confidence {use.confidence:.0%}: not every reply said what it used)" if use.confidence < 1 else ""
    return [f"{use.in_words}{sure}{warning}"]
