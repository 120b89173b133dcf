"""The merge queue of a run as its owner last arranged it."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from scaffold.core.ids import ActionKey, AttemptId

PlaceState = Literal["proving", "proven", "gates", "waiting", "held", "merging", "approval"]
"""`proving`: its checks run; `proven`: they passed; `gates`: the gates run for all that land together; `waiting`: for
those that must land before it; `held`: it conflicts with what landed, and waits for an action that is done again;
`merging`: it conflicts with what landed, and an agent or a tool of a lock file is merging it;
`approval`: a human has not approved its change yet."""


class QueuePlace(Struct, frozen=True, kw_only=True):
    """Where a candidate stands, and why."""

    attempt_id: AttemptId
    state: PlaceState
    lane: int | None = None
    """Its lane, from 1; candidates in lanes are proven side by side and land in this order. None: it waits."""
    waits_for: tuple[ActionKey, ...] = ()
    """The actions that it waits for."""
    detail: str = ""
    """While it is `merging`: who does what, for people. While it waits for `approval`: the inbox item."""
    conflicts: Mapping[ActionKey, tuple[str, ...]] = {}
    """The actions whose candidates or committed work conflict with it, and the paths of each conflict."""
