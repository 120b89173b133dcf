"""The options of every command: -C, which works in another folder, and --verbose; and --no-pager of some."""

import os
from collections.abc import Callable
from pathlib import Path

import click

from scaffold.host.startup import importing

LOG_VARIABLE = "SCAFFOLD_VERBOSE_LOG"  # the file for the lines of child processes
NO_PAGER = "scaffold.no_pager"  # the option's key in a command's context


def add_global_options(command: click.Command) -> None:
    """Add the options of every command to a command and its subcommands, unless they have them."""
    # Not inherited from `scaffold`: click keeps the option that the first context of a command has made.
    command.context_settings.setdefault("help_option_names", ["-h", "--help"])
    if all("-C" not in parameter.opts for parameter in command.params):
        command.params += [directory_option(), verbose_option()]
        if command.callback is not None and getattr(command.callback, NO_PAGER, False):
            command.params.append(no_pager_option())
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        add_global_options(each)


def directory_option() -> click.Option:
    """Return the option -C. It is handled before other options, whose paths are relative to the folder."""
    return click.Option(
        ["-C"],
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        metavar="DIR",
        help="Work in this folder, as if started there.",
        callback=_change_directory,
        is_eager=True,
        expose_value=False,
    )


def verbose_option() -> click.Option:
    """Return the option --verbose."""
    return click.Option(
        ["-v", "--verbose"],
        is_flag=True,
        help="Log git commands, processes and requests, with their times, on standard error.",
        callback=_begin_log,
        is_eager=True,
        expose_value=False,
    )


def update_options() -> list[click.Parameter]:
    """Return the options that look for a newer release, and that install it; both end the command."""
    return [
        _ending_option("--check-update", _check_update, "Say whether there is a newer release."),
        _ending_option("--update", _install_update, "Install the newest release, by what installed this one."),
    ]


def _check_update() -> int:
    with importing():
        from scaffold.cli.update import check_update
    return check_update()


def _install_update() -> int:
    with importing():
        from scaffold.cli.update import update
    return update()


def _ending_option(name: str, run: Callable[[], int], text: str) -> click.Option:
    def end(ctx: click.Context, param: click.Parameter, value: object) -> None:  # noqa: ARG001 - click calls it so
        if value and not ctx.resilient_parsing:
            ctx.exit(run())

    return click.Option([name], is_flag=True, help=text, callback=end, is_eager=True, expose_value=False)


def no_pager_option() -> click.Option:
    """Return the option --no-pager."""
    return click.Option(
        ["--no-pager"],
        is_flag=True,
        help="Print long output at once.",
        callback=_note_no_pager,
        is_eager=True,
        expose_value=False,
    )


def is_pager_off() -> bool:
    """Return whether the command was called with --no-pager."""
    context = click.get_current_context(silent=True)
    return bool(context is not None and context.meta.get(NO_PAGER))


def shared_log() -> Path | None:
    """Return the file that the processes of a command with --verbose log to; None without one."""
    return Path(name) if (name := os.environ.get(LOG_VARIABLE)) is not None else None


def join_log_if_any() -> None:
    """Log to the file of the command with --verbose that started this process, if one did."""
    if (log := shared_log()) is not None:
        with importing():
            from scaffold.cli.verbose_log import join_log
        join_log(log)


def log_work_in(folder: Path) -> None:
    """Keep the secrets of `folder`, in which the command works, out of the log of --verbose, if there is one."""
    if shared_log() is not None:
        with importing():
            from scaffold.cli.verbose_log import work_elsewhere
        work_elsewhere(folder)


def _change_directory(_context: click.Context, _option: click.Parameter, folder: Path | None) -> None:
    if folder is not None:
        os.chdir(folder)


def _begin_log(context: click.Context, _option: click.Parameter, given: bool) -> None:
    if given and not context.resilient_parsing and shared_log() is None:
        with importing():
            from scaffold.cli.verbose_log import begin_log
        os.environ[LOG_VARIABLE] = str(begin_log())


def _note_no_pager(context: click.Context, _option: click.Parameter, given: bool) -> None:
    if given:
        context.meta[NO_PAGER] = True
