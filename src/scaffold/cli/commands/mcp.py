"""`mcp`: runs as tools and resources for other programs, by the Model Context Protocol."""

import logging
import os
from pathlib import Path

import click

from scaffold.cli.commands.options import require_extra
from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.cli.wiring import PROGRAM
from scaffold.host.process.async_runner import run_async
from scaffold.host.protocol_streams import take_protocol_streams
from scaffold.host.startup import importing, relax_gc
from scaffold.policy.secret.sources import redactor_for

FIX = "Let your client start it, or pass `--http N`: docs/mcp-server.md shows how."


@click.command()
@click.option("--allow-start", is_flag=True, help="Let clients start and resume runs without asking you.")
@click.option("--allow-steer", is_flag=True, help="Let them pause and stop runs, answer questions, send messages.")
@click.option(
    "--http",
    "port",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="Serve HTTP at this port of this machine; 0: a free one.",
)
def mcp(*, allow_start: bool, allow_steer: bool, port: int | None) -> int:
    """Serve this repository's runs to a client of the Model Context Protocol, which starts this command.

    Reading is free. Starting and steering ask the client's user each time, unless a flag allows them. A run that was
    started goes on when the client or this server ends.
    """
    require_extra("mcp", "mcp")
    streams = None if port is not None else take_protocol_streams("`scaffold mcp`", FIX)
    # The SDK logs invalid requests with tracebacks; the client gets an error, and the log is for users.
    logging.getLogger().addHandler(logging.NullHandler())
    with importing():  # needs the SDK of the extra `mcp`
        from scaffold.mcp.serve import RunService, serve_runs
    relax_gc()
    cwd = Path.cwd()
    service = RunService(
        cwd=cwd,
        program=PROGRAM,
        allow_start=allow_start,
        allow_steer=allow_steer,
        redactor=redactor_for(os.environ, cwd),
    )
    run_async(serve_runs(service, streams, port, lambda url: print_text(f"serving at {url}", err=True)))
    return 0
