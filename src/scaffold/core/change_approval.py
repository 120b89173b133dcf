"""Questions to a human about a change that is ready to land, which answers apply, and comments on its lines. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from scaffold.core.ids import ActionId, ActionKey, AttemptId, Commit, RunId
from scaffold.core.model import InboxItem
from scaffold.core.proof.contract import DoubtCode


class ChangeSubject(Struct, frozen=True, kw_only=True):
    """One change of one attempt: an answer about it does not apply to another."""

    action: ActionKey
    landing: AttemptId
    """The attempt whose change it is."""
    attempt: int
    """Its number."""
    base: Commit
    """The commit on which the attempt worked."""
    change: str
    """SHA-256 of the paths, modes and blobs before and after of what would land."""
    doubts: tuple[DoubtCode, ...] = ()
    """Sorted; an approval given despite these does not cover others."""
    protected: tuple[str, ...] = ()
    """The changed paths in protected areas, and protected files, for people."""
    merged: tuple[str, ...] = ()
    """What became of each file that others have changed, too, in a line each, for people."""

    @property
    def detail(self) -> Mapping[str, Any]:
        """The subject as an inbox item stores it."""
        return dict(msgspec.to_builtins(self))

    def is_covered_by(self, asked: "ChangeSubject") -> bool:
        """Return whether an answer about `asked` also applies to this."""
        same = (self.action, self.landing, self.base, self.change) == (
            *(asked.action, asked.landing),
            *(asked.base, asked.change),
        )
        return same and {*self.doubts} <= {*asked.doubts}


def subject_of(item: InboxItem) -> ChangeSubject | None:
    """Return the change that an inbox item asks about; None if it asks about something else."""
    if item.kind != "approval" or "landing" not in item.detail:
        return None
    try:
        return msgspec.convert(item.detail, ChangeSubject)
    except msgspec.ValidationError:
        return None


class ChangeAnswers(Struct, frozen=True, kw_only=True):
    """The answers about one of an action's changes."""

    approved: InboxItem | None = None
    """The approval that holds for it; None if none does."""
    rejected: InboxItem | None = None
    repeats: InboxItem | None = None
    """The rejection of the same change by an earlier attempt."""
    open: InboxItem | None = None
    outdated: tuple[InboxItem, ...] = ()
    """Open items and approvals in force about other changes of the action: no answer to them matters any more."""


def answers_about(subject: ChangeSubject, items: Iterable[InboxItem], now: datetime) -> ChangeAnswers:
    """Return the questions and answers about `subject`, among the items of its action in their order.

    A rejection has no time limit: it is about one change, and the agent makes another one.
    """
    found: dict[str, InboxItem] = {}
    repeats: InboxItem | None = None
    outdated = list[InboxItem]()
    for item in items:
        asked = subject_of(item)
        if asked is None or item.state not in {"approved", "rejected", "open"}:
            continue
        in_force = item.state != "approved" or item.valid_until is None or item.valid_until > now
        if subject.is_covered_by(asked) and in_force:
            found[item.state] = item
        elif item.state == "rejected" and asked.change == subject.change and asked.landing != subject.landing:
            repeats = item
        elif item.state != "rejected" and in_force:
            outdated.append(item)
    return ChangeAnswers(
        approved=found.get("approved"),
        rejected=found.get("rejected"),
        repeats=repeats,
        open=found.get("open"),
        outdated=tuple(outdated),
    )


def why_outdated(subject: ChangeSubject, asked: ChangeSubject) -> str:
    """Return why an answer to what was `asked` does not hold for `subject`, as the end of a sentence."""
    if subject.landing != asked.landing:
        return f"attempt {subject.attempt} has made the change anew"
    if subject.base != asked.base:
        return f"its base is {subject.base[:8]} now, it was {asked.base[:8]}"
    if subject.change != asked.change:
        return "what would land is another change, as others have changed the same files meanwhile"
    new = sorted({*subject.doubts} - {*asked.doubts})
    return f"its checks raise other doubts now: {', '.join(new)}"


def approval_of(landing: AttemptId, approved: Sequence[InboxItem]) -> InboxItem | None:
    """Return the approval with which the attempt's change landed; `approved` has its action's approvals in order."""
    subjects = ((item, subject_of(item)) for item in approved)
    found = [item for item, subject in subjects if subject is not None and subject.landing == landing]
    return found[-1] if found else None


class ReviewComment(Struct, frozen=True, kw_only=True):
    """A comment on lines of one attempt's change."""

    id: str
    run_id: RunId
    action_id: ActionId
    attempt_id: AttemptId
    """The attempt whose change it is about."""
    number: int
    """From 1, counting the comments on changes of the action."""
    base_sha: Commit
    commit_sha: Commit
    """The commits between which the change was shown."""
    fingerprint: str
    """Of the change, as an approval has it."""
    path: str
    first_line: int
    last_line: int
    before: bool = False
    """Whether the lines are those before the change."""
    quoted: str
    """The lines as they were shown, without secrets; without the middle of many."""
    text: str
    """Without secrets."""
    author: str
    sent_as: str = ""
    """How it was sent to the agent: `rejection`, `message`, or `item ID` once the change had landed; empty: a draft."""
    created_at: datetime
    sent_at: datetime | None = None

    @property
    def place(self) -> str:
        """The file with its lines, as the user names them: `app.py:3`, `app.py:3-5`, `app.py:-3` before the change."""
        lines = f"{self.first_line}" if self.first_line == self.last_line else f"{self.first_line}-{self.last_line}"
        return f"{self.path}:{'-' if self.before else ''}{lines}"
