"""Which work the base branch still has: the user may have undone what was taken, and git alone knows."""

import os
from pathlib import Path

from msgspec.structs import replace

from scaffold.core.model import BranchMove
from scaffold.git import refs
from scaffold.git.command import Git
from scaffold.git.commits import is_contained
from scaffold.host.process.async_runner import run_async
from scaffold.views.run_view import RunView


async def without_undone(git: Git, view: RunView) -> RunView:
    """Return the view without moves of branches that no longer contain what was taken to them."""
    taken = [move for move in view.summary.taken if move.purpose == "pr" or await _has(git, move)]
    return replace(view, summary=replace(view.summary, taken=tuple(taken)))


def without_undone_in(folder: Path, view: RunView) -> RunView:
    """Do the same in the repository around `folder`, outside of an event loop."""
    return run_async(without_undone(Git(folder, environ=os.environ), view))


async def _has(git: Git, move: BranchMove) -> bool:
    tip = await refs.resolve(git, f"refs/heads/{move.branch}")
    return tip is not None and await is_contained(git, move.new, tip)
