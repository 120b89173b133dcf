"""A change that waits for a human's approval, with its evidence and its doubts."""

from msgspec import Struct

from scaffold.core.change_approval import ChangeSubject, subject_of
from scaffold.core.model import InboxItem
from scaffold.core.proof.contract import ChangeReview, CheckResult, Doubt
from scaffold.core.proof.gates import GateResult
from scaffold.store.database import Store


class WaitingChange(Struct, frozen=True, kw_only=True):
    """A change before it lands; evidence and doubts come from its worker's checks."""

    subject: ChangeSubject
    checks: tuple[CheckResult, ...] = ()
    gates: tuple[GateResult, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    review: ChangeReview | None = None
    """The second reviewer's verdict."""
    diff: str = ""
    """Without secrets; the middle of a long diff is left out."""


def read_waiting_change(store: Store, item: InboxItem | None) -> WaitingChange | None:
    """Return the change that an open inbox item asks about; None for anything else."""
    subject = subject_of(item) if item is not None and item.state == "open" else None
    attempt = store.attempts.get(subject.landing) if subject else None
    if item is None or subject is None or attempt is None:
        return None
    found = attempt.verification
    if found is None:
        return WaitingChange(subject=subject, diff=store.inbox.shown(item.id))
    return WaitingChange(
        subject=subject,
        checks=found.results,
        gates=found.gates,
        doubts=found.doubts,
        review=found.review,
        diff=store.inbox.shown(item.id),
    )
