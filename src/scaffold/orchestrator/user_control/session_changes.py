"""Change the session branch of a run that no process executes, or prove a part of it.

`revert` undoes an action, `rebase` carries all work over to a new base. The run is paused afterwards, even if it was
completed, and `resume` continues it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec.structs import replace

from scaffold.core.errors import GitError, UsageError
from scaffold.core.model import Action, Run
from scaffold.core.printable_text import count_of
from scaffold.core.states import Cancelled, Saved
from scaffold.landing.facts.landing_record import last_landed
from scaffold.landing.taking.land import TakenWork
from scaffold.landing.taking.open_work import open_work
from scaffold.landing.taking.proven_trees import count_stale
from scaffold.landing.taking.rebase import Rebased, keep_former, plan_rebase
from scaffold.landing.taking.revert import Reverted, move_session_branch, plan_revert
from scaffold.landing.taking.selection_proof import prove_selection
from scaffold.orchestrator.owner.recovery.interrupted_moves import (
    record_interrupted_moves,
    record_rebase,
    record_revert,
)
from scaffold.orchestrator.owner.recovery.interrupted_run import recover_run
from scaffold.orchestrator.owner.run_files import write_run_files
from scaffold.orchestrator.owner.run_lease import keeping_lease, release_run, take_over_run
from scaffold.run.context import RunContext
from scaffold.verify.contract.check_runs import During


async def revert_action(context: RunContext, run: Run, action: Action) -> Reverted:
    """Undo the action's commit on the session branch with a new one, and reopen the action; return what changed.

    Raises RunBusy while a process executes the run, UsageError if it was cancelled or has not started, and as
    `plan_revert` does. Safe to repeat: after a crash it records the interrupted revert.
    """
    async with _owned_run(context, run) as own:
        for done in reversed(await record_interrupted_moves(context, own)):
            if isinstance(done, Reverted) and done.action.id == action.id:
                return done
        await recover_run(context, own)
        move = await plan_revert(context, own, context.store.actions.get(action.id) or action)
        await move_session_branch(context, own, move)
        return await record_revert(context, own, move)


async def rebase_run(context: RunContext, run: Run) -> Rebased | None:
    """Carry the work over to the base branch's tip; return what changed, None if that has not moved.

    Raises as `revert_action` and `plan_rebase` do, and UsageError if there is no work. Safe to repeat.
    """
    async with _owned_run(context, run) as own:
        for done in reversed(await record_interrupted_moves(context, own)):
            if isinstance(done, Rebased):
                return await _with_open_work(context, own, done)
        await recover_run(context, own)
        if last_landed(context.store, own) is None and not await open_work(context, own, own.base_sha):
            raise UsageError(
                f"nothing has landed on {own.session_branch}, and no attempt has changed anything, so there is no work "
                "to carry over",
                "Start a new run: it begins at the base branch's tip.",
            )
        move = await plan_rebase(context, own)
        if move is None:
            return None
        await keep_former(context, own, move)
        await move_session_branch(context, own, move)
        return await _with_open_work(context, own, await record_rebase(context, own, move))


async def _with_open_work(context: RunContext, run: Run, done: Rebased) -> Rebased:
    # The unlanded work, except that of actions that are done again.
    again = {*done.open_again, *done.withdrawn}
    found = [each for each in await open_work(context, run, done.commit) if each.action not in again]
    return replace(done, open_work=tuple(found))


async def prove_work(context: RunContext, run: Run, work: TakenWork, *, during: During) -> TakenWork:
    """Prove a selection of the run's work on its own tree, and return it with the remaining doubt.

    Raises GitError, with the evidence, if it does not pass or if facts of the run must be checked again first, and
    RunBusy while a process executes the run.
    """
    own = take_over_run(context, run.id)
    try:
        async with keeping_lease(context, own):
            if stale := count_stale(context, own):
                again = f"{count_of(stale, 'fact')} must be checked again before a part of the work can be proven"
                raise GitError(again, f"`scaffold resume {run.id}` does it. Nothing was changed.")
            return replace(work, doubt=await prove_selection(context, own, work, during=during))
    finally:
        release_run(context.store, own)


@asynccontextmanager
async def _owned_run(context: RunContext, run: Run) -> AsyncIterator[Run]:
    if isinstance(run.state, Cancelled):
        raise UsageError(
            f"run {run.id} is cancelled, and nothing in it can be done again",
            f"Change {run.session_branch} with git, or start a new run.",
        )
    if isinstance(run.state, Saved):
        raise UsageError(
            f"run {run.id} is saved and has not started, so {run.session_branch} has no work yet",
            f"Start it with `scaffold resume {run.id}`.",
        )
    own = take_over_run(context, run.id)
    try:
        async with keeping_lease(context, own):
            yield own
    finally:
        release_run(context.store, own)
        await write_run_files(context, own)
