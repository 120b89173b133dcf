"""The commands `scaffold` and `ralph`: loaded late; every error becomes two lines and an exit code."""

import errno
import os
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

import click

from scaffold.cli.exit_codes import BROKEN_PIPE, FAILED, INTERRUPTED, USAGE, exit_code
from scaffold.cli.lazy_commands import COMMANDS, REDACT, REDACTED_TRACEBACK, load_command
from scaffold.cli.request import is_piped
from scaffold.core.errors import ScaffoldError
from scaffold.host.lazy_import import lazy_import

EVERYDAY = ("init", "run", "status", "inbox", "stop", "resume", "doctor")
GROUP_OPTIONS = frozenset({"--help", "-h", "--version", "--debug"})
"""Options that stand before a command, or in its place."""
HIDDEN = ("chat", "background", "worker", "supervisor", "zygote", "subagent")


class LazyGroup(click.Group):
    """A command group that imports a command's module only when it is called, so that `--help` stays light."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take a call without a command for a request: from a person a talk about it, from a pipe all of it."""
        return super().parse_args(ctx, _with_default_command(args))

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click calls it so
        """Return the names in the order people need them."""
        return [name for name in COMMANDS if name not in HIDDEN]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - likewise
        """Import and return one command; None if there is no such command."""
        return load_command(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is called; `ralph permissions` is no task."""
        called = args[1:] if args[:1] == ["ralph"] and _asks_for_permissions(args[1:]) else args
        return super().resolve_command(ctx, called)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the everyday commands first, each with its line; the rest by name."""
        with formatter.section("Everyday"):
            formatter.write_dl([(name, SUMMARIES[name]) for name in EVERYDAY])
        with formatter.section("Advanced"):
            advanced = [name for name in self.list_commands(ctx) if name not in EVERYDAY]
            formatter.write_dl([(name, SUMMARIES[name]) for name in advanced])


SUMMARIES: Mapping[str, str] = {
    "init": "Look at this repository and write a commented configuration.",
    "run": "Plan a task and carry it out: agents work, evidence decides, what passes lands.",
    "status": "Show a run: goals, actions, evidence, what waits.",
    "inbox": "Show what waits for you: consents and questions.",
    "attach": "Watch a run that goes on in the background; Ctrl-C leaves it alone.",
    "stop": "Stop a run or a goal in good order, or an action for good; nothing is lost.",
    "resume": "Go on with an interrupted or paused run, or a paused goal.",
    "doctor": "Check this machine and repository, and say how to mend what is missing.",
    "plan": "Turn a task into a plan file; check, explain, compare and simulate plans.",
    "goals": "List the goals of a run with what holds and what is missing.",
    "tasks": "Show the actions of a run as a tree.",
    "agents": "Show every process of a run: what it is at, what it costs.",
    "logs": "Show what the agents of an action said and did.",
    "path": "Print where the agent of an action works just now.",
    "send": "Tell the agent of an action something; it reads it before its next request.",
    "diff": "Show what an action or a run changed.",
    "contract": "Show what must be true before an action counts as done.",
    "baseline": "Show how the gates did before the work, or reset that.",
    "approve": "Allow what an agent waits for.",
    "reject": "Refuse what an agent waits for; it reads your reason.",
    "answer": "Answer an agent's question.",
    "retry": "Give a failed action, goal or run another chance.",
    "pause": "Start nothing new; what runs finishes.",
    "cancel": "End a run or a goal for good; what landed stays, what did not stays pinned.",
    "cleanup": "Remove what ended and interrupted runs left; unlanded work is pinned first.",
    "salvage": "List work that did not land, or make a branch of it.",
    "purge": "Remove Scaffold's state of this repository, or all of yours.",
    "config": "Print every setting with its value and where it comes from.",
    "trust": "See what a folder's own configuration would do, and let it count.",
    "demo": "Watch a whole run on a sample project, without a key.",
    "permissions": "Say what agents may do: `permissions check -- COMMAND`.",
    "ralph": "Talk to one agent (the same as the command `ralph`).",
}


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="ralph-scaffold", prog_name="scaffold")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def scaffold_group(*, debug: bool) -> None:
    """Orchestrate coding agents: a model may propose, only evidence makes a fact true."""


def scaffold() -> NoReturn:
    """Run the command `scaffold` and exit."""
    sys.exit(run_command(scaffold_group, sys.argv[1:], prog="scaffold"))


def ralph() -> NoReturn:
    """Run the command `ralph` and exit."""
    args = sys.argv[1:]
    debug = args[:1] == ["--debug"]
    asked = args[debug:]
    if _asks_for_permissions(asked):
        sys.exit(run_command(load_command("permissions"), asked[1:], prog="ralph permissions", debug=debug))
    sys.exit(run_command(load_command("ralph"), asked, prog="ralph", debug=debug))


def _with_default_command(args: list[str]) -> list[str]:
    """Return the arguments of `scaffold` with the command that is meant where none is named."""
    debug = args[:1] == ["--debug"]
    asked = args[debug:]
    if asked and (not asked[0].startswith("-") or asked[0] in GROUP_OPTIONS):
        return args
    if is_piped(sys.stdin):
        return [*args[:debug], "run", *asked]
    return [*args[:debug], "chat", *asked] if _is_attended() else args


def _is_attended() -> bool:
    """Tell whether a person types, and reads what is said."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


def _asks_for_permissions(args: Sequence[str]) -> bool:
    """Tell whether what follows `ralph` is its one command, and no task."""
    return list(args[:1]) == ["permissions"]


def run_command(command: click.Command, args: Sequence[str], *, prog: str, debug: bool = False) -> int:
    """Run a command and return its exit code; errors are told in two lines, tracebacks only with `--debug`."""
    debug = debug or args[:1] == ["--debug"]
    try:
        # `ralph` is a command of the group, and not to be called `ralph ralph`
        result = command.main(list(args), prog_name="" if args[:1] == [prog] else prog, standalone_mode=False)
    except click.exceptions.Exit as ending:
        return ending.exit_code
    except (click.Abort, KeyboardInterrupt):
        return print_error(
            "interrupted", f"Go on with `{'ralph -c' if prog == 'ralph' else 'scaffold resume'}`.", INTERRUPTED
        )
    except click.ClickException as problem:
        return _report_click_error(problem, prog)
    except (BrokenPipeError, SystemExit):  # click exits by itself when whoever reads has gone
        _drop_output()
        return BROKEN_PIPE
    except Exception as error:  # noqa: BLE001 - the commands' boundary: nobody is shown a traceback unasked
        if debug:
            click.echo(lazy_import(REDACTED_TRACEBACK)(error), nl=False, err=True)
        return _report_error(error, prog)
    return result if isinstance(result, int) else 0


def _drop_output() -> None:
    """Let what standard output still holds go nowhere, or Python fails once more when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report_click_error(problem: click.ClickException, prog: str) -> int:
    if isinstance(problem, click.exceptions.NoArgsIsHelpError):
        click.echo(lazy_import(REDACT)(problem.format_message()), err=True)
        return USAGE
    context = problem.ctx if isinstance(problem, click.UsageError) else None
    asked = context.command_path if context else prog
    return print_error(problem.format_message(), f"Try `{asked} --help`.", USAGE)


def _report_error(error: Exception, prog: str) -> int:
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        if error.filename is None:
            _drop_output()
        return print_error(
            f"the disk is full ({error.filename or 'standard output'})", "Free some space, then go on.", FAILED
        )
    if isinstance(error, FileNotFoundError) and error.filename is None:  # only asking where we are names no file
        return print_error(
            "the current directory is gone", "Change to one that is there, then repeat the command.", USAGE
        )
    if not isinstance(error, ScaffoldError):
        what = f"unexpected {type(error).__name__}: {error}"
        return print_error(what, f"This is a mistake of ours: please report what `{prog} --debug` says.", FAILED)
    return print_error(error.what, error.fix, exit_code(error))


def print_error(what: str, fix: str, code: int) -> int:
    """Print what went wrong and what to do next to standard error, without secrets; return `code`."""
    lines = f"error: {what}\n  {fix}" if fix else f"error: {what}"
    click.echo(lazy_import(REDACT)(lines), err=True)
    return code
