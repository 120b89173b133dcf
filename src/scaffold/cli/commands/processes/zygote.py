"""The hidden command `zygote`: loads the modules of workers and supervisors, and forks one on each request.

The two have modules of their own: started without a zygote, each loads only what it needs.
"""

import concurrent.futures.thread  # noqa: F401 - asyncio would load it in each child
import os
import socket
import sys
import sysconfig
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import click

from scaffold.agent.model_access import load_transport_class
from scaffold.cli.commands.processes.supervisor import run_supervisor
from scaffold.cli.commands.processes.worker import run_worker
from scaffold.cli.wiring import repository_here
from scaffold.git.repository import Repository
from scaffold.host.process.forked_reapers import reaper_server
from scaffold.host.process.zygote_server import serve
from scaffold.policy.secret.command_environment import command_environment
from scaffold.policy.secret.home import view_of_home
from scaffold.policy.secret.unreadable_files import secret_scan

PROCESS_MAINS: Mapping[str, Callable[[str, Repository], int]] = {"worker": run_worker, "supervisor": run_supervisor}
"""The roles of its children; each takes the argument of the request and returns an exit code."""


@click.command(hidden=True)
@click.argument("line", type=int)
@click.option("--live", is_flag=True, help="Also load the transport to live models.")
def zygote(line: int, *, live: bool) -> int:
    """Fork workers and supervisors for a run, which sends requests on the descriptor LINE."""
    if live:
        load_transport_class()
    sysconfig.get_config_vars()  # computed once, for all children
    # Before the fork: opening a repository runs git, and every child would run it again.
    repository = repository_here()
    # What each sandbox hides and shows of both is kept, and only looked at again where something has changed.
    secret_scan(repository.root).paths()
    view_of_home(Path.home().resolve(), repository.root, command_environment(os.environ))
    with suppress(OSError):
        reaper_server().start()  # one for all children
    born = serve(socket.socket(fileno=line))
    if born is None:
        return 0
    code = PROCESS_MAINS[born.main](born.argument, repository)
    # `_exit` flushes nothing. On a full disk the log stays incomplete; the exit code must not change by it.
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)  # an orderly shutdown of the interpreter would copy shared memory
