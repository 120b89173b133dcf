"""The hidden command `trial-cleaner`: removes the worktree of a trial whose process was killed."""

import os
import sys

import click

from scaffold.cli.wiring import repository_here
from scaffold.host.process.async_runner import run_async
from scaffold.host.user_dirs import user_dirs
from scaffold.run.trial.temporary_checkout import TrialPlace, remove_after_death


@click.command(hidden=True)
@click.argument("name")
def trial_cleaner(name: str) -> int:
    """Wait for the end of standard input, which the trial holds open, then remove what it left."""
    place = TrialPlace(repository_here(), user_dirs().cache, name)
    while os.read(sys.stdin.fileno(), 512):
        pass
    run_async(remove_after_death(place))
    return 0
