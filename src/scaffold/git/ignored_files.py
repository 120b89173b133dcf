"""Find files that git ignores, and tracked files that a changed ignore file names."""

import os
from collections.abc import AsyncIterator, Collection, Mapping, Sequence

from msgspec import Struct

from scaffold.core.ids import Commit
from scaffold.core.plan import Finding, Plan, forced_files
from scaffold.git import commits
from scaffold.git.client.command_line import Git
from scaffold.plan.text.right_forms import EXAMPLES

GITIGNORE = ".gitignore"
WILDCARDS = frozenset("*?[")
"""Characters that make a pattern match other names than itself."""


def pattern_lines(content: bytes) -> tuple[str, ...]:
    """Return the patterns of a file like `.gitignore`: no comments, no blank lines, no trailing spaces.

    As in git, a byte order mark at the start is skipped. Bytes that are not UTF-8 match nothing.
    """
    text = content.decode("utf-8-sig", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
    lines = (line.rstrip("\r") for line in text.split("\n"))
    return tuple(_trim_line(line) for line in lines if line.strip() and not line.startswith("#"))


async def ignored_files(git: Git, patterns: Sequence[str], *, skipped: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the files of the checkout that match the patterns, are not tracked, and that git ignores, sorted.

    A later pattern overrides an earlier one, as in `.gitignore`. Paths are relative to the top; nothing below the
    folders `skipped` or in other repositories is listed.
    """
    if not patterns:
        return ()
    left_out = (f":(top,exclude,literal){folder}" for folder in skipped)
    # Passed as a file because the length of arguments is limited.
    args = ("ls-files", "-z", "--others", "--ignored", "--exclude-from=/dev/stdin", "--", ":/", *left_out)
    listed = await git(*args, stdin="\n".join((*patterns, "")).encode())
    # git lists a nested repository as a folder (`sub/`)
    files = [path for path in listed.records if not path.endswith("/")]
    if not files:
        return ()
    # A file that the repository does not ignore could be committed by mistake, so it is left to the user.
    # `--no-index`: otherwise a file named `*.json` counts as tracked if `a.json` is. None of these files is tracked.
    return tuple(sorted([path async for path, _ in _matching_rules(git, files, "--no-index")]))


def _trim_line(line: str) -> str:
    """Return the line without trailing spaces; a backslash keeps one space, as in `.gitignore`."""
    short = line.rstrip(" ")
    return f"{short} " if short.endswith("\\") and len(short) < len(line) else short


class IgnoreRule(Struct, frozen=True):
    """A rule by which git ignores a path."""

    file: str
    line: str
    pattern: str

    def __str__(self) -> str:
        """Return it for people."""
        return f"`{self.pattern}` in {self.file}, line {self.line}"


async def ignoring_rules(git: Git, paths: Collection[str]) -> Mapping[str, IgnoreRule]:
    """Return {path: rule} for those of the paths that git ignores; empty outside a repository.

    Tracked files are not ignored, whatever the rules.
    """
    return {path: rule async for path, rule in _matching_rules(git, paths)}


async def _matching_rules(git: Git, paths: Collection[str], *options: str) -> AsyncIterator[tuple[str, IgnoreRule]]:
    if not paths:
        return
    # git reads these as pathspecs: without `./`, a name like `:(x` has a meaning.
    asked = b"".join(b"./" + os.fsencode(path) + b"\0" for path in paths)
    args = ("check-ignore", "--verbose", "-z", *options, "--stdin")
    # Exit code 1: none of the paths is ignored.
    records = (await git(*args, stdin=asked, ok=frozenset({0, 1, 128}))).records
    for file, line, pattern, path in zip(records[::4], records[1::4], records[2::4], records[3::4], strict=False):
        if not pattern.startswith("!"):
            yield path.removeprefix("./"), IgnoreRule(file, line, pattern)


async def ignored_declarations(git: Git, plan: Plan) -> tuple[Finding, ...]:
    """Return an error for each file that a plan declares and git ignores, so that it would not be part of the work.

    None if the plan also changes the rule, or requires the file by `must_exist`: then it is added as by `git add -f`.
    """
    changed = [entry for action in plan.actions for entry in action.files]
    declared = [
        (goal, action, entry, start)
        for goal in plan.goals
        for action in goal.actions
        for entry in dict.fromkeys(action.files)
        if (start := _literal_start(entry)) and entry not in forced_files(action.files, action.contract)
    ]
    rules = await ignoring_rules(git, {start for *_, start in declared})
    # A folder may be ignored and have tracked files.
    kept = (await git("ls-files", "-z", "--", *(f":(top,literal){path}" for path in rules))).records if rules else ()
    return tuple(
        Finding(
            code="ignored-file",
            severity="error",
            goal=goal.name,
            action=action.key,
            message=f"git ignores `{entry}` of action `{action.key}`, by {rule}: it would not be part of the work",
            fix="Change that rule, or declare the file to be added nevertheless: also list it in `must_exist` of the "
            "action's contract.",
            example=EXAMPLES["ignored-file"],
        )
        for goal, action, entry, start in declared
        if (rule := rules.get(start)) and rule.file not in changed and not any(each.startswith(start) for each in kept)
    )


def _literal_start(entry: str) -> str:
    """Return the path that an entry of `files` begins with: all of it, or the folder before its first wildcard."""
    path = entry.removeprefix("./")
    first = min((path.find(mark) for mark in WILDCARDS if mark in path), default=len(path))
    return path if first == len(path) else path[: path.rfind("/", 0, first) + 1]


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
        async for path, rule in _matching_rules(git, paths, "--no-index"):
            if rule.file in ignore_files:
                text = os.fsdecode(await commits.file_contents(git, base, rule.file) or b"")
                if rule.pattern not in (line.strip() for line in text.splitlines()):
                    found[path] = rule.file
    for source in (each for each in ignore_files if each.rpartition("/")[2] != GITIGNORE):
        name = source.rpartition("/")[2]
        listed = await git("ls-files", "--cached", "--ignored", "-z", f"--exclude-per-directory={name}")
        found |= dict.fromkeys(set(listed.records).intersection(paths), source)
    return found
