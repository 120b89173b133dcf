"""The hidden command `zygote`: loads what workers and supervisors need, and forks one whenever its run asks for it."""

import concurrent.futures.thread  # noqa: F401 - asyncio loads it late, in each child anew
import os
import socket
import sys
import sysconfig
from collections.abc import Callable, Mapping

import click

from scaffold.cli.models import load_transport
from scaffold.cli.supervisor import supervise
from scaffold.cli.wiring import repository_here
from scaffold.cli.worker import work
from scaffold.git.repository import Repository
from scaffold.host.nursery import serve

MAINS: Mapping[str, Callable[[str, Repository], int]] = {"worker": work, "supervisor": supervise}
"""What its children can be for; each takes the argument that came with the request and returns an exit code."""


@click.command(hidden=True)
@click.argument("line", type=int)
@click.option("--live", is_flag=True, help="Load the way to live models, too.")
def zygote(line: int, *, live: bool) -> int:
    """Fork workers and supervisors for a run, which asks on the descriptor LINE."""
    if live:
        load_transport()
    sysconfig.get_config_vars()  # found out once, as the repository is
    repository = repository_here()
    born = serve(socket.socket(fileno=line))
    if born is None:
        return 0
    code = MAINS[born.main](born.argument, repository)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)  # to take an interpreter down in good order would copy the memory that it shares
