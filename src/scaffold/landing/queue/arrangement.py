"""Arrange the candidates of a run: which are proven next, in parallel, and what each other one waits for. Pure."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from scaffold.core.ids import Assertion, AttemptId, GoalId

MAX_LANES = 64
"""The most candidates that land together."""
MOST_OVERTAKEN = 4
"""A candidate that this many younger ones have overtaken goes first, whatever it conflicts with."""


class QueuedCandidate(Struct, frozen=True, kw_only=True):
    """The properties of a candidate that decide its place in the queue."""

    id: AttemptId
    paths: frozenset[str]
    """The paths that it changes."""
    proves: frozenset[tuple[GoalId, Assertion]]
    """The facts that its landing records."""
    needs: frozenset[tuple[GoalId, Assertion]] = frozenset()
    """The facts that it builds on."""
    relies_on: frozenset[str] = frozenset()
    """The paths that those facts depend on."""
    overtaken: int = 0
    """How many younger candidates have landed before it."""
    barred: bool = False
    """Whether it cannot be proven behind those that are being proven now."""

    @property
    def is_overdue(self) -> bool:
        """Whether it was overtaken so often that it goes first."""
        return self.overtaken >= MOST_OVERTAKEN


Conflicts = Mapping[AttemptId, Mapping[AttemptId, tuple[str, ...]]]
"""{candidate: {conflicting candidate: paths}}, symmetric."""


class Arrangement(Struct, frozen=True):
    """The order in which candidates land, and who waits."""

    lanes: tuple[AttemptId, ...]
    """Those that are proven now, in parallel, in the order in which they land."""
    waiting: Mapping[AttemptId, tuple[AttemptId, ...]]
    """The others in order, each with the candidates that must land before it."""


def arrange(
    candidates: Sequence[QueuedCandidate],
    conflicts: Conflicts,
    *,
    started: Sequence[AttemptId] = (),
    most: int = MAX_LANES,
    closed: bool = False,
) -> Arrangement:
    """Return the order of the candidates, which are given oldest first.

    `started` are those that are being proven, in order; they keep their places. Then follow those that were overtaken
    too often, then those with the fewest conflicts, then the oldest. A candidate waits for one in a lane that it shares
    a fact or will conflict with. No candidate joins the lanes while one waits that was overtaken too often, or if they
    are `closed`, because such a candidate is set aside.
    """
    known = {each.id: each for each in candidates}
    order = [known[each] for each in started if each in known]
    # Sorting is stable, so candidates with equal keys stay in order of age.
    order += sorted(
        (each for each in candidates if each.id not in started),
        key=lambda each: (not each.is_overdue, 0 if each.is_overdue else len(conflicts.get(each.id, ()))),
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
    """Return how many of the first lanes may land together: those whose changed `paths` do not overlap."""
    # The proof of a lane may not hold once another one has changed its files.
    changed = set[str]()
    for count, each in enumerate(paths):
        if not changed.isdisjoint(each):
            return count
        changed |= each
    return len(paths)


def _must_wait(one: QueuedCandidate, other: QueuedCandidate, conflicts: Conflicts) -> bool:
    files = one.relies_on & other.paths or other.relies_on & one.paths
    facts = one.needs & other.proves or other.needs & one.proves
    return bool(one.proves & other.proves or files or facts) or other.id in conflicts.get(one.id, ())
