"""Merges in memory: no work tree, no index, nothing to clean up."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from scaffold.core.ids import Commit, TreeId
from scaffold.core.run_settings import Signature
from scaffold.git.client.command_line import Git
from scaffold.git.commits import commit_tree, is_contained, tree_of

Stage = Literal["base", "ours", "theirs"]
STAGES: Mapping[str, Stage] = {"1": "base", "2": "ours", "3": "theirs"}
REGULAR_MODES = frozenset({"100644", "100755"})
"""The modes of files that are neither links nor submodules."""
CONTENTS = "CONFLICT (contents)"
"""Git's name for a conflict in which both sides changed the same lines of a file, or added the file."""
AUTO_MERGED = "Auto-merging"
HELPER = Signature("Scaffold", "scaffold@localhost")
"""Author of the commits that only lead `merge-tree` to the right base; no ref ever points to them."""


class StagedFile(Struct, frozen=True):
    """One version of a path in conflict: its mode in octal, and the id of its contents in hex."""

    mode: str
    object_id: str


class ConflictedPath(Struct, frozen=True):
    """A path that git could not merge, with its existing versions and git's names for its conflicts."""

    path: str
    stages: Mapping[Stage, StagedFile]
    kinds: tuple[str, ...]

    @property
    def only_contents(self) -> bool:
        """Whether it is a regular file on both sides and only its contents are in conflict."""
        sides = self.stages.get("ours"), self.stages.get("theirs")
        regular = all(each.mode in REGULAR_MODES for each in self.stages.values())
        return None not in sides and regular and set(self.kinds) == {CONTENTS}


class Merged(Struct, frozen=True, tag="merged"):
    """The merge succeeded; `tree` is the id of the result, in hex."""

    tree: str


class Conflicted(Struct, frozen=True, tag="conflicted"):
    """The merge conflicts in `paths` (sorted)."""

    paths: tuple[str, ...]
    tree: TreeId = TreeId("")
    """The result, with conflict markers in the files in conflict."""
    files: tuple[ConflictedPath, ...] = ()
    """The paths in conflict with their versions, in the order of `paths`."""
    auto_merged: tuple[str, ...] = ()
    """The paths that both sides changed and git merged without conflict, in git's order."""


class _Message(Struct, frozen=True):
    """A message of git about a merge: the paths and the type."""

    paths: tuple[str, ...]
    kind: str


async def merge_commits(git: Git, ours: Commit, theirs: Commit) -> Merged | Conflicted:
    """Merge `theirs` into `ours`; raise GitError if they have no common history, or if objects are missing."""
    args = ("merge-tree", "--write-tree", "-z", ours, theirs)
    answer = await git(*args, ok=frozenset({0, 1}))
    if not answer.out:
        # Git also exits with the code of a conflict if an object is missing; running it again raises its error.
        answer = await git(*args)
    tree, *rest = answer.records
    if answer.exit_code == 0:
        return Merged(tree)
    # With -z, an empty record separates the versions in conflict from git's messages.
    staged = list(itertools.takewhile(bool, rest))
    records, messages = iter(rest[len(staged) + 1 :]), list[_Message]()
    # Each message is the number of its paths, the paths, its type and its text.
    for count in records:
        *names, kind, _ = itertools.islice(records, int(count) + 2)
        messages.append(_Message(tuple(names), kind))
    said = tuple(messages)
    files = tuple(_conflicted_paths(staged, said))
    in_conflict = {each.path for each in files}
    auto = dict.fromkeys(path for each in said if each.kind == AUTO_MERGED for path in each.paths)
    return Conflicted(
        paths=tuple(each.path for each in files),
        tree=TreeId(tree),
        files=files,
        auto_merged=tuple(path for path in auto if path not in in_conflict),
    )


async def apply_commit(
    git: Git, commit: Commit, *, parent: Commit, onto: TreeId, identity: Signature
) -> Merged | Conflicted:
    """Apply the change of `commit` to its `parent` on another tree, as a rebase does."""
    # A commit of that tree on the same parent makes the parent the merge base; git 2.39 has no option for it.
    message = "The tree that a commit is applied to\n"
    target = await commit_tree(git, onto, parents=[parent], message=message, author=identity, committer=identity)
    return await merge_commits(git, target, commit)


async def on_base(git: Git, commit: Commit, base: Commit) -> Commit:
    """Return `commit` if it contains `base`, else a commit of its tree on `base`.

    Merging the result with work based on `base` applies only the changes of that work, without its history.
    """
    if await is_contained(git, base, commit):
        return commit
    message, tree = "The tree that work is merged into\n", await tree_of(git, commit)
    return await commit_tree(git, tree, parents=[base], message=message, author=HELPER, committer=HELPER)


def _conflicted_paths(staged: Sequence[str], said: Sequence[_Message]) -> Iterator[ConflictedPath]:
    versions: dict[str, dict[Stage, StagedFile]] = {}
    for record in staged:
        details, _, path = record.partition("\t")
        mode, object_id, stage = details.split()
        versions.setdefault(path, {})[STAGES[stage]] = StagedFile(mode, object_id)
    # A conflict may leave no version in the index, for example a folder that both sides renamed differently.
    for each in said:
        if each.kind.startswith("CONFLICT") and not any(path in versions for path in each.paths):
            versions.update({path: {} for path in each.paths})
    for path in sorted(versions):
        kinds = dict.fromkeys(each.kind for each in said if path in each.paths and each.kind != AUTO_MERGED)
        yield ConflictedPath(path, versions[path], tuple(kinds))
