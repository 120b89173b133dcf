"""List the lines that a change adds to each file, read from git's patch without context."""

import os
import re
from collections.abc import Sequence

from scaffold.core.ids import Commit
from scaffold.git.client.command_line import Git
from scaffold.git.commits import DIFF_OPTIONS, WITHOUT_ATTRIBUTES

_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NEW_FILE = b"+++ b/"


async def added_lines(git: Git, old: Commit, new: Commit, suffixes: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return {path: numbers of the lines that are new or changed} for files with these suffixes.

    Files without such lines are left out. Deleted lines, and lines that moved with their file, do not count.
    """
    return await _read_added_lines(git, old, new, [f":(top,glob)**/*{suffix}" for suffix in suffixes])


async def added_lines_of(git: Git, old: Commit, new: Commit, paths: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return the added lines, as `added_lines` does, for these paths."""
    return await _read_added_lines(git, old, new, [f":(top,literal){path}" for path in paths])


async def _read_added_lines(git: Git, old: Commit, new: Commit, pathspecs: Sequence[str]) -> dict[str, tuple[int, ...]]:
    # Code may contain a NUL, in a comment of JavaScript for example, and git would take it for binary.
    form = ("-p", "--unified=0", "--text", "--src-prefix=a/", "--dst-prefix=b/", *DIFF_OPTIONS)
    answer = await git("diff-tree", "-r", "-z", *form, old, new, "--", *pathspecs, env=WITHOUT_ATTRIBUTES)
    # Contents are skipped by their length, because they may look like a header.
    found = dict[str, list[int]]()
    lines = iter(answer.out.split(b"\n"))
    path = ""
    for line in lines:
        if line.startswith(_NEW_FILE):
            # Git ends a name that contains a blank with a tab.
            path = os.fsdecode(line.removeprefix(_NEW_FILE).removesuffix(b"\t"))
        elif hunk := _HUNK.match(line):
            removed, first, added = (int(part) if part is not None else 1 for part in hunk.groups())
            found.setdefault(path, []).extend(range(first, first + added))
            left = removed + added
            while left and (content := next(lines, None)) is not None:
                # The note about a missing newline at the end of a file is not counted as a line.
                left -= not content.startswith(b"\\")
    return {path: tuple(numbers) for path, numbers in found.items() if numbers}
