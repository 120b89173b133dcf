"""Take the work of a run: what the settings say about it, and what `--greenfield` and `--pr` do at the end of a run."""

from typing import cast

from msgspec.structs import replace

from scaffold.cli.render.changes.pull_request import pull_request_of
from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.config.folder_trust import folder_trust
from scaffold.config.settings import Settings, load_settings
from scaffold.core.errors import GitError, ScaffoldError
from scaffold.core.model import Action, Run
from scaffold.landing.taking.github_pull_request import Target, find_target, open_pull_request, would_overwrite
from scaffold.landing.taking.land import (
    LandHow,
    LandWish,
    TakenWork,
    begin_move,
    finish_move,
    prepare,
    require_place,
    settle_moves,
    sign_work,
    take,
    warn_of,
)
from scaffold.landing.taking.remake import CommitStyle, wants_signature
from scaffold.landing.taking.user_programs import require_own_programs
from scaffold.run.context import RunContext
from scaffold.views.changes.taken_work import ordered, read_taken
from scaffold.views.run_view import read_run_view

SQUASH_MESSAGE = "{request}\n\n{actions}"


async def read_wish(
    context: RunContext, settings: Settings, how: LandHow | None = None, only: Action | None = None
) -> LandWish:
    """Return how to take the work: as asked, else as the settings say; signed if the user's git signs.

    ScaffoldError if that would run a program which only the git configuration of an untrusted folder names.
    """
    how = how or cast("LandHow", settings.text("publish"))  # the parser checked it
    sign = await wants_signature(context)
    if sign or how == "pr":
        await require_own_programs(context, folder_trust(context.repository.root))
    return LandWish(
        how=how,
        only=only,
        style=CommitStyle(sign=sign, sign_off=settings.text("land.sign_off") == "on"),
        message=settings.text("land.message") or SQUASH_MESSAGE,
    )


async def publish_work(context: RunContext, run: Run, work: TakenWork, target: Target, *, force: bool = False) -> str:
    """Push the work, open its pull request or bring it up to date, and return its address."""
    content = pull_request_of(read_run_view(context, run), work, context.redactor)
    trust = folder_trust(context.repository.root)
    return await open_pull_request(context, run, work, target, content, force=force, trust=trust)


async def fulfil_order(context: RunContext, run: Run) -> bool:
    """Take the work of a run as `--greenfield` or `--pr` ask for, if it has completed and that is not done yet.

    Return whether nothing is left to do. If something prevents it, the reason is printed and becomes a warning of
    the run: its work has landed, and the same call, or `scaffold land`, takes it.
    """
    try:
        told = await _take_as_ordered(context, run)
    except ScaffoldError as problem:
        told = f"the work was not taken: {problem.what}. {problem.fix}"
        warn_of(context, run, told)
        print_text(f"warning: {context.redactor.clean(told)}", err=True)
        return False
    if told:
        print_text(told, err=True)
    return True


async def _take_as_ordered(context: RunContext, run: Run) -> str:
    if ordered(run) is None:
        return ""
    await settle_moves(context, run)  # that a killed process had begun
    order = (await read_taken(context.git, context.store, run)).order
    if order is None:
        return ""
    how: LandHow = "ff" if order == "greenfield" else "pr"
    settings = load_settings(context.repository.root, context.environ, {})
    wish = await read_wish(context, settings, how)
    work = await prepare(context, run, wish)
    if work.is_taken and (await read_taken(context.git, context.store, run)).order is None:
        return ""  # another process was faster
    if work.is_taken:
        # As other commits, e.g. squashed by a server. Recorded, so that the order counts as done.
        finish_move(context, begin_move(context, run, replace(work, how="ff"), branch=work.branch))
        return f"{work.branch} has everything on {run.session_branch} already"
    if how == "pr":
        return f"pull request {await _open_pull_request(context, run, wish, work)}"
    await require_place(context, run, work)
    work = await sign_work(context, run, wish, work)
    await take(context, run, work)
    return f"{work.branch} is at {work.new[:8]} now"


async def _open_pull_request(context: RunContext, run: Run, wish: LandWish, work: TakenWork) -> str:
    target = await find_target(context, run, work, folder_trust(context.repository.root))
    work = await sign_work(context, run, wish, work)
    if await would_overwrite(context, work, target):
        raise GitError(
            f"{target.remote} has other commits on {target.branch}",
            "`scaffold land --pr` asks about them at a terminal.",
        )
    return await publish_work(context, run, work, target)
