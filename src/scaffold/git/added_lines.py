"""List the lines that a change adds to each file, read from git's patch without context, and count those it changes."""

import os
import re
from collections.abc import Sequence

from scaffold.core.ids import Commit
from scaffold.git.client.command_line import Git
from scaffold.git.commits import DIFF_OPTIONS, WITHOUT_ATTRIBUTES

_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NEW_FILE = b"+++ b/"
NUMSTAT_TABS = 2
"""The tabs in a line of `--numstat`: added, deleted, path."""


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


async def changed_line_count(git: Git, old: Commit, new: Commit) -> int:
    """Return the number of added and deleted lines of text; a renamed file's unchanged lines do not count."""
    args = ("diff-tree", "-r", "-z", "--numstat", *DIFF_OPTIONS, old, new)
    records = (await git(*args, env=WITHOUT_ATTRIBUTES)).records
    # The paths of a renamed file are separate records; a binary file has `-` for its counts.
    counts = (record.split("\t")[:2] for record in records if record.count("\t") >= NUMSTAT_TABS)
    return sum(int(number) for pair in counts for number in pair if number.isdecimal())
