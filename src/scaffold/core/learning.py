"""Learnings: what earlier work showed, and what became of the attempts that were given it."""

from datetime import datetime, timedelta
from typing import Literal

from msgspec import Struct

LearningScope = Literal["repo", "module", "global"]
"""This repository | a folder of it | everything the user does."""
LearningOutcome = Literal["tests_pass", "perf_improved", "reverted", "bug_reopened"]
"""The outcome of following it."""
LearningSource = Literal["human", "agent"]
"""Who wrote it down."""
LearningMoment = Literal["start", "failure"]
"""When an attempt is given a learning: before its agent begins | after a check has failed."""
TTL = timedelta(days=90)
"""How long a learning is given after it was last triggered, or written."""


class Triple(Struct, frozen=True):
    """The content of a learning: WHEN something holds, DO something, with this RESULT."""

    condition: str
    advice: str
    result: str = ""


class Learning(Struct, frozen=True, kw_only=True):
    """A triple with its evidence, its scope and its use."""

    id: str
    triple: Triple
    scope: LearningScope = "repo"
    module: str = ""
    """With the scope `module`: the folder, relative to the root of the repository."""
    preference: bool = False
    """Whether it says what the user prefers: then it is global, and given to every attempt."""
    concepts: tuple[str, ...] = ()
    outcome: LearningOutcome | None = None
    commit: str = ""
    """The commit that shows it; empty if none was named."""
    log: str = ""
    """Where the log that shows it is; empty if none was named."""
    fingerprint: str = ""
    """The failure that it helped with; empty if it came from none."""
    source: LearningSource = "human"
    attempt: str = ""
    """The attempt that it was drawn from; empty for one of a human."""
    unconfirmed: bool = False
    """Whether the work that it was drawn from has not landed, or was undone: then it does not count."""
    contradicts: str = ""
    """The id of a learning that says the opposite; empty if none was named."""
    superseded_by: str = ""
    """The id of the learning in its place; empty as long as it counts."""
    triggers: int = 0
    """How many attempts it was found for."""
    triggered_at: datetime | None = None
    created_at: datetime
    changed_at: datetime
    """When its text was last changed: what was seen of it before says nothing about it now."""

    @property
    def expires_at(self) -> datetime:
        """When it is given no more unless something triggers it before."""
        return max(self.triggered_at or self.changed_at, self.changed_at) + TTL

    def is_current(self, now: datetime) -> bool:
        """Return whether it counts: it is confirmed, and neither superseded nor expired."""
        return not self.superseded_by and not self.unconfirmed and now < self.expires_at


class LearningUse(Struct, frozen=True, kw_only=True):
    """An attempt for which a learning was found, and what became of it."""

    learning: str
    run: str
    at: datetime
    given: bool
    """False if it was withheld, so that both can be compared."""
    moment: LearningMoment = "start"
    helped: bool | None
    """Whether the attempt's work landed and stayed; None if its end says nothing about that."""
