"""Options of several commands, and what they share."""

import functools
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import ParamSpec, TypeVar

import click

from scaffold.cli.global_options import NO_PAGER, is_pager_off
from scaffold.cli.render.terminal.style import can_draw_on
from scaffold.core.errors import UsageError
from scaffold.host.startup import importing

Given = ParamSpec("Given")
Result = TypeVar("Result")
UNPAGED = ("as_json", "follow", "watch")  # their output is for programs, or goes on
quiet_option = click.option(
    "-q", "--quiet", is_flag=True, help="Print only changes of tasks, errors, questions and the end."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
run_option = click.option("--run", "run_name", metavar="RUN", help="The run; default: the latest.")


def pageable(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Show the output of a command with the user's pager if it is longer than the terminal."""

    @functools.wraps(function)
    def run(*args: Given.args, **options: Given.kwargs) -> Result:
        if any(options.get(name) for name in UNPAGED) or is_pager_off() or not can_draw_on(sys.stdout):
            return function(*args, **options)
        with importing():  # needed only at a terminal
            from scaffold.cli.render.terminal.paged_output import paged
        with paged(sys.stdout):
            return function(*args, **options)

    setattr(run, NO_PAGER, True)  # adds the option --no-pager
    return run


def require_extra(module: str, extra: str) -> None:
    """Raise UsageError if the module of an extra is not installed; imports nothing."""
    if find_spec(module) is None:
        what = f"the extra `{extra}` is not installed"
        raise UsageError(what, f"Install it: `pip install 'ralph-scaffold[{extra}]'`.")
