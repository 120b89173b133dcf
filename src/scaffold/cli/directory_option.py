"""The option -C of every command: work in another folder."""

import os
from pathlib import Path

import click


def add_directory_option(command: click.Command) -> None:
    """Let a command, and those of a group, take -C, unless they do already."""
    if all("-C" not in parameter.opts for parameter in command.params):
        command.params.append(directory_option())
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        add_directory_option(each)


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


def _change_directory(_context: click.Context, _option: click.Parameter, folder: Path | None) -> None:
    if folder is not None:
        os.chdir(folder)
