"""A worker's records of its attempt: each phase before it begins, each answer as soon as it arrives."""

from collections.abc import Sequence

from msgspec import Struct

from scaffold.core.events import CritiqueRecorded, VerificationFailed
from scaffold.core.ids import Commit
from scaffold.core.model import Action, Attempt, CriticScore
from scaffold.core.printable_text import utf8_safe
from scaffold.core.proof.contract import Verification
from scaffold.core.states import AttemptPhase, Landing, Running, Verifying
from scaffold.host.wake_fifo import wake_up
from scaffold.plan.collisions.boundary import boundary_of
from scaffold.run.context import RunContext
from scaffold.store.run.attempts import AgentAnswer


class AttemptRecorder:
    """Writes one attempt's rows; every method raises StaleFence once another process ended the attempt."""

    def __init__(self, context: RunContext, attempt: Attempt, action: Action) -> None:
        self._context = context
        self._attempt = attempt
        self._action = action

    def enter(self, phase: AttemptPhase, *, verification: Verification | None = None) -> None:
        """Record that a phase begins, with the verification of the phase before it."""
        store, attempt = self._context.store, self._attempt
        state = Running() if phase == "executing" else Verifying()
        with store.transaction():
            store.attempts.advance(attempt.id, fence=attempt.fence, phase=phase, verification=verification)
            action = store.actions.get(attempt.action_id)
            if action is not None and action.state != state:
                store.actions.move(attempt.action_id, state)

    def answered(self, words: str, *, iteration: int, edits: str | None = None) -> None:
        """Record the agent's whole final answer, and edits of its story's steps, before its work is verified."""
        store, attempt = self._context.store, self._attempt
        # A reply may contain lone surrogates, which neither database stores as text.
        text = self._context.redactor.clean(utf8_safe(words))
        with store.transaction():
            store.attempts.advance(
                attempt.id, fence=attempt.fence, phase="executing", answer=AgentAnswer(text, iteration, edits)
            )

    def changed(self, paths: Sequence[str], head: Commit) -> None:
        """Record which paths the work changes at this commit, before it is verified."""
        kept = boundary_of(tuple(paths), literal=True).paths.values()
        with self._context.store.transaction():
            self._context.store.scheduling.touch(self._attempt.id, [*kept], head, fence=self._attempt.fence)

    def asked(self, edits: str) -> None:
        """Record edits of its story's steps that the agent asked for in a turn that did not end."""
        with self._context.store.transaction():
            self._context.store.attempts.keep_edits(self._attempt.id, edits, fence=self._attempt.fence)

    def took_up(self, before: Attempt) -> None:
        """Record that the work is that of an earlier attempt, which was given its learnings."""
        with self._context.store.transaction():
            self._context.store.learning_uses.carry(before.id, self._attempt.id)

    def criticised(self, verification: Verification, *, iteration: int, score: CriticScore, done: bool) -> None:
        """Record the critic's score for work that passed `verification`; `done` if no iteration follows."""
        store, attempt = self._context.store, self._attempt
        criticised = CritiqueRecorded(self._action.key, iteration, score.total, verification.passed, done)
        with store.transaction():
            store.attempts.advance(
                attempt.id, fence=attempt.fence, phase="critiquing", verification=verification, score=score
            )
            store.events.append(attempt.run_id, criticised)

    def never_passed(self, verification: Verification, *, iterations: int, summary: str) -> None:
        """Record why the work still fails after its last iteration."""
        store, attempt = self._context.store, self._attempt
        text = self._context.redactor.clean(utf8_safe(summary))
        with store.transaction():
            store.attempts.advance(attempt.id, fence=attempt.fence, phase="verifying", verification=verification)
            store.events.append(attempt.run_id, VerificationFailed(self._action.key, iterations, text))

    def hand_in(self, head: Commit, verification: Verification) -> None:
        """Offer a verified commit for landing; from here on the run's owner decides about it."""
        store, attempt = self._context.store, self._attempt
        # Durable, because the owner may land the candidate in the next moment, which no power cut can undo in git.
        with store.transaction(durable=True):
            store.attempts.advance(
                attempt.id, fence=attempt.fence, phase="candidate", head_sha=head, verification=verification
            )
            store.actions.move(attempt.action_id, Landing())
        # Its slot is free and there is something to land: the owner would only notice at its next look.
        wake_up(self._context.wake_fifo(attempt.run_id))


class CandidateReady(Struct, frozen=True):
    """A candidate was handed in; for a review, and for a tester that changed nothing, `head` is the base."""

    head: Commit
