"""What a worker writes down of its attempt: each phase before it begins, each answer as soon as it is there."""

from scaffold.core.contract import Verification
from scaffold.core.events import Criticised, VerificationFailed
from scaffold.core.ids import Commit
from scaffold.core.legible import legible
from scaffold.core.model import Action, Attempt, Score
from scaffold.core.states import Landing, Phase, Running, Verifying
from scaffold.worker.site import Site


class Record:
    """The rows of one attempt, as its worker writes them; StaleFence once somebody else ended it."""

    def __init__(self, site: Site, attempt: Attempt, action: Action) -> None:
        self._site = site
        self._attempt = attempt
        self._action = action

    def enter(self, phase: Phase, *, verification: Verification | None = None) -> None:
        """Begin a phase, with what the one before showed."""
        store, attempt = self._site.store, self._attempt
        wanted = Running() if phase == "executing" else Verifying()
        with store.transaction():
            store.attempts.advance(attempt.id, fence=attempt.fence, phase=phase, verification=verification)
            action = store.actions.get(attempt.action_id)
            if action is not None and action.state != wanted:
                store.actions.move(attempt.action_id, wanted)

    def answered(self, words: str, *, iteration: int) -> None:
        """Keep the agent's final answer, whole, whatever its work turns out to be worth."""
        store, attempt = self._site.store, self._attempt
        told = self._site.redactor.clean(legible(words))
        with store.transaction():
            store.attempts.advance(attempt.id, fence=attempt.fence, phase="executing", result=told, iteration=iteration)

    def criticised(self, verification: Verification, *, iteration: int, score: Score, done: bool) -> None:
        """Keep how good a critic found the work that passed `verification`, and whether that is the end of it."""
        store, attempt = self._site.store, self._attempt
        criticised = Criticised(self._action.key, iteration, score.total, verification.passed, done)
        with store.transaction():
            store.attempts.advance(
                attempt.id, fence=attempt.fence, phase="critiquing", verification=verification, score=score
            )
            store.events.append(attempt.run_id, criticised)

    def never_passed(self, verification: Verification, *, iterations: int, summary: str) -> None:
        """Keep what is wrong with the work after its last iteration."""
        store, attempt = self._site.store, self._attempt
        told = self._site.redactor.clean(legible(summary))
        with store.transaction():
            store.attempts.advance(attempt.id, fence=attempt.fence, phase="verifying", verification=verification)
            store.events.append(attempt.run_id, VerificationFailed(self._action.key, iterations, told))

    def hand_in(self, head: Commit, verification: Verification) -> None:
        """Offer a commit for landing, with what its checks showed: from here on it is the owner's."""
        store, attempt = self._site.store, self._attempt
        with store.transaction(durable=True):
            store.attempts.advance(
                attempt.id, fence=attempt.fence, phase="candidate", head_sha=head, verification=verification
            )
            store.actions.move(attempt.action_id, Landing())
