"""The files of a folder that agents read or run: scripts of hooks, skills, roles and commands."""

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from scaffold.host.startup import lazy_import
from scaffold.policy.trust_decision import COMMAND_FOLDER, ROLE_FOLDER, SCRIPT_FOLDER, SKILL_FILE, SKILL_FOLDERS

SCRIPT_NAMES = "scaffold.extensions.hooks.hook_settings:script_names"
"""Takes the content of a settings file, the home and the folder; imported if a folder has such a file."""
HOOK_SETTINGS = (".claude/settings.json", ".claude/settings.local.json")
MAX_FILES = 1_000
"""Of each folder; further ones have no effect."""
MAX_DEPTH = 6


def extension_files(top: Path) -> Iterator[str]:
    """Yield the paths, relative to `top`, of its skills, roles, commands and files of hooks, in a fixed order."""
    if (top / ".claude").is_dir():
        yield from islice(_files_below(top, SCRIPT_FOLDER), MAX_FILES)
        for folder in (ROLE_FOLDER, COMMAND_FOLDER):
            yield from markdown_files(top, folder)
    for folder in SKILL_FOLDERS:
        yield from skill_files(top, folder)


def skill_files(top: Path, folder: str) -> Iterator[str]:
    """Yield the paths, relative to `top`, of the skills in one of its folders."""
    for name in _folder_names(top / folder):
        if os.path.lexists(top / folder / name / SKILL_FILE):
            yield f"{folder}/{name}/{SKILL_FILE}"


def markdown_files(top: Path, folder: str) -> Iterator[str]:
    """Yield the paths, relative to `top`, of the Markdown files below one of its folders."""
    yield from (name for name in islice(_files_below(top, folder), MAX_FILES) if name.endswith(".md"))


def named_script_files(top: Path, contents: Iterator[bytes]) -> Iterator[str]:
    """Yield the paths, relative to `top`, of existing files that hooks in these settings run."""
    for content in contents:
        # Most settings have no hooks.
        if b"hooks" not in content:
            continue
        for name in lazy_import(SCRIPT_NAMES)(content, home=str(Path.home()), top=str(top)):
            if (top / name).is_file():
                yield name


def _files_below(top: Path, folder: str, depth: int = 0) -> Iterator[str]:
    """Yield the files below a folder, in the order of their names; at most MAX_FILES, in MAX_DEPTH levels."""
    for name in _folder_names(top / folder):
        path = f"{folder}/{name}"
        if (top / path).is_dir():
            # A link to a folder above would never end.
            if depth < MAX_DEPTH and name != ".git":
                yield from _files_below(top, path, depth + 1)
        else:
            yield path


def _folder_names(folder: Path) -> list[str]:
    """Return the names in a folder, sorted; none if it cannot be read."""
    try:
        return sorted(os.listdir(folder))[:MAX_FILES]  # noqa: PTH208 - names, quickly
    except OSError:
        return []
