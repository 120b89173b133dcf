"""Users who revert actions and rebase runs at random, also those that have ended, and may die while they do."""

from collections.abc import Iterator, Mapping, Sequence
from random import Random  # noqa: TID251 - seeded

from scaffold.core.errors import GitError, UsageError
from scaffold.core.events import ActionReverted, StoredEvent
from scaffold.core.ids import RunId
from scaffold.core.landing.branch_move import BranchMove
from scaffold.core.model import Action, Fact, Run
from scaffold.core.states import Cancelled, Completed, Failed, Saved
from scaffold.orchestrator.owner.run_lease import require_run
from scaffold.orchestrator.user_control.session_changes import rebase_run, revert_action
from scaffold.run.context import RunContext
from scaffold.store.database import Store
from simulator.focus import Focus
from simulator.plans import SHARED

Files = Mapping[str, str]
NUMBERS = (0, 0, 0, 1, 2, 4)


class BranchChanges:
    """How often, when and of what; drawn apart from all else, so that other runs of a seed stay as they are."""

    def __init__(self, rng: Random, focus: Focus) -> None:
        self._rng = rng
        self._repeated = focus.repeated
        self._left = rng.choice(NUMBERS) if focus.branch_changes is None else focus.branch_changes

    def may_follow(self, store: Store, run: Run) -> bool:
        """Return whether the run has ended and its user may still undo something of it, or has to finish that."""
        if _interrupted(store, run):
            return True
        if self._left == 0 or not isinstance(run.state, Completed | Failed):
            return False
        if self._rng.random() < 0.3:
            self._left = 0
        return self._left > 0

    def choose(self, store: Store, run: Run) -> Action | Files | None:
        """Return the action to undo now, or what others commit to the base branch before a rebase; mostly None.

        A user whose command died repeats it, unless someone resumes the run first.
        """
        if (move := _interrupted(store, run)) and self._rng.random() < self._repeated:
            return (move.action_id and store.actions.get(move.action_id)) or {}
        if self._left == 0 or isinstance(run.state, Cancelled | Saved) or self._rng.random() < 0.6:
            return None
        if self._rng.random() < 0.4:
            self._left -= 1
            theirs = self._rng.choice(("THEIRS.md", *SHARED))
            return {theirs: f"theirs {self._left}"}
        landed = {each.action_id for each in store.attempts.for_run(run.id) if each.outcome == "landed"}
        actions = [each for each in store.actions.for_run(run.id) if each.id in landed]
        if not actions:
            return None
        self._left -= 1
        return self._rng.choice(actions)


def _interrupted(store: Store, run: Run) -> BranchMove | None:
    return next(iter(store.branch_moves.open_of_run(run.id)), None)


async def change_branch(context: RunContext, run_id: RunId, action: Action | None) -> None:
    """Undo the action's work, or without one rebase the run; what is refused changes nothing."""
    run = require_run(context.store, run_id)
    try:
        if action is None:
            await rebase_run(context, run)
        else:
            await revert_action(context, run, action)
    except (UsageError, GitError):
        return


def reverted(trace: Sequence[StoredEvent]) -> tuple[ActionReverted, ...]:
    """Return the reverts that were recorded, in order."""
    return tuple(each.event for each in trace if isinstance(each.event, ActionReverted))


def what_a_revert_undoes_holds_no_longer(store: Store, run: Run, event: ActionReverted) -> Iterator[str]:
    """BX-1: neither the facts of the action nor those that build on them, and the action is open again.

    Except facts of work without checks: nothing can show anew that they hold.
    """
    action = store.actions.by_key(run.id, event.action)
    if action is None:
        return
    if isinstance(action.state, Completed):
        yield f"{action.key} was reverted and is still completed"
    facts = store.facts.for_goal(action.goal_id)
    shown_by = {fact.assertion: _provider(store, fact) for fact in facts}
    fallen = {*action.effects}
    while more := {each for each, by in shown_by.items() if by and each not in fallen and fallen & {*by.preconditions}}:
        fallen |= more
    for fact in facts:
        by = shown_by[fact.assertion]
        checkable = fact.assertion in action.effects or (by is not None and by.contract is not None)
        if fact.assertion in fallen and fact.state == "holds" and checkable:
            yield f"{fact.assertion} still holds after {action.key} was reverted"


def _provider(store: Store, fact: Fact) -> Action | None:
    """Return the action that showed the fact, by its evidence: several may have the same effect."""
    attempts = [store.attempts.get(each.attempt_id) for each in fact.evidence if each.attempt_id]
    return next((store.actions.get(each.action_id) for each in attempts if each), None)
