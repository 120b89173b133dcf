"""Merges in memory: no work tree, no index, nothing to clean up."""

import itertools
from collections.abc import Iterator

from msgspec import Struct

from scaffold.core.ids import Commit
from scaffold.git.command import Git


class Merged(Struct, frozen=True, tag="merged"):
    """The merge succeeded; `tree` is the id of the result, in hex."""

    tree: str


class Conflicted(Struct, frozen=True, tag="conflicted"):
    """The merge conflicts in `paths` (sorted); `messages` are git's messages, one line each."""

    paths: tuple[str, ...]
    messages: tuple[str, ...]


async def merge_commits(git: Git, ours: Commit, theirs: Commit) -> Merged | Conflicted:
    """Merge `theirs` into `ours`; raise GitError if they have no common history."""
    answer = await git("merge-tree", "--write-tree", "-z", "--name-only", ours, theirs, ok=frozenset({0, 1}))
    tree, *rest = answer.records
    if answer.exit_code == 0:
        return Merged(tree)
    # With -z an empty record ends the paths; git's messages follow it.
    paths = tuple(itertools.takewhile(bool, rest))
    return Conflicted(paths, tuple(_messages(iter(rest[len(paths) + 1 :]))))


def _messages(records: Iterator[str]) -> Iterator[str]:
    """Read `number of paths, paths..., type, message` until the records end."""
    for count in records:
        *_, message = itertools.islice(records, int(count) + 2)
        yield message.strip()
