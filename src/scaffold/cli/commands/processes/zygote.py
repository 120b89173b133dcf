"""The hidden command `zygote`: loads what workers and supervisors need, and forks one whenever its run asks for it."""

import concurrent.futures.thread  # noqa: F401 - asyncio loads it late, in each child anew
import os
import socket
import sys
import sysconfig
from collections.abc import Callable, Mapping

import click

from scaffold.agent.model_access import load_transport_class
from scaffold.cli.commands.processes.supervisor import run_supervisor
from scaffold.cli.commands.processes.worker import run_worker
from scaffold.cli.wiring import repository_here
from scaffold.git.repository import Repository
from scaffold.host.fork.server import serve

PROCESS_MAINS: Mapping[str, Callable[[str, Repository], int]] = {"worker": run_worker, "supervisor": run_supervisor}
"""What its children can be for; each takes the argument that came with the request and returns an exit code."""


@click.command(hidden=True)
@click.argument("line", type=int)
@click.option("--live", is_flag=True, help="Load the way to live models, too.")
def zygote(line: int, *, live: bool) -> int:
    """Fork workers and supervisors for a run, which asks on the descriptor LINE."""
    if live:
        load_transport_class()
    sysconfig.get_config_vars()  # found out once, as the repository is
    repository = repository_here()
    born = serve(socket.socket(fileno=line))
    if born is None:
        return 0
    code = PROCESS_MAINS[born.main](born.argument, repository)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)  # to take an interpreter down in good order would copy the memory that it shares
