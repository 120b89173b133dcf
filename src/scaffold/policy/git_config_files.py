"""Find the files in a workspace that git obeys or runs because its configuration names them.

`include.path = ../.gitconfig` and `filter.NAME.clean = tools/clean.sh` are common. The user's next `git status` obeys
the one and runs the other, outside of any sandbox.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from scaffold.core.errors import GitError
from scaffold.git.checkouts.worktree_metadata import find_checkout
from scaffold.git.client.command_line import LIST_CONFIG, Git
from scaffold.git.client.disabled_programs import ConfigEntry, config_entries, expanded, included_files
from scaffold.policy.shell.reading.readonly_git import any_program_setting
from scaffold.policy.shell.wrappers import module_files, runs_script

HOOKS = "core.hookspath"
ALIAS = "alias."
MODULE_FLAG, CODE_FLAG = "-m", "-c"
_PART = re.compile(r"[^\s'\"`$(){};|&<>=!]+")
"""A part of a command line that may be a path; `$(git rev-parse --show-toplevel)/x` ends with `/x`."""


async def git_config_files(root: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the files and folders in the workspace that git's settings name, at every level from system to worktree.

    They are configuration files, programs, and scripts and modules of interpreters, existing or not, the folder of
    hooks, and the other existing files that commands name.
    """
    top = find_checkout(root) or root
    try:
        listed = await Git(top, environ=environ)(*LIST_CONFIG)
    except GitError:  # git cannot read this repository, so the user's git obeys none of it
        return ()
    return tuple(_paths_inside(root, top, tuple(config_entries(listed.out, top))))


def _paths_inside(root: Path, top: Path, entries: tuple[ConfigEntry, ...]) -> Iterator[Path]:
    """Yield the paths in `root` that git obeys or runs, by its settings in the checkout `top`."""
    files = (each.file for each in entries if each.file)
    named = (*files, *included_files(entries), *(path for each in entries for path in _named_paths(each, top)))
    paths = (Path(os.path.normpath(path)) for path in named)
    return (path for path in dict.fromkeys(paths) if path.is_relative_to(root) and path != root)


def _named_paths(entry: ConfigEntry, top: Path) -> Iterator[Path]:
    """Yield the paths that the value of a setting names for git to run."""
    name = entry.name.casefold()
    if name == HOOKS:
        yield top / expanded(entry.value)
    elif any_program_setting([name]) or (name.startswith(ALIAS) and entry.value.startswith("!")):
        parts = _PART.findall(entry.value)
        for part in parts:
            yield from filter(_is_file, (top / expanded(part), top / part.lstrip("/")))
        yield from (top / expanded(each) for each in _program_paths(parts))


def _program_paths(parts: Sequence[str]) -> Iterator[str]:
    """Yield the paths of the program, and of the script or module of an interpreter; a command could create them."""
    program, *rest = parts or ("",)
    if "/" in program:
        yield program
    # after -c comes code, in which most words with a slash are no programs
    if not runs_script(program.rpartition("/")[2]) or CODE_FLAG in rest:
        return
    for flag, part in pairwise(("", *rest)):
        if flag == MODULE_FLAG:
            # Python looks for modules in the folder where git starts it, the top, before it looks anywhere else.
            yield from module_files(part)
            return
        if "/" in part and not part.startswith("-"):
            yield part
            return


def _is_file(path: Path) -> bool:
    """Return whether a file is there; no OSError for a word that is too long for a path."""
    try:
        return path.is_file()
    except OSError:
        return False
