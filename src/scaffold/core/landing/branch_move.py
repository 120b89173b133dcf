"""Branches that move, stored first: landings, and commands of the user that take work, undo it or carry it over."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from scaffold.core.ids import ActionId, ActionKey, AttemptId, Commit, RunId

MovePurpose = Literal["ff", "squash", "pr", "revert", "rebase"]
"""Taking work to the base branch as it is, or as one commit | a pull request | undoing an action | to a new base."""


class TakenCommit(Struct, frozen=True, kw_only=True):
    """A commit of the session branch, and the one in its place that was taken: itself, or one made from it."""

    old: Commit
    new: Commit
    action: ActionKey | None = None
    """The action that it landed; None for a commit that the user made."""
    subject: str = ""


class BranchMove(Struct, frozen=True, kw_only=True):
    """A branch that a command of the user moves or pushes, stored first so that a crash in between can be resolved."""

    id: str
    run_id: RunId
    purpose: MovePurpose
    branch: str
    """The short name of the branch that moves; for a pull request the one that is pushed, after its remote and `/`."""
    head: Commit
    """The commit it is about: the session branch's tip, the commit that is undone, or the new base."""
    old: Commit | None
    """Where the branch was; None if that is not known, as of a branch that is pushed."""
    new: Commit
    action_id: ActionId | None = None
    """The action that alone was taken, or that is reverted."""
    commits: tuple[TakenCommit, ...] = ()
    url: str = ""
    """The address of the pull request."""
    created_at: datetime
    resolved_at: datetime | None = None

    @property
    def takes_work(self) -> bool:
        """Whether it takes work of the run to its user, and does not change the session branch."""
        return self.purpose in {"ff", "squash", "pr"}


class Intent(Struct, frozen=True, kw_only=True):
    """A ref update about to happen, stored first so that a takeover after a crash can finish or redo it."""

    id: str
    run_id: RunId
    attempt_id: AttemptId
    fence: int
    ref: str
    old: Commit
    new: Commit
    """The branch's new tip, which may land several attempts."""
    commit: Commit
    """The attempt's own commit: the new tip, or an ancestor of it."""
