"""`open`: the report of a run in a web browser."""

import os
import sys

import click

from scaffold.cli.commands.options import json_option
from scaffold.cli.execution.report_writer import write_report
from scaffold.cli.render.terminal.style import is_terminal, print_json
from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.cli.wiring import context_with_run
from scaffold.core.errors import ScaffoldError
from scaffold.core.model import Run
from scaffold.host.browser import open_in_browser
from scaffold.host.process.async_runner import run_async
from scaffold.run.context import RunContext


@click.command("open")
@click.argument("run_name", metavar="[RUN]", required=False)
@json_option
def open_report(run_name: str | None, *, as_json: bool) -> None:
    """Write the report of RUN (default: the latest) as it is now, and open it in your browser.

    Prints the path of the page. In a pipe, with --json, or where there is no browser it only does that.
    """

    async def show() -> None:
        async with context_with_run(run_name) as (context, run):
            await show_report(context, run, as_json=as_json)

    run_async(show())


async def show_report(context: RunContext, run: Run, *, as_json: bool) -> None:
    """Write the report of a run, print its path, and open it in a browser; ScaffoldError if it cannot be written."""
    try:
        path = await write_report(context, run)
    except OSError as error:
        what = f"the report cannot be written to {error.filename}: {error.strerror}"
        raise ScaffoldError(what, "Free some space or fix the permissions, then try again.") from error
    if as_json:
        print_json({"run": run.id, "path": str(path)})
        return
    click.echo(str(path))
    if is_terminal(sys.stdout) and not open_in_browser(path, os.environ):
        print_text("no browser was found; open the file in one", err=True)
