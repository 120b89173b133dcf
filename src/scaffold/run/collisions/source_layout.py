"""Read where a run has its source, once for each base."""

from scaffold.core.errors import GitError
from scaffold.core.model import Run
from scaffold.core.printable_text import utf8_safe
from scaffold.git import commits
from scaffold.plan.collisions.layout import SourceLayout, layout_of
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.collisions.workspaces import MANIFESTS, find_workspaces
from scaffold.run.context import RunContext
from scaffold.run.notices import warn


async def ensure_source_layout(context: RunContext, run: Run) -> None:
    """Store the layout of the run's base, unless it is stored; one notice names the files that cannot be read."""
    if context.store.scheduling.has_layout(run.id, run.base_sha):
        return
    try:
        layout = await _read(context, run)
    except GitError as error:
        warn(context, run.id, f"Agents are not spread over directories: {error.what}.")
        return
    with owner_transaction(context.store, run):
        context.store.scheduling.set_layout(run.id, run.base_sha, layout)


async def _read(context: RunContext, run: Run) -> SourceLayout:
    paths = [utf8_safe(path) for path in await commits.listed_paths(context.git, run.base_sha)]
    known = {*paths}
    names = [name for name in MANIFESTS if name in known]
    found = await commits.batch_contents(context.git, [f"{run.base_sha}:{name}" for name in names]) if names else ()
    workspaces = find_workspaces(paths, dict(zip(names, found, strict=True)))
    for name, why in workspaces.unreadable.items():
        warn(context, run.id, f"{name} is ignored where agents are spread over packages: {why}")
    return layout_of(paths, workspaces.packages)
