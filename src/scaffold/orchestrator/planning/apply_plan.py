"""Write an agent's proposals to the store, read the stored plan, and fix the limits that the agreed plan sets."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import assert_never

from msgspec import structs

from scaffold.core.events import AssertionProposed, PlanExtended
from scaffold.core.ids import ActionId, ActionKey, GoalId
from scaffold.core.model import Action, Goal, Run
from scaffold.core.plan import ActionSpec, GoalSpec, Plan, text_fields
from scaffold.core.run_settings import RunSettings
from scaffold.core.states import (
    Active,
    Cancelled,
    Completed,
    Failed,
    Pending,
    Planning,
    Skipped,
    awaited_inbox_id,
    status_of,
)
from scaffold.host.random_ids import new_id
from scaffold.plan.budget import agreed_actions
from scaffold.plan.edit.draft import (
    WAITING,
    CreateActions,
    CreateGoal,
    DraftChange,
    PlanDraft,
    PlanHistory,
    ProposeAssertions,
    RetryApproach,
    UpdateAction,
)
from scaffold.plan.progress import PlanProgress
from scaffold.run.failures.attempt_end import block_unreachable_actions
from scaffold.run.new_actions import new_actions
from scaffold.store.database import Store


def stored_plan(store: Store, run: Run) -> Plan:
    """Return the run's goals and actions as a plan, in the order they were added."""
    return _build_plan(store.goals.for_run(run.id), store.actions.for_run(run.id))


def read_draft(store: Store, run: Run) -> PlanDraft:
    """Return a draft of the run's current plan, without changes."""
    goals, actions = store.goals.for_run(run.id), store.actions.for_run(run.id)
    progress = PlanProgress(
        statuses={
            action.key: WAITING if awaited_inbox_id(action.state) else status_of(action.state) for action in actions
        },
        facts={goal.name: store.facts.holding(goal.id) for goal in goals},
    )
    history = PlanHistory(
        approaches={
            action.key: RetryApproach(action.guidance, spent=action.extra_attempts > 0)
            for action in actions
            if action.guidance or action.extra_attempts
        },
        ended={goal.name: status_of(goal.state) for goal in goals if isinstance(goal.state, _ENDED)},
    )
    return PlanDraft(_build_plan(goals, actions), progress, history)


def apply_changes(store: Store, run: Run, changes: Sequence[DraftChange], *, now: datetime) -> tuple[DraftChange, ...]:
    """Write the changes in order and return those that were new; the caller owns the transaction.

    Raises ChangeRejected if one no longer fits the stored run; the caller must let that abort the transaction. Actions
    that can run again are unblocked, unreachable ones are blocked. A new goal starts at once if the run is active or
    the goal is persistent; otherwise it waits for the run.
    """
    # Read in the transaction, because workers and users may have changed the run while the agent was thinking.
    draft = read_draft(store, run)
    writer = _ChangeWriter(store, run, now)
    for change in changes:
        # Skipping a compound also skips its children, which only the progress before and after the change shows.
        before = draft.progress
        if draft.apply(change):
            writer.write(draft.changes[-1], before, draft.progress)
    writer.settle()
    return draft.changes


def new_goal(spec: GoalSpec, run: Run, *, now: datetime) -> Goal:
    """Return a goal for the run, with status `planning` and no actions; see `new_actions`."""
    return Goal(
        id=GoalId(new_id()),
        run_id=run.id,
        name=spec.name,
        description=spec.description,
        desired=spec.goal_state,
        state=Planning(),
        persistent=spec.persistent,
        worker_cap=run.settings.limits.goal_agents,
        created_at=now,
        updated_at=now,
    )


_ENDED = (Completed, Failed, Cancelled)


def _build_plan(goals: Iterable[Goal], actions: Sequence[Action]) -> Plan:
    keys = {action.id: action.key for action in actions}
    specs: dict[GoalId, list[ActionSpec]] = {}
    for action in actions:
        specs.setdefault(action.goal_id, []).append(_action_spec(action, keys))
    return Plan(
        goals=tuple(
            GoalSpec(
                name=goal.name,
                description=goal.description,
                goal_state=goal.desired,
                persistent=goal.persistent,
                actions=tuple(specs.get(goal.id, ())),
            )
            for goal in goals
        )
    )


def _action_spec(action: Action, keys: Mapping[ActionId, ActionKey]) -> ActionSpec:
    return ActionSpec(
        key=action.key,
        **text_fields(action),
        kind=action.kind,
        workspace=action.workspace,
        executor=action.executor,
        role=action.role,
        parent=None if action.parent_id is None else keys[action.parent_id],
        preconditions=action.preconditions,
        effects=action.effects,
        files=action.files,
        contract=action.contract,
    )


class _ChangeWriter:
    """Writes checked changes; call `settle` after the last one."""

    def __init__(self, store: Store, run: Run, now: datetime) -> None:
        self._store = store
        self._run = run
        self._now = now
        self._touched: dict[GoalId, None] = {}

    def write(self, change: DraftChange, before: PlanProgress, after: PlanProgress) -> None:
        """Write one change; `before` and `after` are the progress of the run without and with it."""
        match change:
            case CreateGoal(spec=spec):
                self._add_goal(spec)
            case CreateActions():
                self._add_actions(change)
            case UpdateAction(status="skipped", note=reason):
                dropped = [key for key in after.statuses if after.status(key) == "skipped" != before.status(key)]
                for key in dropped:
                    self._skip_action(key, reason)
            case UpdateAction(key=key, note=approach):
                self._retry_action(key, approach)
            case ProposeAssertions():
                self._record_assertions(change)
            case _:
                assert_never(change)

    def settle(self) -> None:
        """Unblock actions that can run again, and block those that have become unreachable."""
        for goal_id in self._touched:
            self._store.actions.unblock(goal_id)
            block_unreachable_actions(self._store, goal_id)

    def _add_goal(self, spec: GoalSpec) -> None:
        goal = new_goal(spec, self._run, now=self._now)
        self._store.goals.add(goal)
        self._store.events.append(self._run.id, PlanExtended(goal.name, None, ()))
        # `self._run` was read before the turn, and the run may have been paused since.
        run = self._store.runs.get(self._run.id)
        if spec.persistent or (run is not None and isinstance(run.state, Active)):
            self._store.goals.move(goal.id, Active())

    def _add_actions(self, change: CreateActions) -> None:
        goal = self._require_goal(change.goal)
        position = self._store.actions.last_position(self._run.id) + 1
        actions = new_actions(
            change.specs,
            goal,
            position=position,
            now=self._now,
            parents=lambda key: self._require_action(key).id,
            method=change.method,
        )
        self._store.actions.add(actions)
        self._touched[goal.id] = None
        keys_by_parent: dict[ActionKey | None, list[ActionKey]] = {}
        for spec in change.specs:
            keys_by_parent.setdefault(spec.parent, []).append(spec.key)
        self._store.events.append_all(
            self._run.id, [PlanExtended(goal.name, parent, tuple(keys)) for parent, keys in keys_by_parent.items()]
        )

    def _skip_action(self, key: ActionKey, reason: str) -> None:
        action = self._require_action(key)
        # A failed action can only be skipped via pending.
        states = (Pending(), Skipped(reason)) if isinstance(action.state, Failed) else (Skipped(reason),)
        self._store.actions.move_each((action,), *states)
        self._touched[action.goal_id] = None

    def _retry_action(self, key: ActionKey, approach: str) -> None:
        action = self._require_action(key)
        self._store.actions.guide(action.id, approach)
        self._store.actions.move(action.id, Pending())
        self._touched[action.goal_id] = None

    def _record_assertions(self, change: ProposeAssertions) -> None:
        goal = self._require_goal(change.goal)
        proposed = [
            AssertionProposed(goal.name, name, holds, change.evidence) for name, holds in change.assertions.items()
        ]
        if proposed:
            self._store.events.append_all(self._run.id, proposed)
        if change.summary is not None and change.summary != goal.summary:
            self._store.goals.set_summary(goal.id, change.summary, was=goal.summary)

    def _require_goal(self, name: str) -> Goal:
        goal = self._store.goals.by_name(self._run.id, name)
        if goal is None:
            raise LookupError(name)
        return goal

    def _require_action(self, key: ActionKey) -> Action:
        action = self._store.actions.by_key(self._run.id, key)
        if action is None:
            raise LookupError(key)
        return action


def with_agreed_actions(settings: RunSettings, actions: Sequence[ActionSpec]) -> RunSettings:
    """Return the settings with the number of agreed actions, unless it is already set or there are no actions."""
    if settings.limits.agreed_actions or not actions:
        return settings
    number = agreed_actions(settings.planning, actions)
    return structs.replace(settings, limits=structs.replace(settings.limits, agreed_actions=number))


def as_started(settings: RunSettings) -> RunSettings:
    """Return the settings with which the run was started, before it had a plan."""
    return structs.replace(settings, limits=structs.replace(settings.limits, agreed_actions=0))


def store_agreed_actions(store: Store, run: Run) -> Run:
    """Store the number of actions that the user agreed to, unless it is stored or there is no plan; return the run."""
    # Stored once, so that no later proposal raises a limit that depends on it.
    if run.settings.limits.agreed_actions:
        return run
    with store.transaction():
        now = store.runs.get(run.id) or run
        settings = with_agreed_actions(now.settings, stored_plan(store, run).actions)
        if settings == now.settings:
            return run
        store.runs.configure(run.id, settings)
    return structs.replace(run, settings=settings)
