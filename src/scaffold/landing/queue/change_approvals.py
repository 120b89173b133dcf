"""Ask a human to approve each change before it lands, and tell for which change an answer holds."""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Literal

from msgspec import Struct

from scaffold.core.change_approval import ChangeAnswers, ChangeSubject, answers_about, subject_of, why_outdated
from scaffold.core.events import NoticeRaised
from scaffold.core.ids import ActionId, AttemptId, Commit
from scaffold.core.model import InboxItem, Run
from scaffold.core.printable_text import count_of, truncate_text, utf8_safe
from scaffold.core.proof.contract import Doubt, DoubtCode
from scaffold.core.states import COUNTED_FAILURES, AttemptOutcome
from scaffold.git import commits, refs
from scaffold.git.added_lines import changed_line_count
from scaffold.git.patch import change_fingerprint
from scaffold.host.random_ids import new_id
from scaffold.landing.proving.candidate_check import Candidate
from scaffold.policy.path.protected_areas import ProtectedAreas
from scaffold.policy.path.protected_files import protected_entry
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext
from scaffold.run.task_list import own_fingerprint
from scaffold.views.changes.change_text import TextLimits, change_text_lines
from scaffold.views.changes.reviewed_change import Contribution, read_change

SHOWN_CHARS = 128 * 1024
"""Limit for the change that is stored with the question; `scaffold diff` shows all of it."""
SHOWN_LINES = 2_000
SHOWN_HUNK_LINES = 200
CHANGE_LIFETIME = timedelta(days=30)
"""How long a candidate waits for an answer; afterwards it is asked about anew."""


class Rejected(Struct, frozen=True):
    """A human wants the change reworked; `why` is for its agent."""

    why: str
    outcome: AttemptOutcome = "rejected"
    """`contract_failed` for the same change again, which counts as a failure because nothing was reworked."""


Verdict = Literal["approved", "waits", "later"] | Rejected
"""`waits`: the inbox asks a human; `later`: it will ask, once the candidates ahead have landed."""


class _Asked(Struct, frozen=True):
    item: str
    tip: Commit
    since_s: float
    """When this process found that it waits, on the monotonic clock."""


class ChangeApprovals:
    """The approvals that candidates of a run need; only its owner may use it. Without human review all is approved.

    Questions and answers are in the inbox, so a kill loses none, and nothing is asked twice.
    """

    def __init__(self, context: RunContext, run: Run) -> None:
        self._context = context
        self._run = run
        self._asked: dict[AttemptId, _Asked] = {}
        self._doubts: dict[AttemptId, frozenset[DoubtCode]] = {}
        """The doubts that arose when a candidate was proven on the tree that would land."""

    @property
    def required(self) -> bool:
        """Whether a human approves each change."""
        return self._run.settings.human_reviews

    @property
    def awaiting(self) -> Mapping[AttemptId, str]:
        """{candidate that waits for a human: its open inbox item}."""
        asked = self._asked.items()
        return {attempt_id: each.item for attempt_id, each in asked if self._context.store.inbox.is_open(each.item)}

    @property
    def resting(self) -> Mapping[AttemptId, str]:
        """Those that have waited for so long that the run no longer waits for an answer."""
        now, wait_s = self._context.clock.monotonic(), self._run.settings.permissions.inbox_wait_s
        return {each: item for each, item in self.awaiting.items() if now - self._asked[each].since_s >= wait_s}

    def set_aside(self, tip: Commit) -> Mapping[AttemptId, str]:
        """Return the waiting candidates whose question is about the change as it would land on `tip`."""
        return {each: item for each, item in self.awaiting.items() if self._asked[each].tip == tip}

    async def keep(self, waiting: Collection[AttemptId]) -> None:
        """Forget the candidates that no longer wait to land, because they were cancelled."""
        for gone in [each for each in self._asked if each not in waiting]:
            await self.end(gone)

    async def verdict_on(self, candidate: Candidate, tip: Commit) -> Verdict:
        """Return what a human says about exactly this change; without an answer, ask and let the candidate wait."""
        if not self.required:
            return "approved"
        attempt, store = candidate.attempt, self._context.store
        subject = await self.subject(candidate)
        answers = self.answers(subject, candidate.action.id)
        if answers.rejected is not None:
            return Rejected(_rejection_text(answers.rejected))
        if answers.approved is not None:
            return "approved"
        if answers.repeats is not None and not self._is_retried_since(answers.repeats):
            return Rejected(f"it is the same change again: {_rejection_text(answers.repeats)}", "contract_failed")
        if candidate.base != tip and not await self._is_as_handed_in(candidate, subject):
            return "later"
        new = await self._approval_item(candidate, subject)
        shown = await self._change_text(candidate)
        # Pinned before the question, so that its reader can see the change.
        await refs.pin(self._context.git, refs.review_ref(attempt.id), candidate.commit)
        with owner_transaction(store, self._run, durable=True):
            store.attempts.check(attempt.id, fence=attempt.fence)
            # Read again: it may have been answered since.
            answers = self.answers(subject, candidate.action.id)
            asked = answers.open or answers.approved or answers.rejected or store.inbox.ask(new)
            store.inbox.show(asked.id, shown)
            self._end_outdated(subject, answers.outdated, asked)
        before, now_s = self._asked.get(attempt.id), self._context.clock.monotonic()
        since_s = before.since_s if before is not None and before.item == asked.id else now_s
        self._asked[attempt.id] = _Asked(asked.id, tip, since_s)
        return "waits"

    def _is_retried_since(self, rejected: InboxItem) -> bool:
        # A human who grants new attempts may want the change after all.
        asked = subject_of(rejected)
        if asked is None or rejected.action_id is None:
            return False
        store = self._context.store
        failed = [
            each.number for each in store.attempts.for_action(rejected.action_id) if each.outcome in COUNTED_FAILURES
        ]
        return sum(number > asked.attempt for number in failed) > store.actions.failures(rejected.action_id)

    async def subject(self, candidate: Candidate, found: Iterable[Doubt] = ()) -> ChangeSubject:
        """Return the subject of the question: what would land, and its doubts, including those `found` since."""
        git, attempt = self._context.git, candidate.attempt
        ends = candidate.own_base, candidate.commit
        handed_in = attempt.verification.doubts if attempt.verification else ()
        known = self._doubts.get(attempt.id, frozenset()) | {doubt.code for doubt in found}
        self._doubts[attempt.id] = known
        return ChangeSubject(
            action=candidate.action.key,
            landing=attempt.id,
            attempt=attempt.number,
            base=attempt.base_sha,
            change=await change_fingerprint(git, *ends),
            doubts=tuple(sorted(known | {doubt.code for doubt in handed_in})),
            protected=await self._protected_paths(*ends),
            merged=tuple(each.line for each in candidate.merged),
        )

    def answers(self, subject: ChangeSubject, action: ActionId) -> ChangeAnswers:
        """Return the questions and answers about a change, as stored now."""
        return answers_about(subject, self._context.store.inbox.for_action(action), self._context.clock.now())

    async def end(self, attempt_id: AttemptId) -> None:
        """Withdraw the question about a candidate that no longer waits to land."""
        self._doubts.pop(attempt_id, None)
        asked = self._asked.pop(attempt_id, None)
        store = self._context.store
        if asked is not None and store.inbox.is_open(asked.item):
            with owner_transaction(store, self._run):
                store.inbox.withdraw_item(asked.item)
        if self.required and (shown := await refs.resolve(self._context.git, refs.review_ref(attempt_id))) is not None:
            await refs.delete(self._context.git, refs.review_ref(attempt_id), old=shown)

    async def _change_text(self, candidate: Candidate) -> str:
        # By intent, without secrets.
        context, ends = self._context, (candidate.own_base, candidate.commit)
        work = Contribution(candidate.action, candidate.attempt)
        change = await read_change(context.git, context.store, self._run, [work], ends)
        rest = f"scaffold review {candidate.action.key}"
        limits = TextLimits(hunk_lines=SHOWN_HUNK_LINES, lines=SHOWN_LINES, rest=rest)
        text = "\n".join([*change_text_lines(change, limits), ""])
        return truncate_text(context.redactor.clean(utf8_safe(text)), SHOWN_CHARS)

    async def _is_as_handed_in(self, candidate: Candidate, subject: ChangeSubject) -> bool:
        attempt, listed = candidate.attempt, self._run.settings.landing.tracked_list
        if attempt.head_sha is None:
            return False
        own = await own_fingerprint(self._context.git, listed, attempt.base_sha, attempt.head_sha)
        return hashlib.sha256(own).hexdigest() == subject.change

    async def _protected_paths(self, old: Commit, new: Commit) -> tuple[str, ...]:
        git = self._context.git
        areas = ProtectedAreas.with_added(self._run.settings.permissions.areas)
        paths = [
            path for path in await commits.changed_paths(git, old, new) if areas.area_of(path) or protected_entry(path)
        ]
        inner = [each.path for each in await commits.submodule_changes(git, old, new) if protected_entry(each.path)]
        return tuple(utf8_safe(path) for path in (*paths, *inner))

    async def _approval_item(self, candidate: Candidate, subject: ChangeSubject) -> InboxItem:
        git, ends = self._context.git, (candidate.own_base, candidate.commit)
        files = count_of(len(await commits.changed_paths(git, *ends)), "file")
        lines = count_of(await changed_line_count(git, *ends), "changed line")
        action, attempt, now = candidate.action, candidate.attempt, self._context.clock.now()
        merged = f", merged with others' changes in {len(candidate.merged)} of them" if candidate.merged else ""
        return InboxItem(
            id=new_id(),
            run_id=self._run.id,
            goal_id=action.goal_id,
            action_id=action.id,
            attempt_id=attempt.id,
            kind="approval",
            text=f"{action.key} is ready to land: {files}, {lines}{merged}",
            detail=subject.detail,
            created_at=now,
            expires_at=now + CHANGE_LIFETIME,
        )

    def _end_outdated(self, subject: ChangeSubject, outdated: Sequence[InboxItem], asked: InboxItem) -> None:
        # Close the questions about other changes of the action; say which approvals no longer hold.
        store = self._context.store
        for item in outdated:
            before = subject_of(item)
            if before is None:
                continue
            if item.state == "open":
                store.inbox.withdraw_item(item.id)
                continue
            store.inbox.end_validity(item.id)
            why = why_outdated(subject, before)
            text = f"Your approval {item.id} of {subject.action} no longer holds: {why}. It is asked as {asked.id}."
            store.events.append(self._run.id, NoticeRaised("warning", text))


def _rejection_text(item: InboxItem) -> str:
    return f"a human rejected the change: {item.answer}" if item.answer else "a human rejected it, without a reason"
