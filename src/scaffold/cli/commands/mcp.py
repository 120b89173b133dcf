"""`mcp`: runs as tools and resources for other programs, by the Model Context Protocol."""

import logging
import os
from pathlib import Path
from typing import Any

import click

from scaffold.cli.extras import require_extra
from scaffold.cli.render.terminal.text_layout import print_text
from scaffold.cli.wiring import PROGRAM
from scaffold.host.process.async_runner import run_async
from scaffold.host.protocol_streams import ProtocolStreams, take_protocol_streams
from scaffold.host.startup import lazy_import, relax_gc
from scaffold.policy.secret.sources import redactor_for

BUILD_SERVER, PLACE = "scaffold.mcp.server:build_server", "scaffold.mcp.tools:ServedPlace"
OWN_PROGRAM = "scaffold.mcp.run_control:OwnProgram"
SERVE_STREAMS, SERVE_HTTP = "scaffold.mcp.serve:serve_streams", "scaffold.mcp.serve:serve_http"
"""All need the SDK of the extra `mcp`."""
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
    # Libraries log what their peer did wrong with a traceback; it gets an answer, and the log is for users.
    logging.getLogger().addHandler(logging.NullHandler())
    allowed = frozenset(["start"] * allow_start + ["steer"] * allow_steer)
    cwd = Path.cwd()
    program = lazy_import(OWN_PROGRAM)(cwd, PROGRAM)
    place = lazy_import(PLACE)(cwd, program)
    server = lazy_import(BUILD_SERVER)(place, allowed, redactor_for(os.environ, cwd))
    relax_gc()
    run_async(_serve(server, program, streams, port))
    return 0


async def _serve(server: Any, program: Any, streams: ProtocolStreams | None, port: int | None) -> None:
    async with program:
        if streams is not None:
            await lazy_import(SERVE_STREAMS)(server, streams)
        else:
            await lazy_import(SERVE_HTTP)(server, port, lambda url: print_text(f"serving at {url}", err=True))
