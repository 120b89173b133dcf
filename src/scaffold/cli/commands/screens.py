"""Screens that last: `live`, a run on the whole terminal, and `serve`, the user's runs in a browser."""

import os
import sys
from pathlib import Path

import click

from scaffold.cli.render.terminal.style import can_redraw, is_terminal
from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.cli.wiring import PROGRAM
from scaffold.core.errors import UsageError
from scaffold.host.browser import open_in_background
from scaffold.host.process.async_runner import kept_terminal, run_async
from scaffold.host.startup import importing, relax_gc
from scaffold.host.user_dirs import user_dirs


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


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="The port; default: a free one.")
@click.option("--bind", default="127.0.0.1", metavar="ADDRESS", help="Default: 127.0.0.1, this machine alone.")
@click.option("--read-only", is_flag=True, help="Show everything, change nothing.")
@click.option("--no-open", is_flag=True, help="Do not open the page in your browser.")
@click.option("--cert", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A TLS certificate.")
@click.option("--key", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Its key.")
@click.option("--proxy", metavar="NAME", help="The name of the TLS proxy that serves this server to others.")
@click.option("--set-password", is_flag=True, help="Read a password, which --bind and --proxy need, and end.")
def serve(*, no_open: bool, cert: Path | None, key: Path | None, set_password: bool, **wish: object) -> None:
    """Show the runs of all your repositories in a browser: how far they are, their evidence, what waits for you.

    Prints a link that works once, in one browser. Ctrl-C ends the server; runs go on.
    """
    if set_password:
        _set_password()
        return
    if (cert is None) != (key is None):
        raise UsageError("a TLS certificate needs its key", "Give both --cert and --key.")
    with importing():  # needed by no other command
        from scaffold.web.page_server import ServeWish, serve_pages
    relax_gc()

    def tell(link: str) -> None:
        # At once, also into a pipe: whoever started this command waits for it.
        click.echo(link)
        sys.stdout.flush()
        if not no_open and is_terminal(sys.stdout):
            open_in_background(link, os.environ)

    how = ServeWish(**wish, certificate=(cert, key) if cert and key else None)  # type: ignore[arg-type] # click's types
    run_async(serve_pages(how, Path.cwd(), PROGRAM, user_dirs(), os.environ, tell))


def _set_password() -> None:
    with importing():
        from scaffold.web.browser_access import store_password
    if is_terminal(sys.stdin):
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\n")
    print_text(f"its hash is in {store_password(user_dirs().config, password)}")
