"""Activities: what a process of a run is busy with, for the people who watch it."""

from datetime import datetime

from msgspec import Struct

from scaffold.core.ids import AttemptId, RunId


class Activity(Struct, frozen=True, kw_only=True):
    """One thing that may take minutes: a command, or a wait."""

    label: str
    """Its purpose, e.g. `check`, or the name of a gate."""
    command: str = ""
    """The command that runs; empty for a wait."""
    folder: str = ""
    """Where it runs, relative to the top of the checkout."""
    is_whole: bool = True
    """Whether its duration says how long the same command will take: False for a part of the tests, and for a wait."""
    surrounds: bool = False
    """Whether it consists of other work, which is shown instead while it runs."""

    @property
    def text(self) -> str:
        """Return the work as one line for people: `check: pytest -q tests/test_store.py`."""
        return f"{self.label}: {self.command}" if self.command else self.label


class CurrentActivity(Struct, frozen=True, kw_only=True):
    """The work that a process of a run is doing now; it is recorded once it lasts."""

    run_id: RunId
    attempt_id: AttemptId | None
    """The attempt that it is for; None if it is for the run as a whole."""
    fence: int
    """The run's fence: what a process of an earlier owner was doing does not count."""
    stage: str
    """The activity around it, in one word for people; empty in an attempt, whose phase says it."""
    work: Activity
    since: datetime
    last_s: float | None = None
    """How many seconds the same command took when it last ended in this repository; None if that is unknown."""
