"""`attach`: watch a run that another process executes."""

import click

from scaffold.cli.commands.options import json_option, quiet_option
from scaffold.cli.execution.follow import STOPPED_WATCHING, print_end, watch_run
from scaffold.cli.execution.foreground import print_result
from scaffold.cli.exit_codes import OK
from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.cli.wiring import open_context
from scaffold.core import states
from scaffold.core.errors import ScaffoldError
from scaffold.host.process.async_runner import run_async
from scaffold.views.store_reader import display_status, find_run


@click.command()
@click.argument("run_name", metavar="[RUN]", required=False)
@json_option
@quiet_option
def attach(run_name: str | None, *, as_json: bool, quiet: bool) -> int:
    """Watch RUN (default: the latest) until it ends, and exit with its code.

    Ctrl-C stops watching; the run continues.
    """
    try:
        return run_async(_attach_run(run_name, as_json=as_json, quiet=quiet))
    except KeyboardInterrupt:
        print_text(STOPPED_WATCHING, err=True)
        return OK


async def _attach_run(name: str | None, *, as_json: bool, quiet: bool) -> int:
    context = await open_context()
    try:
        run = await watch_run(context, find_run(context, name), as_json=as_json, quiet=quiet)
        if display_status(run) == states.INTERRUPTED:
            await print_result(context, run.id, as_json=as_json)
            raise ScaffoldError(
                f"run {run.id} was interrupted: no process is executing it",
                f"Continue with `scaffold resume {run.id}`.",
            )
        return await print_end(context, run, as_json=as_json)
    finally:
        context.store.close()
