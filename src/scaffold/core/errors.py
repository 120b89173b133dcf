"""The one tree of exceptions: each says what was wrong with which thing, and what to do next."""

from scaffold.core.plan import Finding


class ScaffoldError(Exception):
    """Something a user can act on: `what` is one line, `fix` another."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix

    @property
    def in_full(self) -> str:
        """Return both in one line, each a sentence."""
        return f"{self.what.rstrip('.')}. {self.fix}"


class UsageProblem(ScaffoldError):
    """The command was called in a way that cannot work."""


class PlanInvalid(ScaffoldError):
    """A plan cannot be read, or cannot reach its goals; `findings` say where and why."""

    def __init__(self, what: str, fix: str, findings: tuple[Finding, ...] = ()) -> None:
        super().__init__(what, fix)
        self.findings = findings


class RepositoryUnfit(ScaffoldError):
    """The repository cannot be worked on as it is."""


class GitFailed(ScaffoldError):
    """A git command ended in a way nobody expected."""


class EnvironmentNotReady(ScaffoldError):
    """What checks would run on is not there, or is not the repository's own: nothing they say could be believed."""


class StoreTrouble(ScaffoldError):
    """The database cannot be opened, read or written."""


class StoreEmpty(StoreTrouble):
    """The database is there and holds nothing: its making was cut off, so nothing was ever run."""


class IllegalMove(ScaffoldError):
    """A state may not be reached from where the thing is now."""


class StaleFence(ScaffoldError):
    """Somebody else owns this by now; whoever gets this must stop writing."""


class RunBusy(ScaffoldError):
    """A living process carries this run out already."""


class ConversationBusy(ScaffoldError):
    """A living process goes on with this conversation already."""


class ModelTrouble(ScaffoldError):
    """A model gave no reply; `transient` tells whether trying again may help.

    `limited` tells that the endpoint has too much to do, `retry_after_s` when it wants to be asked again, if it said.
    """

    def __init__(
        self, what: str, fix: str, *, transient: bool = False, limited: bool = False, retry_after_s: float | None = None
    ) -> None:
        super().__init__(what, fix)
        self.transient = transient
        self.limited = limited
        self.retry_after_s = retry_after_s


class ContextOverflow(ModelTrouble):
    """The conversation is longer than the model's window; a shorter one may be answered."""


class Unwritten(ModelTrouble):
    """A cassette has no reply for the request: whoever wrote it did not think of it."""


class TurnLimit(ModelTrouble):
    """The conversation used up the requests it was given."""


class BudgetSpent(ScaffoldError):
    """No further request may start: the budget is used up."""


class TrustProblem(ScaffoldError):
    """Something is asked for that the trust or the sandbox of this machine cannot give."""


class WaitsForHuman(ScaffoldError):
    """Nothing goes on here until a human decides about `item`, which stands in the inbox."""

    def __init__(self, what: str, fix: str, *, item: str) -> None:
        super().__init__(what, fix)
        self.item = item
