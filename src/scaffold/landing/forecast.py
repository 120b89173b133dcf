"""Forecast which candidates will conflict with each other, by merging them in memory, pair by pair."""

from collections.abc import Sequence
from itertools import combinations

from scaffold.core.errors import GitError
from scaffold.core.ids import AttemptId, Commit
from scaffold.core.model import Attempt
from scaffold.git import commits
from scaffold.git.command import Git
from scaffold.git.merge import Conflicted, merge_commits, on_base
from scaffold.landing.arrangement import Conflicts

MAX_KNOWN = 2_000


class Forecaster:
    """Merges each pair of candidates once, and keeps the last MAX_KNOWN results."""

    def __init__(self, git: Git, *, rebased: bool = False) -> None:
        """`rebased`: the run was carried over to another base, so that not all work has the same one."""
        self._rebased = rebased
        self._git = git
        self._known: dict[frozenset[Commit], tuple[str, ...]] = {}
        self._paths: dict[Commit, frozenset[str]] = {}

    async def conflicts(self, candidates: Sequence[Attempt]) -> Conflicts:
        """Return for each candidate the others that it conflicts with, and in which paths."""
        bases = {each.id: each.base_sha for each in candidates}
        heads = {each.id: each.head_sha for each in candidates if each.head_sha is not None}
        paths = {each.id: await self.paths(each) for each in candidates}
        self._paths = {each: self._paths[each] for each in heads.values() if each in self._paths}
        result: dict[AttemptId, dict[AttemptId, tuple[str, ...]]] = {each: {} for each in heads}
        for one, other in combinations(heads, 2):
            if _may_conflict(paths[one], paths[other]):
                found = await self.between(heads[one], heads[other], base=bases[one])
                if found:
                    result[one][other] = result[other][one] = found
        return result

    async def between(self, one: Commit, other: Commit, *, base: Commit) -> tuple[str, ...]:
        """Return the paths in which two commits conflict, `one` of which was made on `base`; empty if they merge."""
        pair = frozenset((one, other))
        if pair not in self._known:
            target = await on_base(self._git, other, base) if self._rebased else other
            merged = await merge_commits(self._git, one, target)
            self._known[pair] = merged.paths if isinstance(merged, Conflicted) else ()
            for oldest in [*self._known][:-MAX_KNOWN]:
                del self._known[oldest]
        return self._known[pair]

    async def paths(self, attempt: Attempt) -> frozenset[str]:
        """Return the paths that a candidate changes; none if its work is gone, which is found out when it is merged."""
        head = attempt.head_sha
        if head is None:
            return frozenset()
        if head not in self._paths:
            try:
                self._paths[head] = frozenset(await commits.changed_paths(self._git, attempt.base_sha, head))
            except GitError:
                return frozenset()
        return self._paths[head]


def _may_conflict(one: frozenset[str], other: frozenset[str]) -> bool:
    """Return whether two changes may touch: at the same path, or at a file where the other has a folder."""
    return not one.isdisjoint(other) or not _folders(one).isdisjoint(other) or not _folders(other).isdisjoint(one)


def _folders(paths: frozenset[str]) -> frozenset[str]:
    parts = (path.split("/")[:-1] for path in paths)
    return frozenset("/".join(folders[:depth]) for folders in parts for depth in range(1, len(folders) + 1))
