"""Facts in question, in the store: gone stale, shown anew, refuted, and who showed them put to work again.

The caller owns each transaction.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime

from msgspec import Struct

from scaffold.core.contract import BLOCKING, CheckResult, Verification
from scaffold.core.events import Noticed
from scaffold.core.gates import GateResult
from scaffold.core.ids import ActionId, Commit
from scaffold.core.legible import legible
from scaffold.core.model import Action, Fact, Run
from scaffold.core.states import Active, Cancelled, Completed, Pending, Running
from scaffold.landing.evidence import evidence_of
from scaffold.landing.staleness import Claim, claims
from scaffold.store.database import Store


class Tested(Struct, frozen=True, kw_only=True):
    """What speaks for a claim, or against it, at one commit."""

    claim: Claim
    commit: Commit
    results: tuple[CheckResult, ...] = ()
    """Of its own checks."""
    gates: tuple[GateResult, ...] = ()
    """Of the repository's at the same commit, if they were asked."""

    @property
    def failures(self) -> tuple[CheckResult, ...]:
        """The results by which it does not hold there."""
        return tuple(result for result in self.results if result.verdict in BLOCKING)


def in_question(
    store: Store, run: Run, changed: Collection[str], *, besides: ActionId | None = None
) -> tuple[Claim, ...]:
    """Return what others than one action have shown that depends on one of the paths, in any goal of the run."""
    touched = store.facts.resting_on(run.id, frozenset(map(legible, changed)))
    return claims(_with_providers(store, touched), besides=besides)


def unsettled(store: Store, run: Run) -> tuple[Claim, ...]:
    """Return what is stale and has not been looked at since."""
    stale = [fact for goal in store.goals.of_run(run.id) for fact in store.facts.unsettled(goal.id)]
    return claims(_with_providers(store, stale))


def put_in_question(store: Store, claim: Claim) -> None:
    """Let a claim go stale, as far as anything could show it anew; who judged it is to judge again."""
    if claim.renewal == "nothing":
        return
    for fact in claim.facts:
        store.facts.withdraw(fact.goal_id, fact.assertion, "stale")
    if claim.renewal == "review":
        reopen(store, claim)


def show_anew(store: Store, tested: Tested, at: datetime) -> None:
    """Show a claim at the commit it was tested at; it depends on the same paths, and is as weak as it was."""
    for fact in tested.claim.facts:
        attempt = next((each.attempt_id for each in fact.evidence if each.attempt_id is not None), None)
        shown = Verification(commit=tested.commit, results=tested.results, gates=tested.gates)
        evidence = evidence_of(shown, attempt, tested.commit, at)
        kept = [each for each in fact.evidence if each.kind in {"human", "change"}]
        store.facts.show(
            fact.goal_id,
            fact.assertion,
            commit=tested.commit,
            weak=fact.weak,
            paths=fact.paths,
            evidence=(*evidence, *kept),
        )


def refute(store: Store, run: Run, tested: Tested) -> None:
    """Let a claim fall that its own checks speak against, and have its work done again."""
    for fact in tested.claim.facts:
        store.facts.withdraw(fact.goal_id, fact.assertion, "refuted")
    failed = ", ".join(result.name for result in tested.failures)
    text = legible(f"{tested.claim.named} does not hold any more at {tested.commit[:8]}: {failed}")
    store.events.append(run.id, Noticed("warning", text))
    reopen(store, tested.claim)


def reopen(store: Store, claim: Claim) -> None:
    """Put the action back to pending whose facts fell, unless its goal is over without them.

    A goal that was reached goes on if it desires them; one that failed has it done when it is retried. Failures stay
    counted: work that is refuted time and again comes to an end.
    """
    action, goal = store.actions.get(claim.action.id), store.goals.get(claim.action.goal_id)
    if action is None or goal is None or not isinstance(action.state, Completed):
        return
    reached = isinstance(goal.state, Completed)
    if isinstance(goal.state, Cancelled) or (reached and not store.goals.unmet(goal.id)):
        return
    above = [each for each in map(store.actions.get, store.actions.lineage(action.id)[1:]) if each is not None]
    for compound in reversed(above):
        if isinstance(compound.state, Completed):
            store.actions.move(compound.id, Running())
    store.actions.move(action.id, Pending())
    if reached:
        store.goals.move(goal.id, Active())


def _with_providers(store: Store, facts: Iterable[Fact]) -> Iterator[tuple[Fact, Action]]:
    """Yield each fact with the action that has shown it, as its evidence says."""
    for fact in facts:
        attempts = (store.attempts.get(each.attempt_id) for each in fact.evidence if each.attempt_id is not None)
        attempt = next((each for each in attempts if each is not None), None)
        action = (
            store.actions.get(attempt.action_id)
            if attempt
            else _provider(store.actions.providers(fact.goal_id, fact.assertion))
        )
        if action is not None:
            yield fact, action


def _provider(candidates: Sequence[Action]) -> Action | None:
    return next((action for action in candidates if isinstance(action.state, Completed)), None)
