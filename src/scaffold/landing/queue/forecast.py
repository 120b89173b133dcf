"""Forecast which candidates will conflict, by merging them in memory, pair by pair."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import combinations
from pathlib import Path

from scaffold.core.errors import GitError
from scaffold.core.ids import AttemptId, Commit
from scaffold.core.model import Attempt
from scaffold.core.run_settings import WriteBack
from scaffold.git.client.command_line import Git
from scaffold.git.commits import is_contained
from scaffold.git.trees.merge import Conflicted, Merged, merge_commits, on_base
from scaffold.git.trees.tree_file import private_index
from scaffold.landing.conflicts.resolution import IsUnion, read_versions, resolve_versions
from scaffold.landing.queue.arrangement import Conflicts
from scaffold.run.task_list import own_changed_paths

MAX_KNOWN = 2_000
MERGED_BYTES = 60_000
"""The limit for merging file by file in one call, some tenths of a second; the other pairs follow in the next call."""
MAX_BYTES = 500_000
"""If the files in conflict of a pair are larger in total, git's conflicts stand."""
Pair = frozenset[Commit]
Bases = tuple[Commit, Commit]
"""The commits on which the first and the second of a pair were made."""


class Forecaster:
    """Merges each pair of commits once, and caches the `most` results that were asked for last.

    Merging file by file is slow, so each call does it for a few pairs; until its turn, a pair counts as conflicting.
    """

    def __init__(
        self,
        git: Git,
        *,
        folder: Path,
        is_union: IsUnion,
        rebased: bool = False,
        listed: WriteBack | None = None,
        most: int = MAX_KNOWN,
    ) -> None:
        """`folder` is for a temporary index; `is_union` returns whether the settings merge a path as a union.

        `rebased`: the run was carried over to another base, so its work has several bases. `listed` is the list of
        tasks, which is merged task by task and never conflicts.
        """
        self._listed = listed
        self._rebased = rebased
        self._most = most
        self._git = git
        self._folder = folder
        self._is_union = is_union
        self._known: dict[Pair, tuple[str, ...]] = {}
        self._by_git_alone: dict[Pair, Conflicted] = {}
        """The pairs that are not merged file by file yet."""
        self._paths: dict[Commit, frozenset[str]] = {}

    async def conflicts(
        self, candidates: Sequence[Attempt], tip: Commit, *, running: Sequence[Attempt] = ()
    ) -> Conflicts:
        """Return for each candidate the others that it conflicts with, and in which paths, if both land on `tip`.

        A conflict that the queue's programs resolve does not count; a pair that git cannot merge does. Candidates are
        also compared with the commits of `running` attempts, but those not with each other.
        """
        waiting = {each.id for each in candidates}
        heads = {each.id: each.head_sha for each in (*candidates, *running) if each.head_sha is not None}
        paths = {each.id: await self.paths(each) for each in (*candidates, *running)}
        self._paths = {each: self._paths[each] for each in heads.values() if each in self._paths}
        touching = (each for each in combinations(heads, 2) if not waiting.isdisjoint(each))
        pairs = [each for each in touching if _may_conflict(*(paths[one] for one in each))]
        bases = {each.id: each.base_sha for each in (*candidates, *running)}
        found = await self._forecast_pairs(
            [(heads[one], heads[other], (bases[one], bases[other])) for one, other in pairs], tip
        )
        result: dict[AttemptId, dict[AttemptId, tuple[str, ...]]] = {each: {} for each in heads}
        for one, other in pairs:
            shared = tuple(sorted(paths[one] & paths[other] or paths[one] | paths[other]))
            if in_conflict := found.get(frozenset((heads[one], heads[other])), shared):
                result[one][other] = result[other][one] = in_conflict
        return result

    async def between(self, one: Commit, other: Commit, tip: Commit, *, bases: Bases) -> tuple[str, ...]:
        """Return the paths in which two commits conflict that were made on `bases`.

        Empty if they merge, programs can resolve it, or one of them was purged.
        """
        return (await self._forecast_pairs([(one, other, bases)], tip)).get(frozenset((one, other)), ())

    async def _forecast_pairs(
        self, pairs: Sequence[tuple[Commit, Commit, Bases]], tip: Commit
    ) -> Mapping[Pair, tuple[str, ...]]:
        # Pairs that git cannot merge are left out: objects may be missing, which is found out when they land.
        new = [each for each in pairs if frozenset(each[:2]) not in self._known]
        merged: dict[Pair, Merged | Conflicted] = {}
        for one, other, bases in new:
            with suppress(GitError):
                merged[frozenset((one, other))] = await self._merge_pair(one, other, bases, tip)
        conflicted = {pair: each for pair, each in merged.items() if isinstance(each, Conflicted)}
        self._known |= {pair: conflicted[pair].paths if pair in conflicted else () for pair in merged}
        self._by_git_alone |= {pair: each for pair, each in conflicted.items() if each.files}
        wanted = [pair for each in pairs if (pair := frozenset(each[:2])) in self._known]
        self._known |= await self._resolve_some(
            {pair: self._by_git_alone[pair] for pair in wanted if pair in self._by_git_alone}, tip
        )
        found = {pair: self._known.pop(pair) for pair in dict.fromkeys(wanted)}
        self._known |= found  # moved to the end, so that the oldest results are dropped first
        for oldest in [*self._known][: -self._most]:
            del self._known[oldest]
            self._by_git_alone.pop(oldest, None)
        if self._listed is None:
            return found
        apart = self._listed.path
        return {pair: tuple(path for path in paths if path != apart) for pair, paths in found.items()}

    async def _merge_pair(self, one: Commit, other: Commit, bases: Bases, tip: Commit) -> Merged | Conflicted:
        git, (mine, theirs) = self._git, bases
        # If one contains the base of the other, git finds the base of the merge itself.
        if self._rebased and not (await is_contained(git, theirs, one) or await is_contained(git, mine, other)):
            # The branch was rewritten: work on the former base is merged on that base, as when it lands.
            if await is_contained(git, mine, tip):
                one = await on_base(git, one, theirs)
            else:
                other = await on_base(git, other, mine)
        return await merge_commits(git, one, other)

    async def _resolve_some(self, conflicted: Mapping[Pair, Conflicted], tip: Commit) -> dict[Pair, tuple[str, ...]]:
        if not conflicted:
            return {}
        files = [file for each in conflicted.values() for file in each.files]
        try:
            async with private_index(self._git, self._folder) as index:
                versions = await read_versions(self._git, index, files, tip=tip)
        except GitError:  # an object of one of them is missing: git's conflicts stand
            return {}
        merged_bytes = 0
        found: dict[Pair, tuple[str, ...]] = {}
        for pair, each in conflicted.items():
            ids = {stage.object_id for file in each.files for stage in file.stages.values()}
            size = sum(len(versions.contents.get(one) or b"") for one in ids)
            if size <= MAX_BYTES and merged_bytes and merged_bytes + size > MERGED_BYTES:
                continue
            del self._by_git_alone[pair]
            if size <= MAX_BYTES:
                merged_bytes += size
                resolution = await asyncio.to_thread(resolve_versions, each, versions, is_union=self._is_union)
                found[pair] = tuple(sorted(file.path for file in resolution.refused))
        return found

    async def paths(self, attempt: Attempt) -> frozenset[str]:
        """Return the paths that a candidate changes; empty if its work is gone, which its merge will find out."""
        head = attempt.head_sha
        if head is None:
            return frozenset()
        if head not in self._paths:
            try:
                changed = await own_changed_paths(self._git, self._listed, attempt.base_sha, head)
            except GitError:
                return frozenset()
            self._paths[head] = frozenset(changed)
        return self._paths[head]


def _may_conflict(one: frozenset[str], other: frozenset[str]) -> bool:
    # At the same path, or where one has a file and the other a folder.
    return (
        not one.isdisjoint(other)
        or not _parent_folders(one).isdisjoint(other)
        or not _parent_folders(other).isdisjoint(one)
    )


def _parent_folders(paths: Iterable[str]) -> frozenset[str]:
    parts = (path.split("/")[:-1] for path in paths)
    return frozenset("/".join(folders[:depth]) for folders in parts for depth in range(1, len(folders) + 1))
