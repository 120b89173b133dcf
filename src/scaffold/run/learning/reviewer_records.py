"""What is known of second reviewers: copied from the repository's runs to the user's database, and read there."""

from scaffold.core.errors import StoreError
from scaffold.core.ids import RunId
from scaffold.plan.review_rates import JudgedAction, ReviewerRates, outcomes_of, rates_of
from scaffold.run.context import RunContext, repository_name
from scaffold.run.learning.stores import user_store_if_any
from scaffold.run.notices import warn
from scaffold.store.driver.columns import TimeSource


def keep_outcomes(context: RunContext, run_id: RunId) -> None:
    """Copy what became of the verdicts in a run to the user's database; if that is not possible, the run is warned."""
    try:
        _copy_run(context, run_id)
    except StoreError as error:
        warn(context, run_id, f"What became of second reviews is not kept for other repositories: {error.what}.")


def reviewer_rates(context: RunContext | None, clock: TimeSource) -> tuple[ReviewerRates, ...]:
    """Return the rates of all reviewers; those in runs of this repository, if there is one, as they are now."""
    if context is not None:
        for run in context.store.runs.all():
            _copy_run(context, run.id)
    with user_store_if_any(clock) as user:
        return rates_of(user.reviewers.outcomes(), user.reviewers.probes()) if user is not None else ()


def _copy_run(context: RunContext, run_id: RunId) -> None:
    store = context.store
    judged = [each for each in map(store.actions.get, store.review_verdicts.actions(run_id)) if each is not None]
    if not judged:
        return
    moves = store.branch_moves.done_of_run(run_id)
    reverted = frozenset(move.head for move in moves if move.purpose == "revert" and move.head)
    found = [
        outcome
        for action in judged
        for outcome in outcomes_of(
            JudgedAction(
                run_id=run_id,
                key=action.key,
                attempts=store.attempts.for_action(action.id),
                items=store.inbox.for_action(action.id),
            ),
            store.review_verdicts.for_action(action.id),
            reverted,
        )
    ]
    with user_store_if_any(context.clock, create=True) as user:
        if user is not None:
            with user.transaction():
                user.reviewers.put(repository_name(context.repository), found)
