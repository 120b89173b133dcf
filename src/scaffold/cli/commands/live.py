"""`live`: a run on the whole terminal, steered by keys."""

import os
import sys
from pathlib import Path

import click

from scaffold.cli.render.terminal.style import can_redraw, is_terminal
from scaffold.cli.wiring import PROGRAM
from scaffold.core.errors import UsageError
from scaffold.host.process.async_runner import kept_terminal, run_async
from scaffold.host.startup import importing, relax_gc


@click.command()
@click.argument("run_name", metavar="[RUN]", required=False)
def live(run_name: str | None) -> int:
    """Show RUN (default: the latest) on the whole terminal, and steer it: `?` lists the keys.

    Agents, output, plan, merge queue, inbox and numbers are tabs. The run goes on when this screen ends.
    """
    if not is_terminal(sys.stdin, sys.stdout) or not can_redraw(os.environ):
        what = "`scaffold live` needs a terminal that can be redrawn"
        raise UsageError(what, "Use `scaffold status --watch`, or `scaffold attach` for a line for each event.")
    relax_gc()
    with importing():  # Textual takes longer to load than most commands run
        from scaffold.tui.live_app import show_live
    with kept_terminal(sys.stdout.fileno()):
        return run_async(show_live(Path.cwd(), os.environ, run_name, PROGRAM))
