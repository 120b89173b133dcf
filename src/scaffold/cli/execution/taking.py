"""Take the work of a run: what the settings say about it, and what `--greenfield` and `--pr` do at the end of a run."""

from typing import cast

from scaffold.cli.render.layout import print_text
from scaffold.cli.render.pull_request import pull_request_of
from scaffold.config.folder_trust import folder_trust
from scaffold.config.settings import Settings, load_settings
from scaffold.core.errors import GitError, ScaffoldError
from scaffold.core.model import Action, Run
from scaffold.landing.taking.land import (
    LandHow,
    LandWish,
    Work,
    prepare,
    require_place,
    settle_moves,
    sign_work,
    take,
    warn_of,
)
from scaffold.landing.taking.pull_request import Target, find_target, open_pull_request, would_overwrite
from scaffold.landing.taking.remake import CommitStyle, wants_signature
from scaffold.landing.taking.user_programs import require_own_programs
from scaffold.run.context import RunContext
from scaffold.views.run_view import read_run_view

SQUASH_MESSAGE = "{request}\n\n{actions}"


async def read_wish(
    context: RunContext, settings: Settings, how: LandHow | None = None, only: Action | None = None
) -> LandWish:
    """Return how work is taken: as asked, else as the settings say; signed if the user's git signs.

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


async def publish_work(context: RunContext, run: Run, work: Work, target: Target, *, force: bool = False) -> str:
    """Push the work, open its pull request or bring it up to date, and return its address."""
    content = pull_request_of(read_run_view(context, run), work, context.redactor)
    trust = folder_trust(context.repository.root)
    return await open_pull_request(context, run, work, target, content, force=force, trust=trust)


async def take_at_end(context: RunContext, run: Run) -> None:
    """Take the work of a run that has completed, if it was started with `--greenfield` or `--pr`.

    What stands in the way is told, and is a warning of the run: its work has landed, and `scaffold land` takes it.
    """
    wanted = run.settings.taking
    if not (wanted.fast_forward or wanted.pull_request):
        return
    how: LandHow = "ff" if wanted.fast_forward else "pr"
    try:
        await settle_moves(context, run)
        settings = load_settings(context.repository.root, context.environ, {})
        wish = await read_wish(context, settings, how)
        work = await prepare(context, run, wish)
        if work.is_taken:
            return
        if how == "ff":
            await require_place(context, run, work)
            work = await sign_work(context, run, wish, work)
            await take(context, run, work)
            told = f"{work.branch} is at {work.new[:8]} now"
        else:
            told = f"pull request {await _open(context, run, wish, work)}"
    except ScaffoldError as problem:
        told = f"the work was not taken: {problem.what}. {problem.fix}"
        warn_of(context, run, told)
        told = f"warning: {context.redactor.clean(told)}"
    print_text(told, err=True)


async def _open(context: RunContext, run: Run, wish: LandWish, work: Work) -> str:
    target = await find_target(context, run, work)
    work = await sign_work(context, run, wish, work)
    if await would_overwrite(context, work, target):
        raise GitError(
            f"{target.remote} has other commits on {target.branch}",
            "`scaffold land --pr` asks about them at a terminal.",
        )
    return await publish_work(context, run, work, target)
