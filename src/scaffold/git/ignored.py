"""Find tracked files that a changed .gitignore or .ignore names."""

import os
from collections.abc import Collection, Mapping

from scaffold.core.ids import Commit
from scaffold.git import commits
from scaffold.git.client.command_line import Git

GITIGNORE = ".gitignore"


async def newly_ignored(
    git: Git, base: Commit, ignore_files: Collection[str], paths: Collection[str]
) -> Mapping[str, str]:
    """Return {path: ignore file} for the tracked `paths` that an ignore file names now and did not on the base.

    `git` must have the commit with the ignore files checked out.
    """
    found = dict[str, str]()
    if not paths:
        return found
    if any(each.rpartition("/")[2] == GITIGNORE for each in ignore_files):
        asked = b"".join(os.fsencode(path) + b"\0" for path in paths)
        args = ("check-ignore", "--verbose", "-z", "--no-index", "--stdin")
        records = (await git(*args, stdin=asked, ok=frozenset({0, 1}))).records
        for source, pattern, path in zip(records[::4], records[2::4], records[3::4], strict=True):
            if (
                source in ignore_files
                and not pattern.startswith("!")
                and not await _had_pattern(git, base, source, pattern)
            ):
                found[path] = source
    for source in (each for each in ignore_files if each.rpartition("/")[2] != GITIGNORE):
        name = source.rpartition("/")[2]
        listed = await git("ls-files", "--cached", "--ignored", "-z", f"--exclude-per-directory={name}")
        found |= dict.fromkeys(set(listed.records).intersection(paths), source)
    return found


async def _had_pattern(git: Git, base: Commit, path: str, pattern: str) -> bool:
    text = os.fsdecode(await commits.file_contents(git, base, path) or b"")
    return pattern in (line.strip() for line in text.splitlines())
