"""The taken work of runs: the one answer for every interface.

The store knows what was moved and pushed; only git knows what a branch still has, as the user may have undone it.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from scaffold.core.ids import Commit
from scaffold.core.landing.branch_move import BranchMove
from scaffold.core.model import Run
from scaffold.core.states import Completed
from scaffold.git import refs
from scaffold.git.client.command_line import Git
from scaffold.git.commits import contained, is_contained
from scaffold.host.process.async_runner import run_async
from scaffold.store.database import Store
from scaffold.views.run_list import ListedRun
from scaffold.views.run_view import RunSummary, RunView, Taken, TakingOrder
from scaffold.views.waiting import WaitingEntry


async def read_taken(git: Git, store: Store, run: Run) -> Taken:
    """Return the user's part of a run's work; git is not asked about runs without taken work."""
    recorded = tuple(move for move in store.branch_moves.done_of_run(run.id) if move.takes_work)
    order = ordered(run) if isinstance(run.state, Completed) else None
    landed = store.intents.last_done(run.id)
    if not recorded and order is None:
        return Taken()
    moves = tuple([move for move in recorded if move.purpose == "pr" or await _is_at(git, move.new, move.branch)])
    if landed is None:
        return Taken(moves=moves)
    whole = await _is_at(git, landed.new, run.base_branch) or await _has_all(git, moves, landed.new)
    # An order is done if it was done once, even if the user has undone it since.
    is_done = order is None or await _has_all(git, recorded, landed.new, by_request=order == "pr")
    is_open = not whole and not is_done
    return Taken(moves=moves, whole=whole, order=order if is_open else None)


def ordered(run: Run) -> TakingOrder | None:
    """Return the order for the end of the run; None without one."""
    if run.settings.taking.fast_forward:
        return "greenfield"
    return "pr" if run.settings.taking.pull_request else None


async def summary_with_taken(git: Git, store: Store, summary: RunSummary) -> RunSummary:
    """Return the summary with the taken work."""
    return replace(summary, taken=await read_taken(git, store, summary.run))


async def with_taken(git: Git, store: Store, view: RunView) -> RunView:
    """Return the view with the taken work."""
    return replace(view, summary=await summary_with_taken(git, store, view.summary))


def with_taken_in(folder: Path, store: Store, view: RunView) -> RunView:
    """Return as `with_taken`, for the repository around `folder`, without a running event loop."""
    return run_async(with_taken(Git(folder, environ=os.environ), store, view))


def runs_with_taken_in(folder: Path, store: Store, listed: Sequence[ListedRun]) -> tuple[ListedRun, ...]:
    """Return the runs with whether work of them was taken, in the repository around `folder`, outside of a loop.

    Each branch is asked about once, however many runs there are.
    """
    recorded = {
        each.id: [move for move in store.branch_moves.done_of_run(each.id) if move.takes_work] for each in listed
    }
    there = run_async(
        _moves_there(Git(folder, environ=os.environ), [move for each in recorded.values() for move in each])
    )
    return tuple(replace(each, taken=any(move.id in there for move in recorded[each.id])) for each in listed)


async def without_taken(entries: Sequence[WaitingEntry]) -> tuple[WaitingEntry, ...]:
    """Return the entries without finished runs whose work the base branch has, or whose session branch is gone.

    However the work got there. Git is asked only about finished runs, and once about each of their branches.
    """
    places = {(each.repository, each.work.base_branch) for each in entries if each.repository and each.work}
    over = set[str]()
    for root, branch in places:
        git = Git(root, environ=os.environ)
        works = {each.id: each.work for each in entries if each.repository == root and each.work}
        tip = await refs.resolve(git, f"refs/heads/{branch}") if branch else None
        here = {name: work for name, work in works.items() if work.base_branch == branch}
        has = await contained(git, {work.landed for work in here.values()}, tip) if tip else frozenset()
        over |= {name for name, work in here.items() if work.landed in has}
        over |= {name for name, work in here.items() if await refs.resolve(git, work.session_ref) is None}
    return tuple(each for each in entries if each.work is None or each.id not in over)


def without_taken_now(entries: Sequence[WaitingEntry]) -> Sequence[WaitingEntry]:
    """Return as `without_taken`, without a running event loop."""
    return run_async(without_taken(entries))


async def _moves_there(git: Git, moves: Sequence[BranchMove]) -> frozenset[str]:
    # A pull request counts as there: only its server knows.
    found = {move.id for move in moves if move.purpose == "pr"}
    on_branches = [move for move in moves if move.purpose != "pr"]
    for branch in {move.branch for move in on_branches}:
        tip = await refs.resolve(git, f"refs/heads/{branch}")
        here = [move for move in on_branches if move.branch == branch]
        has = await contained(git, {move.new for move in here}, tip) if tip else frozenset()
        found.update(move.id for move in here if move.new in has)
    return frozenset(found)


async def _is_at(git: Git, commit: Commit, branch: str | None) -> bool:
    tip = await refs.resolve(git, f"refs/heads/{branch}") if branch else None
    return tip is not None and await is_contained(git, commit, tip)


async def _has_all(git: Git, moves: Sequence[BranchMove], landed: Commit, *, by_request: bool = False) -> bool:
    """Return whether one of the moves took all that landed, with `by_request` also by a pull request."""
    whole = [move for move in moves if move.action_id is None and (by_request or move.purpose != "pr")]
    return any([await is_contained(git, landed, move.head) for move in whole])
