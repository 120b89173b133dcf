"""Forecast whether an action whose files are unknown will conflict with what runs, by merging what is committed."""

from functools import partial

from scaffold.core.ids import ActionId, Commit
from scaffold.core.model import Run
from scaffold.landing.queue.forecast import Forecaster
from scaffold.policy.path import globs
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext
from scaffold.store.database import Store
from scaffold.store.run.plan.scheduling import Forecast, WaitingWork, WorkUnderWay

MAX_MERGES = 8
"""How many pairs are merged before one attempt starts."""


async def forecast_conflicts(context: RunContext, run: Run, action_id: ActionId, tip: Commit) -> None:
    """Store where the last work of an action conflicts with the committed work of open attempts.

    Does nothing for an action without such work, or with known files: its paths decide. Each pair is merged once.
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
    """Return the open work that has changed a path which the action's last work changed, and that is not forecasted."""
    known = {(each.head, each.attempt_id) for each in store.scheduling.forecasts(run.id) if each.action_id == action.id}
    touching = [each for each in store.scheduling.open_work(run.id) if not each.files and each.id != action.id]
    near = [each for each in touching if not set(each.touched).isdisjoint(action.touched)]
    return [each for each in near if (action.touched_sha, each.attempt_id) not in known][:MAX_MERGES]


def _base_of(store: Store, placed: WorkUnderWay | WaitingWork) -> Commit:
    last = store.attempts.of_action(placed.id)[-1]
    return last.base_sha
