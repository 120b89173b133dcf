"""Arrange the candidates of a run: which land next, side by side, and what each other one waits for. Pure."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from scaffold.core.ids import Assertion, AttemptId, GoalId

MAX_LANES = 64
"""How many candidates are landed together at most."""
MOST_OVERTAKEN = 4
"""A candidate that so many younger ones have overtaken goes first, whatever it conflicts with."""


class QueuedCandidate(Struct, frozen=True, kw_only=True):
    """The parts of a candidate that decide its place in the queue."""

    id: AttemptId
    paths: frozenset[str]
    """The paths that it changes."""
    proves: frozenset[tuple[GoalId, Assertion]]
    """The facts that its landing records."""
    needs: frozenset[tuple[GoalId, Assertion]] = frozenset()
    """The facts that it builds on."""
    relies_on: frozenset[str] = frozenset()
    """The paths on which these facts depend."""
    overtaken: int = 0
    """How many candidates that were handed in later have landed since."""
    barred: bool = False
    """Whether it cannot be proven behind those that are being proven now."""

    @property
    def is_overdue(self) -> bool:
        """Whether it was overtaken so often that it goes first."""
        return self.overtaken >= MOST_OVERTAKEN


Conflicts = Mapping[AttemptId, Mapping[AttemptId, tuple[str, ...]]]
"""For each candidate the others that it conflicts with, and in which paths; both ways."""


class Arrangement(Struct, frozen=True):
    """The order in which candidates land, and who waits."""

    lanes: tuple[AttemptId, ...]
    """Those that are proven now, side by side, in the order in which they land."""
    waiting: Mapping[AttemptId, tuple[AttemptId, ...]]
    """Those that are not, in their order, each with the candidates that must land before it."""


def arrange(
    candidates: Sequence[QueuedCandidate],
    conflicts: Conflicts,
    *,
    started: Sequence[AttemptId] = (),
    most: int = MAX_LANES,
    closed: bool = False,
) -> Arrangement:
    """Return the order of the candidates, which are given oldest first.

    `started` are those that are being proven already, in their order: they keep their places. The others follow: those
    that were overtaken too often, then those that conflict with the fewest, then the oldest. A candidate that shares a
    fact with one in a lane, or will conflict with it, waits for that. No candidate joins
    the lanes any more while one waits that was overtaken too often, or if they are `closed`, because such a one is set
    aside.
    """
    known = {each.id: each for each in candidates}
    order = [known[each] for each in started if each in known]
    order += sorted(
        (each for each in candidates if each.id not in started), key=lambda each: _sort_key(each, conflicts)
    )
    lanes = list[QueuedCandidate]()
    waiting = dict[AttemptId, tuple[AttemptId, ...]]()
    is_full = closed
    for each in order:
        ahead = tuple(other.id for other in lanes if each.barred or _must_wait(each, other, conflicts))
        if each.id in started or not (ahead or is_full):
            lanes.append(each)
        else:
            waiting[each.id] = ahead
        is_full = is_full or len(lanes) >= most or (each.is_overdue and each.id in waiting)
    return Arrangement(tuple(each.id for each in lanes), waiting)


def count_apart(paths: Sequence[frozenset[str]]) -> int:
    """Return how many lanes may land together, given the paths that each changes: the first ones that share none.

    What one of them was proven by may not hold once another has changed its files.
    """
    changed = set[str]()
    for count, each in enumerate(paths):
        if not changed.isdisjoint(each):
            return count
        changed |= each
    return len(paths)


def _sort_key(candidate: QueuedCandidate, conflicts: Conflicts) -> tuple[bool, int]:
    """Return the sort key; candidates with the same one stay in order of age."""
    overdue = candidate.is_overdue
    return (not overdue, 0 if overdue else len(conflicts.get(candidate.id, ())))


def _must_wait(one: QueuedCandidate, other: QueuedCandidate, conflicts: Conflicts) -> bool:
    """Return whether one of them cannot be proven on top of the other before that has landed."""
    files = one.relies_on & other.paths or other.relies_on & one.paths
    facts = one.needs & other.proves or other.needs & one.proves
    return bool(one.proves & other.proves or files or facts) or other.id in conflicts.get(one.id, ())
