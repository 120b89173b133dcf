"""The exception tree. Each error says what is wrong, with which thing, and how to fix it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # each command needs the errors, few need plans
    from scaffold.core.plan import Finding


class ScaffoldError(Exception):
    """Base of all errors a user can act on: `what` is one line, `fix` is another."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix

    @property
    def in_full(self) -> str:
        """Return `what` and `fix` as two sentences on one line."""
        return f"{self.what.rstrip('.')}. {self.fix}"


class UsageError(ScaffoldError):
    """The command was called with arguments that cannot work, e.g. an unknown option or a bad value."""


class IndexFull(UsageError):
    """An index has reached its limit of chunks."""


class PlanInvalid(ScaffoldError):
    """The plan cannot be read or cannot reach its goals; `findings` say where and why."""

    def __init__(self, what: str, fix: str, findings: "tuple[Finding, ...]" = ()) -> None:
        super().__init__(what, fix)
        self.findings = findings


class RepositoryError(ScaffoldError):
    """The repository is in a state that does not allow the operation."""


class NotInRepository(RepositoryError):
    """The directory is not in a git repository at all."""


class GitError(ScaffoldError):
    """A git command failed unexpectedly."""


class PermanentGitError(GitError):
    """A git command failed, and will until someone changes the repository."""


class EnvironmentNotReady(ScaffoldError):
    """The environment that checks need is missing or belongs to another checkout, so their results would be wrong."""

    def __init__(self, what: str, fix: str, output: str = "") -> None:
        super().__init__(what, fix)
        self.output = output
        """The last lines of the command that failed; empty if none did."""


class StoreError(ScaffoldError):
    """The database cannot be opened, read or written."""


class StoreUnavailable(StoreError):
    """The database cannot be used at present: it is out of reach, locked, not writable, or has no room."""


class StoreReadOnly(StoreUnavailable):
    """The database is not writable, and will not be until someone changes that."""


class StoreEmpty(StoreError):
    """The database exists but has no tables: its creation was interrupted, so it never held a run."""


class ForeignState(StoreError):
    """The database was made by someone else, e.g. it came with a repository, so nothing of it may be used."""


class IllegalTransition(ScaffoldError):
    """The requested state change is not in the transition table for the current state."""


class StaleFence(ScaffoldError):
    """Another process has taken ownership, so this fence is out of date. The caller must stop writing."""


class RunBusy(ScaffoldError):
    """Another live process owns this run."""


class ConversationBusy(ScaffoldError):
    """Another live process is using this conversation."""


class ModelError(ScaffoldError):
    """A model request failed.

    `transient` is True if a retry may succeed. `limited` is True if the endpoint rejected the request because of its
    rate limit or load; `retry_after_s` is the wait it asked for, None if it gave none. `no_local_server` is True if it
    is an address of this machine where no program accepts connections.
    """

    def __init__(
        self,
        what: str,
        fix: str,
        *,
        transient: bool = False,
        limited: bool = False,
        retry_after_s: float | None = None,
        no_local_server: bool = False,
    ) -> None:
        super().__init__(what, fix)
        self.no_local_server = no_local_server
        self.transient = transient
        self.limited = limited
        self.retry_after_s = retry_after_s


class ModelUnavailable(ModelError):
    """The model's endpoint currently accepts no requests of this user.

    It is down or limited for longer than the caller waits, or denies access.
    """


class ModelAccessDenied(ModelUnavailable):
    """The endpoint refuses the key, the quota or the model, or cannot be used at this address: waiting is useless."""


class ContextOverflow(ModelError):
    """The conversation exceeds the model's context window; a shorter one may work.

    `window_tokens` is the window that the provider named, None if it named none.
    """

    def __init__(self, what: str, fix: str, *, window_tokens: int | None = None) -> None:
        super().__init__(what, fix)
        self.window_tokens = window_tokens


class CassetteMiss(ModelError):
    """The cassette has no recorded reply for this request."""


class TurnLimitExceeded(ModelError):
    """The conversation reached its maximum number of requests."""


class EmbeddingError(ScaffoldError):
    """A text has no vector: the embedding model is missing or broken, its server refuses, or a vector is unusable."""


class BudgetExceeded(ScaffoldError):
    """The budget is used up; no further request may start."""


class ShareUsed(BudgetExceeded):
    """An action has used its share of the budget, and others still need theirs."""


class TrustError(ScaffoldError):
    """The operation needs trust or sandbox support that this machine does not provide."""


class HookUnusable(ScaffoldError):
    """A hook that guards something cannot run, so what it guards cannot be done."""


class TurnStopped(ScaffoldError):
    """A hook has stopped the agent; the conversation is kept."""


class HumanDecisionRequired(ScaffoldError):
    """Work cannot continue until a human decides the inbox item with the id `item`."""

    def __init__(self, what: str, fix: str, *, item: str) -> None:
        super().__init__(what, fix)
        self.item = item
