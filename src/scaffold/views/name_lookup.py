"""Find runs, goals and actions by the names that a user gives."""

from scaffold.core.errors import UsageError
from scaffold.core.ids import ActionId, ActionKey, GoalId
from scaffold.core.model import Action, Goal, Run
from scaffold.plan.spelling_hints import SpellingHints
from scaffold.views.store_reader import StoreAccess, find_run


def find_action(context: StoreAccess, run: Run, name: str) -> Action:
    """Return the run's action of that key or id; raise UsageError with the closest key if there is none."""
    found = action_if_any(context, run, name)
    if found is not None:
        return found
    hint = SpellingHints(action.key for action in context.store.actions.for_run(run.id)).hint(name)
    raise UsageError(f"run {run.id} has no action `{name}`", f"{hint}`scaffold tasks --run {run.id}` lists them.")


def action_if_any(context: StoreAccess, run: Run, name: str) -> Action | None:
    """Return the run's action of that key or id, None if there is none."""
    found = context.store.actions.by_key(run.id, ActionKey(name)) or context.store.actions.get(ActionId(name))
    return found if found is not None and found.run_id == run.id else None


def find_landing_action(context: StoreAccess, run: Run, name: str) -> Action:
    """Return as `find_action`; for a compound whose steps share a worktree, the step that lands their work."""
    found = find_action(context, run, name)
    steps = (each for each in context.store.actions.children(found.id) if each.workspace == "parent")
    return next((each for each in steps if not set(found.effects).isdisjoint(each.effects)), found)


def find_other_run(context: StoreAccess, run: Run, name: str) -> Run:
    """Return the run whose id starts with `name`, or raise UsageError; `name` is no goal or action of `run`."""
    if not name or context.store.runs.by_prefix(name.removeprefix("session-")):
        return find_run(context, name)
    goals = (goal.name for goal in context.store.goals.for_run(run.id))
    hint = SpellingHints([*goals, *(action.key for action in context.store.actions.for_run(run.id))]).hint(name)
    what = f"`{name}` is neither a run of this repository nor a goal or action of run {run.id}"
    raise UsageError(what, f"{hint}`scaffold tasks --run {run.id}` lists its goals and actions.")


def find_goal(context: StoreAccess, run: Run, name: str) -> Goal:
    """Return the run's goal of that name or id; raise UsageError with the closest name if there is none."""
    found = goal_if_any(context, run, name)
    if found is not None:
        return found
    hint = SpellingHints(goal.name for goal in context.store.goals.for_run(run.id)).hint(name)
    raise UsageError(f"run {run.id} has no goal `{name}`", f"{hint}`scaffold goals --run {run.id}` lists them.")


def goal_if_any(context: StoreAccess, run: Run, name: str) -> Goal | None:
    """Return the run's goal of that name or id, None if there is none."""
    found = context.store.goals.by_name(run.id, name) or context.store.goals.get(GoalId(name))
    return found if found is not None and found.run_id == run.id else None
