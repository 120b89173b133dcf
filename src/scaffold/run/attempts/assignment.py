"""The assignment of one worker process, and which files its action may change, read from the store."""

from typing import Final

from msgspec import Struct

from scaffold.core.errors import StaleFence
from scaffold.core.ids import Assertion, AttemptId
from scaffold.core.model import Action, Attempt, Fact, FileGrant, Goal, Run
from scaffold.core.plan import ActionSpec, text_fields
from scaffold.core.states import AttemptStatus
from scaffold.store.database import Store


class Declaration(Struct, frozen=True, kw_only=True):
    """The declared files of an action: paths, folders and globs.

    Worker and landing judge with the same declaration, since both read it from the store.
    """

    task: ActionSpec
    """Whose work it is: the compound of steps that share a worktree. Without its state, as proofs depend on it."""
    planned: tuple[str, ...]
    """Those of its plan; a plan's own file names are its author's consent, which grants are not."""
    grants: tuple[FileGrant, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The entries that declare everything in them, also what judges the work: the plan's, and the approved ones."""
        approved = (grant.path for grant in self.grants if grant.by != "rule")
        return tuple(dict.fromkeys((*self.planned, *approved)))

    @property
    def by_rule(self) -> tuple[str, ...]:
        """The entries granted by rule; they do not cover files that judge the work."""
        return tuple(grant.path for grant in self.grants if grant.by == "rule")

    @property
    def all(self) -> tuple[str, ...]:
        """Every path that the action may change, to tell which actions touch the same files."""
        return tuple(dict.fromkeys((*self.files, *self.by_rule)))


TESTING_ROLE: Final = "testing"
"""The role that verifies by writing or running tests, not by a verdict."""


class Assignment(Struct, frozen=True, kw_only=True):
    """An attempt with its run, goal and action, and what its action builds on."""

    run: Run
    goal: Goal
    action: Action
    attempt: Attempt
    parent: Action | None = None
    """The action's compound; None if it has none."""
    prerequisites: tuple[Action, ...] = ()
    """The actions that provide its preconditions and its compounds', in plan order."""
    facts: tuple[Fact, ...] = ()
    """The facts that hold among those preconditions and the goal's desired assertions."""

    @property
    def journal_names(self) -> tuple[str, str]:
        """The folder and the name of the journal."""
        return journal_names(self.goal, self.action, self.parent)

    @property
    def prerequisite_facts(self) -> tuple[Fact, ...]:
        """The facts its prerequisites have proven: what it builds on, or reviews."""
        shown = {effect for action in self.prerequisites for effect in action.effects}
        return tuple(fact for fact in self.facts if fact.assertion in shown)


def read_assignment(store: Store, attempt_id: AttemptId, *, status: AttemptStatus = "queued") -> Assignment:
    """Return everything an attempt needs; StaleFence if it has another status."""
    attempt = store.attempts.get(attempt_id)
    action = store.actions.get(attempt.action_id) if attempt else None
    goal = store.goals.get(action.goal_id) if action else None
    run = store.runs.get(action.run_id) if action else None
    # A worker that is started twice for one attempt ends here; `claim` decides between two that get past this.
    if attempt is None or action is None or goal is None or run is None or attempt.status != status:
        raise StaleFence(
            f"attempt {attempt_id} is not waiting for a worker", "Nothing to do: another process has taken it."
        )
    needs = inherited_preconditions(store, action)
    # A child builds on what its compound waited for, so inherited preconditions count as its own.
    before = {each.id: each for need in needs for each in store.actions.providers(goal.id, need)}
    relevant = store.facts.for_assertions(goal.id, (*needs, *goal.desired))
    return Assignment(
        run=run,
        goal=goal,
        action=action,
        attempt=attempt,
        parent=store.actions.get(action.parent_id) if action.parent_id else None,
        prerequisites=tuple(sorted(before.values(), key=lambda each: each.position)),
        facts=tuple(fact for fact in relevant if fact.state == "holds"),
    )


def action_of_work(store: Store, action: Action) -> Action:
    """Return the action whose work a candidate of `action` is: the compound if its steps share a worktree."""
    parent = store.actions.get(action.parent_id) if action.workspace == "parent" and action.parent_id else None
    return parent or action


def journal_names(goal: Goal, action: Action, parent: Action | None) -> tuple[str, str]:
    """Return the folder and the name of an action's journal: of the goal, or of the story for a step of one."""
    if action.workspace == "parent" and parent is not None:
        return parent.key, action.key.removeprefix(f"{parent.key}/")
    return goal.name, action.key


def inherited_preconditions(store: Store, action: Action) -> tuple[Assertion, ...]:
    """Return the preconditions of an action: its own, then its compounds'."""
    above = [store.actions.get(each) for each in store.actions.lineage(action.id)]
    return tuple(dict.fromkeys(need for each in above if each is not None for need in each.preconditions))


def read_declaration(store: Store, action: Action) -> Declaration:
    """Return the action's declaration as it is now; steps in one worktree share what was granted."""
    parent = action.parent_id if action.workspace == "parent" else None
    together = store.actions.children(parent) if parent else (action,)
    grants = tuple(grant for each in together for grant in store.file_grants.for_action(each.id))
    return Declaration(task=task_of(action_of_work(store, action)), planned=action.files, grants=grants)


def task_of(action: Action) -> ActionSpec:
    """Return what an action asks for, without its state and its place in the plan."""
    return ActionSpec(
        key=action.key, role=action.role, files=action.files, contract=action.contract, **text_fields(action)
    )
