"""The facts that a change affects: mark them stale, re-prove or refute them, and reopen the actions that proved them.

The caller owns each transaction.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Literal

import msgspec
from msgspec import Struct

from scaffold.core.events import NoticeRaised
from scaffold.core.ids import ActionId, AttemptId, Commit
from scaffold.core.model import Action, Fact, Run
from scaffold.core.printable_text import utf8_safe
from scaffold.core.proof.contract import CheckResult, Verification, blocking_results
from scaffold.core.proof.gates import GateResult
from scaffold.core.states import Active, Cancelled, Completed, Pending, Running
from scaffold.landing.facts.effect_evidence import evidence_of
from scaffold.landing.facts.story_steps import chain_again
from scaffold.run.attempts.assignment import inherited_preconditions
from scaffold.store.database import Store
from scaffold.verify.contract.review_verdict import is_review

Recheck = Literal["contract", "review", "nothing"]
"""How a fact can be re-proven: run its checks again, have it reviewed again, or not at all."""
RUN_AT_A_COMMIT = frozenset({"contract", "gate", "review"})
"""The kinds of evidence about the whole tree of a commit."""


class ProvenFacts(Struct, frozen=True, kw_only=True):
    """The facts that one action proved, and how they can be re-proven."""

    action: Action
    facts: tuple[Fact, ...]

    @property
    def recheck(self) -> Recheck:
        """How they can be re-proven."""
        # A review considered more than the checks, so these alone cannot re-prove it.
        if is_review(self.action):
            return "review"
        contract = self.action.contract
        if contract is not None and (contract.commands or contract.must_exist or contract.must_not_exist):
            return "contract"
        return "nothing"

    @property
    def attempt_id(self) -> AttemptId | None:
        """The attempt that proved them, according to their evidence; None if that names none."""
        shown = (each.attempt_id for fact in self.facts for each in fact.evidence)
        return next((attempt_id for attempt_id in shown if attempt_id is not None), None)

    @property
    def label(self) -> str:
        """Their name in messages, e.g. `a_done, b_done of make-a`."""
        return f"{', '.join(fact.assertion for fact in self.facts)} of {self.action.key}"


def group_by_action(
    shown: Iterable[tuple[Fact, Action]], *, besides: Collection[ActionId] = ()
) -> tuple[ProvenFacts, ...]:
    """Return the facts grouped by the action that proved them, in plan order, except those of the actions `besides`."""
    by_action: dict[ActionId, tuple[Action, list[Fact]]] = {}
    for fact, action in shown:
        if action.id not in besides:
            by_action.setdefault(action.id, (action, []))[1].append(fact)
    found = [ProvenFacts(action=action, facts=tuple(facts)) for action, facts in by_action.values()]
    return tuple(sorted(found, key=lambda group: (group.action.position, group.action.id)))


def shown_before(tip: Commit, groups: Sequence[ProvenFacts]) -> tuple[ProvenFacts, ...]:
    """Return the groups without the facts that were proven at the tip itself."""
    # Facts of one action may be proven at different commits, so each fact is judged by itself.
    left = [msgspec.structs.replace(each, facts=tuple(f for f in each.facts if f.commit != tip)) for each in groups]
    return tuple(group for group in left if group.facts)


def ran_where_it_holds(fact: Fact) -> bool:
    """Return whether a check, a gate or a review ran at the very commit at which the fact holds.

    False if the commit was made again: for another base, or by a user who changed the branch.
    """
    return any(each.commit == fact.commit and each.kind in RUN_AT_A_COMMIT for each in fact.evidence)


def recheckable(groups: Sequence[ProvenFacts]) -> tuple[ProvenFacts, ...]:
    """Return the groups whose checks can be run again."""
    return tuple(group for group in groups if group.recheck == "contract")


class RecheckResult(Struct, frozen=True, kw_only=True):
    """The recheck of one action's facts at one commit."""

    group: ProvenFacts
    commit: Commit
    results: tuple[CheckResult, ...] = ()
    """Results of the action's checks."""
    gates: tuple[GateResult, ...] = ()
    """Results of the repository's gates at the same commit, if they ran."""

    @property
    def failures(self) -> tuple[CheckResult, ...]:
        """The blocking results; empty if the facts hold."""
        return blocking_results(self.results)


def affected_facts(
    store: Store, run: Run, changed: Collection[str], *, besides: Collection[ActionId] = ()
) -> tuple[ProvenFacts, ...]:
    """Return the facts in any goal of the run that depend on a changed path, except those of the actions `besides`."""
    touched = store.facts.depending_on(run.id, frozenset(map(utf8_safe, changed)))
    return group_by_action(_with_providers(store, touched), besides=besides)


def all_facts(store: Store, run: Run) -> tuple[ProvenFacts, ...]:
    """Return the facts that hold in any goal of the run."""
    facts = [fact for goal in store.goals.for_run(run.id) for fact in store.facts.for_goal(goal.id)]
    return group_by_action(_with_providers(store, [fact for fact in facts if fact.state == "holds"]))


def dependent_facts(store: Store, action: Action) -> tuple[ProvenFacts, ...]:
    """Return the facts that hold and whose actions build on the effects of `action`, directly or through others."""
    holding = [fact for fact in store.facts.for_goal(action.goal_id) if fact.state == "holds"]
    groups = group_by_action(_with_providers(store, holding), besides=(action.id,))
    needs = {each.action.id: inherited_preconditions(store, each.action) for each in groups}
    lost, found = {*action.effects}, dict[ActionId, ProvenFacts]()
    while True:
        new = [each for each in groups if each.action.id not in found and lost & {*needs[each.action.id]}]
        if not new:
            return tuple(each for each in groups if each.action.id in found)
        found |= {each.action.id: each for each in new}
        lost |= {fact.assertion for each in new for fact in each.facts}


def unproven_facts(store: Store, run: Run) -> tuple[ProvenFacts, ...]:
    """Return the stale facts that have not been rechecked since."""
    return group_by_action(_with_providers(store, store.facts.unchecked_stale_of_run(run.id)))


def mark_stale(store: Store, group: ProvenFacts) -> None:
    """Mark the facts stale if they can be re-proven; reopen their action if that takes a review."""
    # Facts of steps only order the steps of a compound, and say nothing about the branch.
    facts = [fact for fact in group.facts if not fact.only_orders]
    if group.recheck == "nothing" or not facts:
        return
    for fact in facts:
        store.facts.invalidate(fact.goal_id, fact.assertion, "stale")
    if group.recheck == "review":
        reopen_action(store, group)


def record_recheck(store: Store, tested: RecheckResult, at: datetime) -> None:
    """Record that the facts hold at the tested commit; their paths and doubts stay the same."""
    for fact in tested.group.facts:
        attempt = next((each.attempt_id for each in fact.evidence if each.attempt_id is not None), None)
        shown = Verification(commit=tested.commit, results=tested.results, gates=tested.gates)
        evidence = evidence_of(shown, attempt, tested.commit, at)
        # No recheck repeats an approval or the change itself, so this evidence is kept.
        kept = [each for each in fact.evidence if each.kind in {"human", "review", "change"}]
        store.facts.record(
            fact.goal_id,
            fact.assertion,
            commit=tested.commit,
            paths=fact.paths,
            evidence=(*evidence, *kept),
            doubts=fact.doubts,
            reviewed=fact.reviewed,
        )


def refute_facts(store: Store, run: Run, tested: RecheckResult) -> None:
    """Refute facts whose own checks fail, and reopen their action."""
    for fact in tested.group.facts:
        store.facts.invalidate(fact.goal_id, fact.assertion, "refuted")
    failed = ", ".join(result.name for result in tested.failures)
    text = utf8_safe(f"{tested.group.label} no longer holds at {tested.commit[:8]}: {failed}")
    store.events.append(run.id, NoticeRaised("warning", text))
    reopen_action(store, tested.group)


def undo_action(store: Store, action: Action) -> None:
    """Refute what a landed action proved and set it back to pending: its commit is no longer on the branch.

    If it landed the work of a compound's steps, all steps are done again. In a cancelled goal all are cancelled.
    """
    # The completed steps whose work the action has landed with its own.
    beside = () if action.workspace == "own" or action.parent_id is None else store.actions.children(action.parent_id)
    steps = [each for each in beside if each.id != action.id and isinstance(each.state, Completed)]
    for step in steps:
        for assertion in step.effects:
            store.facts.invalidate(step.goal_id, assertion, "refuted")
        store.actions.move(step.id, Pending())
    for assertion in action.effects:
        store.facts.invalidate(action.goal_id, assertion, "refuted")
    store.actions.reset_failures(action.id)
    goal = store.goals.get(action.goal_id)
    if goal is not None and isinstance(goal.state, Cancelled):
        # A completed action must have its work on the branch.
        for each in (action, *steps):
            now = store.actions.get(each.id)
            if now is not None and isinstance(now.state, Completed):
                store.actions.move(each.id, Pending())
            if now is not None and isinstance(now.state, Completed | Pending):
                store.actions.move(each.id, Cancelled())
        return
    reopen_action(store, ProvenFacts(action=action, facts=()), undone=True)
    chain_again(store, action)


def reopen_action(store: Store, group: ProvenFacts, *, undone: bool = False) -> None:
    """Set the group's action back to pending, unless its goal was cancelled or is complete without it.

    A completed goal becomes active again if it needs the facts; a failed goal runs the action when retried. Earlier
    failures still count, so an action that is refuted repeatedly fails in the end. With `undone`, its work is gone, so
    the action is reopened even if a completed goal does not need it.
    """
    action, goal = store.actions.get(group.action.id), store.goals.get(group.action.goal_id)
    if action is None or goal is None or not isinstance(action.state, Completed):
        return
    reached = isinstance(goal.state, Completed)
    if isinstance(goal.state, Cancelled) or (reached and not undone and not store.goals.unmet(goal.id)):
        return
    if action.workspace == "parent" and action.parent_id is not None:
        # The work of its steps has landed, so new work begins at the branch's tip.
        store.attempts.leave_workspace(action.parent_id)
    above = [each for each in map(store.actions.get, store.actions.lineage(action.id)[1:]) if each is not None]
    # Parents go first: an action below a compound that is not running never becomes ready.
    for compound in reversed(above):
        if isinstance(compound.state, Completed):
            store.actions.move(compound.id, Running())
    store.actions.move(action.id, Pending())
    if reached:
        store.goals.move(goal.id, Active())


def _with_providers(store: Store, facts: Iterable[Fact]) -> Iterator[tuple[Fact, Action]]:
    for fact in facts:
        attempts = (store.attempts.get(each.attempt_id) for each in fact.evidence if each.attempt_id is not None)
        attempt = next((each for each in attempts if each is not None), None)
        if attempt is not None:
            action = store.actions.get(attempt.action_id)
        else:
            # Evidence that names no attempt: the completed action with this effect.
            providers = store.actions.providers(fact.goal_id, fact.assertion)
            action = next((each for each in providers if isinstance(each.state, Completed)), None)
        if action is not None:
            yield fact, action
