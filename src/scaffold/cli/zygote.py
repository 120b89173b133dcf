"""The hidden command `zygote`: loads what workers and supervisors need, and forks one whenever its run asks for it."""

import os
import socket
import sys
from collections.abc import Callable, Mapping

import click

from scaffold.cli.models import load_transport
from scaffold.cli.supervisor import supervise
from scaffold.cli.worker import work
from scaffold.host.nursery import serve

MAINS: Mapping[str, Callable[[str], int]] = {"worker": work, "supervisor": supervise}
"""What its children can be for; each takes the argument that came with the request and returns an exit code."""


@click.command(hidden=True)
@click.argument("line", type=int)
@click.option("--live", is_flag=True, help="Load the way to live models, too.")
def zygote(line: int, *, live: bool) -> int:
    """Fork workers and supervisors for a run, which asks on the descriptor LINE."""
    if live:
        load_transport()
    born = serve(socket.socket(fileno=line))
    if born is None:
        return 0
    code = MAINS[born.main](born.argument)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)  # to take an interpreter down in good order would copy the memory that it shares
