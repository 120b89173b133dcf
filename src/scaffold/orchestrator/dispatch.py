"""Queue an attempt: its share of the free slots, what it may collide with, where it works, its row in the store."""

import functools
from collections.abc import Collection, Mapping
from functools import partial

from msgspec import Struct

from scaffold.core.executor_settings import NATIVE
from scaffold.core.ids import ActionId, AttemptId, Commit, GoalId
from scaffold.core.model import Attempt, Goal, Run, Usage
from scaffold.core.plan import WorkKind
from scaffold.core.states import Active, Pending, Running
from scaffold.git import commits
from scaffold.host.random_ids import new_id
from scaffold.landing.facts.landing_record import last_landed, session_tip
from scaffold.landing.queue.forecast import Forecaster
from scaffold.orchestrator.briefing import brief_next_attempt
from scaffold.plan import slot_shares
from scaffold.plan.collisions.rules import HeldBack
from scaffold.policy.path import globs
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.collision_board import RunBoard, StartPicker
from scaffold.run.context import RunContext
from scaffold.store.database import Store
from scaffold.store.run.plan.scheduling import Forecast, WaitingWork, WorkUnderWay
from scaffold.verify.contract.review_verdict import work_kind
from scaffold.worker.workspace.attempt_worktree import SAME_PLACE

MAX_MERGES = 8
"""How many pairs of commits are merged before one attempt starts."""


class SharedSlots(Struct, frozen=True):
    """The free slots of a run, shared among its goals."""

    by_goal: Mapping[GoalId, int]
    """How many attempts of each goal may start now; without the goals that may start none."""
    picker: StartPicker | None
    """Picks the actions that may start; None if no slot is free, or the user turned the rules off."""


def slots_for(store: Store, run: Run, goal: Goal) -> SharedSlots:
    """Return the shares of all goals as they are when this goal asks.

    An attempt takes a slot from the time it is queued until its candidate is submitted, except while it waits for a
    human.
    """
    # An agent need not start what is ready, so in its runs a slot goes to the first goal that asks.
    return share_slots(store, run, (goal.id,) if _is_agent_run(run) else None)


def slots_by_goal(store: Store, run: Run, among: Collection[GoalId] | None = None) -> Mapping[GoalId, int]:
    """Return {goal: attempts that may start now}, without zeros; `among` are the goals that share, None for all."""
    return share_slots(store, run, among).by_goal


def share_slots(store: Store, run: Run, among: Collection[GoalId] | None = None) -> SharedSlots:
    """Share the free slots among the goals that have ready work which is not held back."""
    free = free_slots_of_run(store, run)
    if not free:
        return SharedSlots({}, None)
    demands = store.attempts.slot_demands(run.id, free)
    shared = [each for each in demands if among is None or each.goal in among]
    picker = StartPicker(store, run) if run.settings.scheduling.collisions else None
    needed = functools.cache(store.goals.unmet)

    def can_start(goal: GoalId) -> bool:
        return bool(needed(goal)) and (picker is None or picker.pick(goal))

    return SharedSlots(slot_shares.share_slots(shared, free, can_start), picker)


def free_slots_of_run(store: Store, run: Run) -> int:
    """Return how many attempts may start in the run as a whole."""
    slots = store.attempts.slots(run.id).values()
    waiting = sum(use.candidates for use in slots)
    taken = sum(use.taken for use in slots)
    unlanded = sum(use.working for use in slots) + waiting
    free = slot_shares.free_slots(store.runs.agents(run.id), taken=taken, unlanded=unlanded)
    return free - 1 if free and waiting == 1 and _lands_as_proven(store, run) else free


def _lands_as_proven(store: Store, run: Run) -> bool:
    """Return whether the only candidate lands without any check, on the tip on which its gates have run.

    What would start in that moment, without its work, would have to be proven twice: where it is done and as it lands.
    """
    # A human's answer may take long, and an agent that finds no slot has paid for looking.
    if run.settings.human_reviews or _is_agent_run(run):
        return False
    # By now another one may wait as well, or this one have landed.
    ids = store.attempts.ids_waiting_to_land(run.id)
    only = store.attempts.get(ids[0]) if len(ids) == 1 else None
    if only is None or (proven := only.verification) is None:
        return False
    tip = last_landed(store, run) or run.base_sha
    return bool(proven.proof_key and proven.gates) and only.base_sha == tip


def _is_agent_run(run: Run) -> bool:
    return run.settings.planning.planner and run.settings.planning.supervision == "agent"


def why_held_back(store: Store, run: Run, action_id: ActionId) -> HeldBack | None:
    """Return why a ready action may not start beside running ones; None if it may, or if the rules are off."""
    return RunBoard(store, run).why_held_back(action_id) if run.settings.scheduling.collisions else None


async def queue_attempt(context: RunContext, run: Run, goal_id: GoalId, action_id: ActionId) -> Attempt | None:
    """Queue and return the next attempt of a ready action, based on the tip of the session branch.

    None if it may no longer start: since the decision the goal was paused, the action cancelled or no longer ready, its
    slot taken, its shared worktree in use, or it collides with running work.
    """
    store = context.store
    # Git is asked before the transaction, which holds the only write lock and must stay short.
    tip = await session_tip(context, run)
    briefing, alternative = await brief_next_attempt(context, action_id, tip)
    executor, model = _chosen_worker(store, run, action_id, alternative=alternative)
    placed = await _find_placement(context, run, action_id, tip, executor)
    await forecast_conflicts(context, run, action_id, tip)
    attempt = Attempt(
        id=AttemptId(new_id()),
        run_id=run.id,
        action_id=action_id,
        kind=placed.kind,
        workspace=placed.workspace,
        start_sha=placed.start,
        number=store.attempts.next_number(action_id),
        fence=run.fence,
        status="queued",
        phase="workspace",
        executor=executor,
        executor_version=run.settings.executors.versions.get(executor, ""),
        model=model,
        base_sha=placed.base,
        briefing=briefing,
        alternative=alternative,
        usage=Usage(),
        queued_at=context.clock.now(),
    )
    # Checked again here, because another supervisor may have taken the last slot since the decision.
    with owner_transaction(store, run):
        goal, action = store.goals.get(goal_id), store.actions.get(action_id)
        if goal is None or not isinstance(goal.state, Active) or action is None:
            return None
        slots = slots_for(store, run, goal)
        if not slots.by_goal.get(goal_id) or not isinstance(action.state, Pending) or action.unmet:
            return None
        # A second step at the same time would reset the worktree of the first.
        may_start = not store.attempts.is_in_use(attempt.workspace)
        if not may_start or (slots.picker and not _starts_beside(store, slots.picker.for_run, action_id)):
            return None
        store.goals.record_slot(goal_id)
        store.attempts.open(attempt)
        # In the same transaction: a pending action with an open attempt would be dispatched again.
        store.actions.move(action_id, Running())
    return attempt


def _chosen_worker(store: Store, run: Run, action_id: ActionId, *, alternative: bool) -> tuple[str, str]:
    """Return the executor of an attempt and its model; a program chooses its model itself."""
    action, settings = store.actions.get(action_id), run.settings
    if action is None:
        return NATIVE, settings.model.name
    executor = settings.worker_executor(action.role, action.executor)
    if executor != NATIVE:
        return executor, executor
    return NATIVE, settings.worker_model(action.role, action.type, alternative=alternative).name


def _starts_beside(store: Store, running: RunBoard, action_id: ActionId) -> bool:
    """Return whether an action may start beside running ones; if so, count that it overtakes those held back."""
    # Asked about this action: an agent may start another one than those that were picked.
    if running.why_held_back(action_id) is not None:
        return False
    store.scheduling.start(action_id, overtakes=tuple(running.overtaken_by(action_id)))
    return True


class _Placement(Struct, frozen=True):
    kind: WorkKind
    base: Commit
    workspace: str = ""
    start: Commit | None = None


async def _find_placement(context: RunContext, run: Run, action_id: ActionId, tip: Commit, executor: str) -> _Placement:
    # At the branch's tip, or where the last step in its parent's worktree ended.
    store = context.store
    action = store.actions.get(action_id)
    parent = store.actions.get(action.parent_id) if action and action.parent_id else None
    if action is None:
        return _Placement("change", tip)
    kind = work_kind(action, parent)
    if action.workspace == "own" or parent is None:
        # Some programs find a conversation by its folder. Without a sandbox, what a dead one left could write there.
        stays = executor != NATIVE and run.settings.sandbox.mode != "off"
        return _Placement(kind, tip, f"{SAME_PLACE}{action_id}" if stays else "")
    recorded = store.attempts.recorded_in_workspace(parent.id)
    last = recorded[-1] if recorded else None
    if last is None or last.head_sha is None:
        return _Placement(kind, tip, parent.id)
    # A step may have merged work that has landed since. If the run was carried over to another base, the common commit
    # is older, or there is none: then the work of the steps is still relative to their own base.
    base = await commits.merge_base(context.git, last.head_sha, tip)
    if base != last.base_sha and (base is None or await commits.is_contained(context.git, base, last.base_sha)):
        base = last.base_sha
    return _Placement(kind, base, parent.id, last.head_sha)


async def forecast_conflicts(context: RunContext, run: Run, action_id: ActionId, tip: Commit) -> None:
    """Store where the last work of an action conflicts with the committed work of open attempts.

    Does nothing for an action with known files, whose paths decide, or without earlier work. Each pair is merged once.
    """
    store = context.store
    if not run.settings.scheduling.collisions:
        return
    action = store.scheduling.placed(action_id)
    if action.files or action.touched_sha is None:
        return
    new = _new_pairs(store, run, action)
    if not new:
        return
    forecaster = Forecaster(
        context.git,
        folder=context.temporary_folder(run.id),
        is_union=partial(globs.matches_any, run.settings.landing.union),
        rebased=store.branch_moves.was_rebased(run.id),
        listed=run.settings.landing.tracked_list,
    )
    found = []
    for other in new:
        if other.touched_sha is not None:
            bases = _base_of(store, action), _base_of(store, other)
            paths = await forecaster.between(action.touched_sha, other.touched_sha, tip, bases=bases)
            found.append((Forecast(action_id, action.touched_sha, other.attempt_id, paths), other.touched_sha))
    with owner_transaction(store, run):
        for forecast, head in found:
            store.scheduling.add_forecast(run.id, forecast, head)


def _new_pairs(store: Store, run: Run, action: WaitingWork) -> list[WorkUnderWay]:
    # Open work that changed a path of the action's last work, and has no forecast yet.
    known = {(each.head, each.attempt_id) for each in store.scheduling.forecasts(run.id) if each.action_id == action.id}
    touching = [each for each in store.scheduling.open_work(run.id) if not each.files and each.id != action.id]
    near = [each for each in touching if not set(each.touched).isdisjoint(action.touched)]
    return [each for each in near if (action.touched_sha, each.attempt_id) not in known][:MAX_MERGES]


def _base_of(store: Store, placed: WorkUnderWay | WaitingWork) -> Commit:
    last = store.attempts.for_action(placed.id)[-1]
    return last.base_sha
