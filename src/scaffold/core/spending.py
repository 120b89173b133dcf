"""Limits and usage of requests: amounts, who asked, and the purpose that a role serves."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from scaffold.core.model import Usage

UNLIMITED_TOKENS = 2**62
"""More than can be reserved."""


class Amount(Struct, frozen=True):
    """Money and tokens; tokens are counted as in `Usage.counted_tokens`, and an unknown price as 0."""

    usd: float = 0.0
    tokens: int = 0


class SpendingLimits(Struct, frozen=True, kw_only=True):
    """The most that may be spent; None for no limit."""

    usd: float | None = None
    tokens: int | None = None


class Spender(Struct, frozen=True):
    """Who makes a request: an agent's role, and the model string of the model that it asks."""

    role: str
    model: str


SUBSCRIPTION = " (subscription)"
"""Ends the name of a spender whose subscription pays: its cost is notional."""


class AccountTotals(Struct, frozen=True, kw_only=True):
    """All that is booked on an account."""

    spent: Amount = Amount()
    estimated_tokens: int = 0
    """How many of the tokens are our estimate, because the reply did not say or was never read."""
    error_tokens: int = 0
    """By how many tokens the estimates of all other requests were wrong, upwards or downwards."""


class Booking(Struct, frozen=True, kw_only=True):
    """All that one spender used for one attempt or planning turn, its payer."""

    payer: str
    spender: Spender
    usage: Usage
    """Its cost is None if a part of it is unknown."""
    known_usd: float
    """The known part of the cost."""


class PastCost(Struct, frozen=True):
    """An earlier run's average usage per action, including its planning and reviews."""

    tokens: float
    """As in `Usage.counted_tokens`."""
    usd: float | None
    """None if a part of it is unknown."""


Purpose = Literal["work", "planning", "proof", "landing"]
PURPOSES: tuple[Purpose, ...] = ("work", "planning", "proof", "landing")

_PURPOSES: Mapping[str, Purpose] = {
    "planner": "planning",
    "supervisor": "planning",
    "drafter": "proof",
    "critic": "proof",
    "reviewer": "proof",
    "auditor": "proof",
    "merger": "landing",
}
REVIEW_SUFFIX = "_review"
"""How the roles of actions end that judge work, as `code_review`."""


def purpose_of(role: str) -> Purpose:
    """Return the purpose of a role's requests; roles that change files, and the learner, work."""
    return "proof" if role.endswith(REVIEW_SUFFIX) else _PURPOSES.get(role, "work")
