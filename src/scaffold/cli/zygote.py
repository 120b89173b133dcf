"""The hidden command `zygote`: loads what workers need, then forks one whenever its run asks for one."""

import os
import socket
import sys
from collections.abc import Callable, Mapping

import click

from scaffold.cli.models import load_transport
from scaffold.cli.worker import work
from scaffold.host.nursery import serve
from scaffold.orchestrator.workers import WORKER

MAINS: Mapping[str, Callable[[str], int]] = {WORKER: work}
"""What its children can be for; each takes the argument that came with the request and returns an exit code."""


@click.command(hidden=True)
@click.argument("line", type=int)
@click.option("--live", is_flag=True, help="Load the way to live models, too.")
def zygote(line: int, *, live: bool) -> int:
    """Fork workers for a run, which asks on the descriptor LINE."""
    if live:
        load_transport()
    born = serve(socket.socket(fileno=line))
    if born is None:
        return 0
    code = MAINS[born.main](born.argument)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)  # to take an interpreter down in good order would copy the memory that it shares
