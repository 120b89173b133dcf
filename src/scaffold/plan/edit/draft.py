"""An agent's changes to a run's plan: each is validated, then applied to a draft or rejected with a reason.

A draft stores nothing and creates no facts; its owner writes all of its changes in one transaction, or none.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NoReturn, assert_never

from msgspec import Struct, field
from msgspec.structs import replace

from scaffold.core.errors import ScaffoldError
from scaffold.core.ids import ActionKey, Assertion
from scaffold.core.plan import ActionSpec, Finding, GoalSpec, Plan
from scaffold.plan.analysis.lint import lint
from scaffold.plan.edit.proposal_limits import (
    ProposalProblem,
    action_problems,
    bad_text,
    batch_problems,
    goal_problems,
    proposal_problems,
)
from scaffold.plan.message_text import quoted, quoted_list, summarize_problems
from scaffold.plan.progress import PlanProgress, settled_progress, without_dead_actions
from scaffold.plan.spelling_hints import SpellingHints
from scaffold.plan.text.file_format import parent_cycle

WAITING = "waiting"
"""Draft status of an action that waits for a human decision."""
IN_PROGRESS_STATUSES = frozenset({"running", "verifying", "landing", WAITING})
"""Statuses of actions that an agent is working on or a human is deciding."""
FINAL_STATUSES = frozenset({"completed", "skipped", "cancelled"})
"""Statuses an agent cannot change any more."""
CLOSED_STATUSES = frozenset({"failed", *FINAL_STATUSES})
"""Statuses of compounds that accept no more children."""
DEAD_COMPOUND_STATUSES = CLOSED_STATUSES - {"completed"}
NEVER_STARTED_STATUSES = frozenset({"pending", "blocked"})
"""Statuses of actions that will never start if their compound is dead."""


class CreateGoal(Struct, frozen=True, tag="create_goal"):
    """Add a goal without actions; they are added by CreateActions."""

    spec: GoalSpec


class CreateActions(Struct, frozen=True, tag="create_actions"):
    """Add actions to a goal, all or none; a parent is an existing compound or one of the same change."""

    goal: str
    specs: tuple[ActionSpec, ...]
    method: Literal["single", "dag"] = "single"
    """How the primitives among them were created."""


class UpdateAction(Struct, frozen=True, tag="update_action"):
    """Skip an action with its descendants, or retry a failed one."""

    key: ActionKey
    status: Literal["pending", "skipped"]
    note: str
    """The new approach of a retry, or why the action is not needed."""


class ProposeAssertions(Struct, frozen=True, tag="propose"):
    """Claim that assertions hold or do not hold. A claim changes no fact; only evidence does."""

    goal: str
    assertions: Mapping[Assertion, bool]
    evidence: str = ""
    summary: str | None = None
    """The goal's new rolling summary; None keeps the old one."""


DraftChange = CreateGoal | CreateActions | UpdateAction | ProposeAssertions


class ChangeRejected(ScaffoldError):
    """A change does not fit the plan; `what` and `fix` are addressed to the agent that proposed it."""


class RetryApproach(Struct, frozen=True):
    """Another approach that was tried for an action."""

    text: str
    """Empty if the failure ladder asked for it."""
    spent: bool
    """Whether the extra attempt for it is used up; only a human grants more."""


class PlanHistory(Struct, frozen=True, kw_only=True):
    """Facts that the plan and its progress do not show."""

    approaches: Mapping[ActionKey, RetryApproach] = field(default_factory=lambda: MappingProxyType({}))
    """The latest other approach per action; actions without one are left out."""
    ended: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The status of each goal that has ended, by name."""


NO_HISTORY = PlanHistory()


class PlanDraft:
    """A plan, its progress, and the changes proposed so far, which are already applied to both."""

    def __init__(self, plan: Plan, progress: PlanProgress, history: PlanHistory = NO_HISTORY) -> None:
        """Take the run's plan: unique keys and goal names, parents in the goals of their children."""
        self.plan = plan
        self.progress = progress
        self.history = history
        self.changes: tuple[DraftChange, ...] = ()

    def goal(self, name: str) -> GoalSpec | None:
        """Return the goal with this name; None if there is none."""
        return next((goal for goal in self.plan.goals if goal.name == name), None)

    def action(self, key: str) -> ActionSpec | None:
        """Return the action with this key; None if there is none."""
        return next((action for action in self.plan.actions if action.key == key), None)

    def known_goal(self, name: str) -> GoalSpec:
        """Return the goal with this name; raise ChangeRejected, listing the goals, if there is none."""
        goal = self.goal(name)
        if goal is None:
            hint = SpellingHints(each.name for each in self.plan.goals).hint(name)
            names = quoted_list([each.name for each in self.plan.goals]) or "none yet: create it first"
            _reject(f"there is no goal {quoted(name)}", f"{hint}Goals of this run: {names}.")
        return goal

    def known_action(self, key: str) -> ActionSpec:
        """Return the action with this key; raise ChangeRejected, with a spelling hint, if there is none."""
        action = self.action(key)
        if action is None:
            hint = SpellingHints(each.key for each in self.plan.actions).hint(key)
            # An agent often remembers a key almost right.
            _reject(f"there is no action {quoted(key)}", f"{hint}goap_list_actions lists the actions.")
        return action

    def goal_of(self, key: str) -> GoalSpec | None:
        """Return the goal that contains the action with this key; None if there is none."""
        return next((goal for goal in self.plan.goals if any(action.key == key for action in goal.actions)), None)

    def apply(self, change: DraftChange) -> bool:
        """Apply a change and return True; return False if it changes nothing.

        Raises ChangeRejected, and applies nothing, if the change does not fit.
        """
        match change:
            case CreateGoal():
                new = self._create_goal(change)
            case CreateActions():
                new = self._create_actions(change)
            case UpdateAction():
                new = self._update_action(change)
            case ProposeAssertions():
                new = self._propose_assertions(change)
            case _:
                assert_never(change)
        # Only now: a change that was rejected must leave no trace.
        self.changes += () if new is None else (new,)
        return new is not None

    def findings(self, goal: str | None = None) -> tuple[Finding, ...]:
        """Return lint's findings on the remaining work of goals that have not ended, given the facts that hold.

        With `goal`, only that goal's findings. The plan is valid if none of them is an error.
        """
        plan = Plan(goals=tuple(each for each in self.plan.goals if each.name not in self.history.ended))
        # Lint sees what is left, so that a goal that has ended needs no plan any more.
        progress = settled_progress(plan, self.progress)
        above = {action.key: action.parent for action in plan.actions}
        lost: dict[ActionKey, str] = {}
        # What is below a dead compound, at any height, ends with it.
        for key, parent in above.items():
            compound = parent
            while compound is not None and progress.status(compound) not in DEAD_COMPOUND_STATUSES:
                compound = above[compound]
            if compound is not None and progress.status(key) in NEVER_STARTED_STATUSES:
                lost[key] = "skipped"
        progress = replace(progress, statuses={**progress.statuses, **lost})
        found = lint(without_dead_actions(plan, progress), progress.facts).findings
        return tuple(finding for finding in found if goal in {None, finding.goal})

    def _create_goal(self, change: CreateGoal) -> DraftChange | None:
        spec = replace(change.spec, goal_state=tuple(dict.fromkeys(change.spec.goal_state)))
        _reject_if_any(f"goal {quoted(spec.name)}", goal_problems(spec))
        known = self.goal(spec.name)
        # A retried call, after a lost answer, must not fail.
        if known is not None:
            if _goal_content(known) == _goal_content(spec):
                return None
            _reject(
                f"goal `{spec.name}` already exists with a different description or goal state",
                "Leave it as it is and add actions to it, or give the new goal another name.",
            )
        self.plan = Plan(goals=(*self.plan.goals, spec))
        return CreateGoal(spec)

    def _create_actions(self, change: CreateActions) -> DraftChange | None:
        goal = self._open_goal(change.goal)
        _reject_if_any(f"goal `{goal.name}`", batch_problems(change.specs))
        specs = tuple(map(_normalize_action, change.specs))
        # Report all problems of a list at once: an agent that sees one at a time needs a turn for each.
        _reject_if_any("", (problem for index, spec in enumerate(specs) for problem in action_problems(index, spec)))
        _reject_if_any("", self._find_conflicts(goal, specs))
        new = tuple(spec for spec in specs if self.action(spec.key) is None)
        if not new:
            return None
        extended = replace(goal, actions=(*goal.actions, *new))
        self.plan = Plan(goals=tuple(extended if each is goal else each for each in self.plan.goals))
        return CreateActions(goal.name, new, change.method)

    def _find_conflicts(self, goal: GoalSpec, specs: Sequence[ActionSpec]) -> Iterator[ProposalProblem]:
        """Yield why well-formed actions cannot be added to the goal."""
        # Reversed, so that the first of several specs with one key is kept and each later one is reported.
        batch = {spec.key: spec for spec in reversed(specs)}
        seen: set[ActionKey] = set()
        for index, spec in enumerate(specs):
            name = f"actions[{index}] `{spec.key}`"
            if batch[spec.key] is not spec:
                yield ProposalProblem(
                    f"{name} has the same key as another action in the list", "Give each action its own key."
                )
            elif (known := self.action(spec.key)) is not None:
                yield from self._already_there(name, known, spec, goal)
            elif spec.parent is not None:
                yield from self._wrong_parent(name, spec.parent, goal, batch)
                if cycle := parent_cycle(spec, batch, seen):
                    yield ProposalProblem(f"{name}: the parents form a cycle: {cycle}", "Remove one of the parents.")

    def _already_there(
        self, name: str, known: ActionSpec, spec: ActionSpec, goal: GoalSpec
    ) -> Iterator[ProposalProblem]:
        owner = self.goal_of(known.key)
        if owner is not goal:
            # Facts and messages name actions by key alone.
            what = f"{name}: the key is taken by an action of another goal"
            yield ProposalProblem(what, "Keys are unique in the whole run: give it another key.")
        elif known != spec:
            fields = [each for each in spec.__struct_fields__ if getattr(known, each) != getattr(spec, each)]
            what = f"{name} already exists with a different {' and '.join(fields)}"
            yield ProposalProblem(what, "Leave it as it is; give new work its own key, and skip what it replaces.")

    def _wrong_parent(
        self, name: str, parent: ActionKey, goal: GoalSpec, batch: Mapping[ActionKey, ActionSpec]
    ) -> Iterator[ProposalProblem]:
        above = next((action for action in goal.actions if action.key == parent), batch.get(parent))
        if above is None:
            compounds = [action.key for action in (*goal.actions, *batch.values()) if action.kind == "compound"]
            fix = f"{SpellingHints(compounds).hint(parent)}Name a compound of goal `{goal.name}`, or none."
            yield ProposalProblem(
                f"{name}: there is no action {quoted(parent)} in goal `{goal.name}` to be its parent", fix
            )
        elif above.kind != "compound":
            what = f"{name}: its parent `{parent}` is primitive"
            yield ProposalProblem(what, "Only compounds have children: name one, or none.")
        elif (status := self.progress.status(parent)) in CLOSED_STATUSES:
            # A closed compound has ended: nothing would start its children.
            what = f"{name}: its parent `{parent}` is {status} and takes no further children"
            yield ProposalProblem(what, "Add the action at the top of the goal, or to a compound that has not ended.")

    def _update_action(self, change: UpdateAction) -> DraftChange | None:
        action = self.known_action(change.key)
        status = self.progress.status(action.key)
        # A worker has it in hand, and its work would land or fail afterwards.
        if status in IN_PROGRESS_STATUSES:
            _reject(f"`{action.key}` is {status}: it is in progress", "Wait until it has ended.")
        if wrong := bad_text(change.note):
            _reject(f"the note on `{action.key}`: the text {wrong}", "Write plain, shorter text.")
        note = change.note.strip()
        new = (
            self._skip_action(action, status, note)
            if change.status == "skipped"
            else self._retry_action(action, status, note)
        )
        return UpdateAction(action.key, change.status, note) if new else None

    def _skip_action(self, action: ActionSpec, status: str, reason: str) -> bool:
        if status == "skipped":
            return False
        if status in FINAL_STATUSES:
            _reject(f"`{action.key}` is {status} and can no longer be skipped", "Leave it as it is.")
        # A skipped action may leave a gap; the next agent has to know why.
        if not reason:
            _reject(f"`{action.key}` cannot be skipped without a reason", "Say in `result` why it is not needed.")
        left = [key for key in self.below(action.key) if self.progress.status(key) not in FINAL_STATUSES]
        busy = [key for key in left if self.progress.status(key) in IN_PROGRESS_STATUSES]
        # The children end with their parent, so none may be at work.
        if busy:
            _reject(
                f"`{action.key}` cannot be skipped: {quoted_list(busy)} below it is in progress",
                "Wait until it has ended.",
            )
        self._set_statuses(dict.fromkeys((action.key, *left), "skipped"))
        return True

    def below(self, key: ActionKey) -> tuple[ActionKey, ...]:
        """Return the descendants of a compound, each before its own children."""
        goal = self.goal_of(key)
        found = [key]
        # The list grows while it is walked, so the descendants come level by level.
        for each in found:
            found += [action.key for action in (goal.actions if goal else ()) if action.parent == each]
        return tuple(found[1:])

    def _retry_action(self, action: ActionSpec, status: str, approach: str) -> bool:
        before = self.history.approaches.get(action.key, RetryApproach("", spent=False))
        # Repeated by an agent that did not see the answer.
        if status == "pending" and approach in {"", before.text}:
            return False
        if status != "failed":
            fix = {
                "blocked": "Fix the failure it depends on; it is then unblocked automatically.",
                "pending": "It will be dispatched once its preconditions hold.",
            }.get(status, "Create another action with its own key.")
            _reject(f"`{action.key}` is {status}; only failed actions can be retried", fix)
        if before.spent:
            tried = f"was already retried with another approach: {quoted(before.text)}"
            _reject(
                f"`{action.key}` {tried if before.text else 'has had all its attempts'}",
                "Create another action that makes the same assertions true in another way; "
                "only a human grants more attempts.",
            )
        # The same attempt again would fail in the same way.
        if _folded_text(approach) in {"", _folded_text(before.text), _folded_text(action.description)}:
            _reject(
                f"`{action.key}` is not retried in the same way: a retry needs a new approach",
                "Say in `result` what is to be done differently, given why it failed (goap_get_action_results).",
            )
        parent = self.progress.status(action.parent) if action.parent else "pending"
        if parent in CLOSED_STATUSES:
            fix = "Retry the parent first, or create an action elsewhere that makes the same assertions true."
            _reject(f"`{action.key}` cannot be retried: its parent `{action.parent}` is {parent}", fix)
        self._set_statuses({action.key: "pending"})
        approaches = {**self.history.approaches, action.key: RetryApproach(approach, spent=True)}
        self.history = replace(self.history, approaches=approaches)
        return True

    def _propose_assertions(self, change: ProposeAssertions) -> DraftChange | None:
        goal = self._open_goal(change.goal)
        _reject_if_any(f"goal `{goal.name}`", proposal_problems(change.assertions, change.evidence, change.summary))
        known = SpellingHints(_known_assertions(goal))
        for name in change.assertions:
            if name not in _known_assertions(goal):
                # A claim about a name that nothing mentions is mostly a typing error.
                fix = f"{known.hint(name)}Name one of its goal state, or of its actions' effects."
                _reject(f"goal `{goal.name}` has no assertion {quoted(name)}", fix)
        return None if change in self.changes else change

    def _open_goal(self, name: str) -> GoalSpec:
        goal = self.known_goal(name)
        if goal.name in self.history.ended:
            _reject(f"goal `{goal.name}` is {self.history.ended[goal.name]}: it has ended", "Leave it as it is.")
        return goal

    def _set_statuses(self, statuses: Mapping[ActionKey, str]) -> None:
        self.progress = replace(self.progress, statuses={**self.progress.statuses, **statuses})


def _reject(what: str, fix: str) -> NoReturn:
    raise ChangeRejected(what, fix)


def _reject_if_any(where: str, problems: Iterable[ProposalProblem]) -> None:
    found = list(problems)
    if found:
        what, fix = summarize_problems((problem.what, problem.fix) for problem in found)
        _reject(f"{where}: {what}" if where else what, fix)


def _normalize_action(spec: ActionSpec) -> ActionSpec:
    # As the store has it, so that proposing it again compares equal.
    return replace(
        spec,
        description=spec.stored_description,
        preconditions=tuple(dict.fromkeys(spec.preconditions)),
        effects=tuple(dict.fromkeys(spec.effects)),
        files=tuple(dict.fromkeys(spec.files)),
    )


def _goal_content(goal: GoalSpec) -> tuple[object, ...]:
    return (goal.description, frozenset(goal.goal_state), goal.persistent)


def _folded_text(text: str) -> str:
    return " ".join(text.casefold().split())


def _known_assertions(goal: GoalSpec) -> dict[Assertion, None]:
    of_actions = (name for action in goal.actions for name in (*action.effects, *action.preconditions))
    return dict.fromkeys((*goal.goal_state, *of_actions))
