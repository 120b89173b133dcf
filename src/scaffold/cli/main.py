"""The commands `scaffold` and `ralph`: errors become two lines and an exit code."""

import errno
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

import click

from scaffold.cli.entry import COMMANDS, RALPH_COMMANDS, VISIBLE, load_command
from scaffold.cli.exit_codes import BROKEN_PIPE, FAILED, INTERRUPTED, OK, USAGE, exit_code
from scaffold.cli.global_options import (
    directory_option,
    join_log_if_any,
    no_pager_option,
    update_options,
    verbose_option,
)
from scaffold.core.errors import EnvironmentNotReady, ScaffoldError
from scaffold.host.startup import importing

EVERYDAY = ("init", "run", "status", "inbox", "review", "land", "stop", "resume", "doctor")
ENDING_OPTIONS = frozenset({"--help", "-h", "--version", "--check-update", "--update"})  # instead of a command
GROUP_FLAGS = frozenset({"--debug", "-v", "--verbose", "--no-pager"})  # of `scaffold` itself, without a value
NARROW_COLUMNS, MIN_HELP_COLUMNS = 60, 20
EXECUTING = frozenset({"run", "resume", "demo", "plan"})  # after an interrupt, `resume` continues their run


class HelpColumns(click.HelpFormatter):
    """Help that fits a narrow terminal, for which click would still take 50 columns."""

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        with importing():
            import shutil
        columns = shutil.get_terminal_size().columns
        narrow = max(columns, MIN_HELP_COLUMNS) if columns < NARROW_COLUMNS else width
        super().__init__(indent_increment, narrow, max_width)

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write options, or commands, with what they do beside them."""
        super().write_dl(list(rows), min(col_max, self.width // 3), col_spacing)


click.Context.formatter_class = HelpColumns  # of every command, also of those that click makes itself


class LazyGroup(click.Group):
    """A command group that imports a command's module only when it is called, so that `--help` stays light."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Without a command, start a conversation at a terminal; elsewhere a run, whose task is on standard input."""
        # While a shell completes, a default command would be wrong: the user is still typing.
        return super().parse_args(ctx, args if ctx.resilient_parsing else _with_default_command(args))

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click calls it so
        """Return the names, the most needed first."""
        return list(VISIBLE)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - likewise
        """Import and return one command; None if there is no such command."""
        return load_command(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the called command; `permissions` and the like after `ralph` are commands, not a task."""
        called = args[1:] if args[:1] == ["ralph"] and args[1:2] and args[1] in RALPH_COMMANDS else args
        if called and called[0] not in COMMANDS and not called[0].startswith("-") and not ctx.resilient_parsing:
            with importing():
                from scaffold.cli.error_text import unknown_command
            raise unknown_command(called[0], self.list_commands(ctx))
        return super().resolve_command(ctx, called)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the everyday commands first, each with its line; the rest by name."""
        with formatter.section("Everyday"):
            formatter.write_dl([(name, COMMANDS[name].summary) for name in EVERYDAY])
        with formatter.section("Advanced"):
            advanced = [name for name in self.list_commands(ctx) if name not in EVERYDAY]
            formatter.write_dl([(name, COMMANDS[name].summary) for name in advanced])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="ralph-scaffold", prog_name="scaffold")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def scaffold_group(*, debug: bool) -> None:
    """Orchestrate coding agents: a model may propose, only evidence makes a fact true.

    Without a command, with options of `run` such as `--model M`: at a terminal a chat that refines a plan and runs it;
    elsewhere `run`, with the task on standard input.
    """


scaffold_group.params += [*update_options(), directory_option(), verbose_option(), no_pager_option()]


def scaffold() -> NoReturn:
    """Run the command `scaffold` and exit."""
    sys.exit(run_command(scaffold_group, sys.argv[1:], prog="scaffold"))


def ralph() -> NoReturn:
    """Run the command `ralph` and exit."""
    args = sys.argv[1:]
    first = _count_group_options(args)
    debug, given = "--debug" in args[:first], [each for each in args[:first] if each != "--debug"]
    asked = args[first:]
    if asked and asked[0] in RALPH_COMMANDS:
        command, asked_of = load_command(asked[0]), [*given, *asked[1:]]
        sys.exit(run_command(command, asked_of, prog=f"ralph {asked[0]}", debug=debug))
    sys.exit(run_command(load_command("ralph"), [*given, *asked], prog="ralph", debug=debug))


def _with_default_command(args: list[str]) -> list[str]:
    first = _count_group_options(args)
    asked = args[first:]
    if asked and (not asked[0].startswith("-") or asked[0] in ENDING_OPTIONS):
        return args
    if not sys.stdin.isatty():
        return [*args[:first], "run", *asked]
    # Standard output may be None: a daemon has none. With options of a chat, the chat says that it needs a terminal.
    is_attended = sys.stdout is not None and sys.stdout.isatty()
    return [*args[:first], "chat", *asked] if is_attended or asked else args


def _count_group_options(args: Sequence[str]) -> int:
    # Only the first arguments: behind a command, the same options are its own.
    count = 0
    while count < len(args) and (args[count] in GROUP_FLAGS or args[count].startswith("-C")):
        count += 2 if args[count] == "-C" else 1
    return min(count, len(args))


def _continue_hint(args: Sequence[str], prog: str) -> str:
    if prog == "ralph":
        return "Continue with `ralph -c`."
    named = args[_count_group_options(args) :][:1]
    executes = not named or named[0] in EXECUTING
    return "Continue with `scaffold resume`." if executes else "Repeat the command to go on."


def run_command(command: click.Command, args: Sequence[str], *, prog: str, debug: bool = False) -> int:
    """Run a command and return its exit code; print errors in two lines, tracebacks only with `--debug`."""
    debug = debug or args[:1] == ["--debug"]  # parsing itself may fail
    if sys.stdin is None:  # closed before this process began; to all commands it is as empty as the null device
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - for as long as the process lives
    join_log_if_any()
    try:
        # `ralph` is a command of the group; its usage line must not read `ralph ralph`
        result = command.main(list(args), prog_name="" if args[:1] == [prog] else prog, standalone_mode=False)
    except click.exceptions.Exit as ending:
        return ending.exit_code
    except (click.Abort, KeyboardInterrupt):
        return print_error("interrupted", _continue_hint(args, prog), INTERRUPTED)
    except click.ClickException as problem:
        return _report_click_error(problem, prog)
    except (BrokenPipeError, SystemExit) as ending:  # click exits when the reader of its output has gone
        has_completed = isinstance(ending, SystemExit) and ending.code == 0  # and after it has completed words
        return OK if has_completed else _drop_output()
    except Exception as error:  # noqa: BLE001 - the commands' boundary: no traceback without `--debug`
        if debug:
            with importing():
                from scaffold.cli.error_text import redacted_traceback
            click.echo(redacted_traceback(error), nl=False, err=True)
        return _report_error(error, prog)
    return result if isinstance(result, int) else 0


def _drop_output() -> int:
    # Python would fail again when it flushes the buffered output at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE


def _report_click_error(problem: click.ClickException, prog: str) -> int:
    if isinstance(problem, click.exceptions.NoArgsIsHelpError):
        _print_redacted(problem.format_message())
        return USAGE
    context = problem.ctx if isinstance(problem, click.UsageError) else None
    asked = context.command_path if context else prog
    if isinstance(problem, click.NoSuchOption):
        close = f"Did you mean `{problem.possibilities[0]}`? " if problem.possibilities else ""
        return print_error(f"there is no option `{problem.option_name}`", f"{close}Try `{asked} --help`.", USAGE)
    return print_error(problem.format_message(), f"Try `{asked} --help`.", USAGE)


def _report_error(error: Exception, prog: str) -> int:
    if isinstance(error, OSError) and (known := _os_error(error)) is not None:
        return print_error(*known)
    if not isinstance(error, ScaffoldError):
        what = f"unexpected {type(error).__name__}: {error}"
        return print_error(what, f"This is a bug: please report the output of `{prog} --debug`.", FAILED)
    if isinstance(error, EnvironmentNotReady):
        _print_redacted("\n".join(f"    {line}" for line in error.output.splitlines()))
    return print_error(error.what, error.fix, exit_code(error))


def _os_error(error: OSError) -> tuple[str, str, int] | None:
    # Errors of the machine, such as a full disk, are not reported as bugs; None for any other.
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            where = error.filename
            if not where:  # it may be about buffered output, which is dropped then
                try:
                    sys.stdout.flush()
                except OSError:
                    _drop_output()
                    where = "standard output"
            what = f"the disk is full ({where})" if where else "the disk is full"
            return what, "Free some space, then continue.", FAILED
        case errno.EACCES | errno.EPERM | errno.EROFS if error.filename is not None:
            return (
                f"{error.filename} cannot be used: {error.strerror}",
                "Check its permissions and whether its file system is read-only, then repeat the command.",
                FAILED,
            )
        case errno.ENOENT if error.filename is None:  # only `getcwd` fails without a file name
            fix = "Change to an existing directory, then repeat the command."
            return "the current directory no longer exists", fix, USAGE
        case _:
            return None


def print_error(what: str, fix: str, code: int) -> int:
    """Print what went wrong and what to do next to standard error, without secrets; return `code`."""
    _print_redacted(f"error: {what}\n  {fix}" if fix else f"error: {what}")
    return code


def _print_redacted(text: str) -> None:
    with importing():  # only commands that fail need it
        from scaffold.cli.error_text import print_redacted
    print_redacted(text)
