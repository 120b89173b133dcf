"""Where an attempt records what it does: each phase before it begins, each answer as soon as it arrives."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct

from scaffold.agent.journal import JournalFile
from scaffold.core.events import CritiqueRecorded, VerificationFailed
from scaffold.core.ids import Commit
from scaffold.core.model import Attempt, CriticScore
from scaffold.core.printable_text import utf8_safe
from scaffold.core.proof.contract import Verification
from scaffold.core.spending import Spender
from scaffold.core.states import AttemptPhase, Landing, Running, Verifying
from scaffold.host.process_identity import own_identity
from scaffold.host.wake_fifo import wake_up
from scaffold.plan.collisions.boundary import boundary_of
from scaffold.policy.secret.redaction import Redactor
from scaffold.run.attempts.assignment import Assignment, Declaration, read_declaration
from scaffold.run.context import RunContext
from scaffold.run.notices import inform, warn
from scaffold.run.paid_replies import PaidReplies
from scaffold.store.database import Store
from scaffold.store.run.attempts import AgentAnswer
from scaffold.store.spending.run_budget import RunBudget
from scaffold.worker.activity_clock import ActivityClock, WaitAwareBudget


class AttemptRecords(Struct, frozen=True, kw_only=True):
    """Where an attempt records what it does: its rows, its journal, and notices of its run.

    Every write of a row raises StaleFence once another process has ended the attempt.
    """

    run_context: RunContext
    task: Assignment
    activity: ActivityClock
    """Its agents' signs of life."""

    @property
    def store(self) -> Store:
        """The store of the run."""
        return self.run_context.store

    @property
    def redactor(self) -> Redactor:
        """Removes the current secrets from what is recorded or sent to a model."""
        return self.run_context.redactor

    @property
    def declaration(self) -> Declaration:
        """What the action may change, with what was granted since it was planned."""
        return read_declaration(self.store, self.task.action)

    def warn(self, text: str) -> None:
        """Record a warning in the run, unless it is already there."""
        warn(self.run_context, self.task.run.id, text)

    def inform(self, text: str) -> None:
        """Record an informational notice in the run, unless it is already there."""
        inform(self.run_context, self.task.run.id, text)

    def open_journal(self, **fields: str) -> JournalFile:
        """Return the journal of the action's agents; each line has `fields`, the run, the action and the attempt."""
        task = self.task
        return JournalFile(
            self.run_context.journal(*task.journal_names),
            clock=self.run_context.clock,
            fields={"run": task.run.id, "action": task.action.key, "attempt": task.attempt.number, **fields},
            redactor=self.redactor,
        )

    def open_budget(self, role: str, model: str) -> WaitAwareBudget:
        """Return the run's budget for an agent in this `role` with this `model`; its waits do not count as idle."""
        context, run = self.run_context, self.task.run
        budget = RunBudget(
            context.store,
            self.task.attempt,
            Spender(role, model),
            limits=run.settings.limits,
            clock=context.clock,
            owner=own_identity(),
        )
        return WaitAwareBudget(budget, self.activity)

    def paid_replies(self, model: str) -> PaidReplies:
        """Return the replies that were paid for the action's advisers with this `model`."""
        attempt = self.task.attempt
        return PaidReplies(self.store, attempt.action_id, model, self.run_context.worktree_of(attempt))

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[Attempt]:
        """Run the block in a transaction of the attempt, and yield its row; StaleFence before any write."""
        attempt = self.task.attempt
        with self.store.transaction(durable=durable):
            self.store.attempts.check(attempt.id, fence=attempt.fence)
            yield attempt

    def enter(self, phase: AttemptPhase, *, verification: Verification | None = None) -> None:
        """Record that a phase begins, with the verification of the phase before it."""
        store, attempt = self.store, self.task.attempt
        state = Running() if phase == "executing" else Verifying()
        with store.transaction():
            store.attempts.advance(attempt.id, fence=attempt.fence, phase=phase, verification=verification)
            action = store.actions.get(attempt.action_id)
            # Each iteration executes again; the state machine has no move to the same state.
            if action is not None and action.state != state:
                store.actions.move(attempt.action_id, state)

    def verify_again(self) -> None:
        """Enter `verifying`: from `critiquing` a phase goes back to `executing` only, so that takes two steps."""
        self.enter("executing")
        self.enter("verifying")

    def answered(self, words: str, *, iteration: int, edits: str | None = None) -> None:
        """Record the agent's whole final answer, and edits of its story's steps, before its work is verified."""
        store, attempt = self.store, self.task.attempt
        # A reply may contain lone surrogates, which neither database stores as text.
        text = self.redactor.clean(utf8_safe(words))
        with store.transaction():
            store.attempts.advance(
                attempt.id, fence=attempt.fence, phase="executing", answer=AgentAnswer(text, iteration, edits)
            )

    def changed(self, paths: Sequence[str], head: Commit) -> None:
        """Record which paths the work changes at this commit, before it is verified."""
        kept = boundary_of(tuple(paths), literal=True).paths.values()
        with self.store.transaction():
            self.store.scheduling.touch(self.task.attempt.id, [*kept], head, fence=self.task.attempt.fence)

    def asked(self, edits: str) -> None:
        """Record edits of its story's steps that the agent asked for in a turn that did not end."""
        with self.store.transaction():
            self.store.attempts.keep_edits(self.task.attempt.id, edits, fence=self.task.attempt.fence)

    def criticised(self, verification: Verification, *, iteration: int, score: CriticScore, done: bool) -> None:
        """Record the critic's score for work that passed `verification`; `done` if no iteration follows."""
        store, attempt = self.store, self.task.attempt
        criticised = CritiqueRecorded(self.task.action.key, iteration, score.total, verification.passed, done)
        with store.transaction():
            store.attempts.advance(
                attempt.id, fence=attempt.fence, phase="critiquing", verification=verification, score=score
            )
            store.events.append(attempt.run_id, criticised)

    def never_passed(self, verification: Verification, *, iterations: int, summary: str) -> None:
        """Record why the work still fails after its last iteration."""
        store, attempt = self.store, self.task.attempt
        text = self.redactor.clean(utf8_safe(summary))
        with store.transaction():
            store.attempts.advance(attempt.id, fence=attempt.fence, phase="verifying", verification=verification)
            store.events.append(attempt.run_id, VerificationFailed(self.task.action.key, iterations, text))

    def hand_in(self, head: Commit, verification: Verification) -> None:
        """Offer a verified commit for landing; from here on the run's owner decides about it."""
        store, attempt = self.store, self.task.attempt
        # Durable, because the owner may land the candidate in the next moment, which no power cut can undo in git.
        with store.transaction(durable=True):
            store.attempts.advance(
                attempt.id, fence=attempt.fence, phase="candidate", head_sha=head, verification=verification
            )
            store.actions.move(attempt.action_id, Landing())
        # Its slot is free and there is something to land: the owner would only notice at its next look.
        wake_up(self.run_context.wake_fifo(attempt.run_id))


class CandidateReady(Struct, frozen=True):
    """A candidate was handed in; for a review, and for a tester that changed nothing, `head` is the base."""

    head: Commit
