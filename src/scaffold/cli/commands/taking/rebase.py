"""`rebase`: carry the work of a run over to the new tip of its base branch."""

import click
import msgspec

from scaffold.cli.commands.options import json_option
from scaffold.cli.execution.report_file import write_end_report
from scaffold.cli.render.layout import print_text
from scaffold.cli.render.style import print_json
from scaffold.cli.wiring import context_with_run
from scaffold.core.printable_text import count_of, join_limited
from scaffold.host.process.async_runner import run_async
from scaffold.landing.taking.rebase import MAX_NAMES, Rebased, name_of
from scaffold.orchestrator.owner.session_changes import rebase_run


@click.command()
@click.argument("run_name", metavar="[RUN]", required=False)
@json_option
def rebase(run_name: str | None, *, as_json: bool) -> None:
    """Carry the work of RUN (default: the latest) over to the tip of its base branch, if that has moved on.

    The session branch gets its commits again, on the new base; your branch and your checkout stay as they are. Nothing
    counts as proven until `scaffold resume` has run the checks there. Actions whose changes conflict are done again.
    """
    run_async(_rebase(run_name, as_json=as_json))


async def _rebase(run_name: str | None, *, as_json: bool) -> None:
    async with context_with_run(run_name) as (context, run):
        done = await rebase_run(context, run)
        if done is not None:
            write_end_report(context, run.id)
        if as_json:
            print_json({"run": run.id, "rebased": done is not None, **(_json(done) if done else {})})
        elif done is None:
            print_text(f"{run.base_branch} has no commits that {run.session_branch} does not have")
        else:
            count = count_of(len(done.carried), "commit")
            print_text(f"{run.session_branch} is at {done.commit[:8]} now: {count} on {done.base[:8]}")
            if done.in_base:
                there = join_limited([name_of(each) for each in done.in_base], MAX_NAMES)
                print_text(f"  in {run.base_branch} already: {there}")
            if done.open_again:
                print_text(f"  conflicts, done again: {join_limited(done.open_again, MAX_NAMES)}")
            print_text(f"  prove it again: scaffold resume {run.id}")


def _json(done: Rebased) -> dict[str, object]:
    value: dict[str, object] = msgspec.to_builtins(done)
    return value
