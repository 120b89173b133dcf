"""Late imports are statements that checks read; only the table of entry points names modules in strings."""

import re
from functools import cache
from importlib.util import find_spec

import click

from scaffold.cli.entry import COMMANDS, load_command
from support.source_tree import SourceFile, source_files

ENTRY = "cli/entry.py"
NAMED = re.compile(r'"(scaffold(?:\.\w+)+)(?::\w+)?"')
PACKAGE_DATA = frozenset({"scaffold.agent", "scaffold.config", "scaffold.pages", "scaffold.web"})
"""Packages whose files, which are no modules, are read with `importlib.resources`."""


@cache
def is_module(name: str) -> bool:
    """Return whether there is a module or a package of this name."""
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def named_modules(file: SourceFile) -> list[str]:
    """List the modules of ours that a file names in strings."""
    return [name for name in NAMED.findall(file.text) if name not in PACKAGE_DATA and is_module(name)]


def test_every_entry_is_a_command_of_the_command_line() -> None:
    assert [name for name, entry in COMMANDS.items() if not entry.target.startswith("scaffold.cli.commands.")] == []
    assert [name for name in COMMANDS if not isinstance(load_command(name), click.Command)] == []


def test_only_the_table_of_entry_points_names_modules_in_strings() -> None:
    found = {file.module: names for file in source_files() if (names := named_modules(file))}
    assert len(found.pop(ENTRY)) == len(COMMANDS)
    assert found == {}


def test_a_planted_name_is_found_and_other_strings_are_accepted() -> None:
    planted = [SourceFile("a.py", f'"scaffold.host.startup{name}"') for name in ("", ":relax_gc")]
    others = [SourceFile("a.py", f'"{text}"') for text in ("scaffold.yaml", ".scaffold.yaml", "scaffold")]
    assert [file for file in [*planted, *others] if named_modules(file)] == planted
