"""What people see of the order of a merge queue."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from scaffold.core.ids import ActionKey, AttemptId
from scaffold.core.landing.queue_place import PlaceState, QueuePlace
from scaffold.core.printable_text import utf8_safe
from scaffold.landing.proving.candidate_line import Lane
from scaffold.landing.queue.arrangement import Conflicts


class QueueState(Struct, frozen=True, kw_only=True):
    """The candidates that wait, and why."""

    keys: Mapping[AttemptId, ActionKey]
    """The actions of all candidates, oldest first."""
    held: Mapping[AttemptId, tuple[ActionKey, ...]]
    merging: Mapping[AttemptId, str] = {}
    """Those whose conflicts a helper is resolving, with a description of it for people."""
    awaiting: Mapping[AttemptId, str] = {}
    """Those about whose change a human is asked, with the inbox item."""
    ahead: Mapping[AttemptId, tuple[AttemptId, ...]]
    """For each candidate in no lane those that must land before it; empty if all that are in lanes must."""
    conflicts: Conflicts
    running: Mapping[AttemptId, ActionKey] = {}
    """The actions of attempts at work that are among the conflicts."""


def places_of(state: QueueState, lanes: Sequence[Lane], gates: int) -> Iterator[QueuePlace]:
    """Yield the place of each candidate, in the order in which they land; the gates of the first `gates` lanes run."""
    for number, lane in enumerate(lanes, start=1):
        doing: PlaceState = "gates" if number <= gates else "proven" if lane.proof.done() else "proving"
        yield QueuePlace(attempt_id=lane.id, state=doing, lane=number, conflicts=_by_key(state, lane.id))
    in_line = [lane.id for lane in lanes]
    for each in state.keys:
        if each in in_line:
            continue
        if each in state.merging:
            who = state.merging[each]
            yield QueuePlace(attempt_id=each, state="merging", detail=who, conflicts=_by_key(state, each))
            continue
        if each in state.awaiting:
            item = state.awaiting[each]
            yield QueuePlace(attempt_id=each, state="approval", detail=item, conflicts=_by_key(state, each))
            continue
        ahead = state.ahead.get(each) or in_line
        waits_for = state.held.get(each) or tuple(state.keys[other] for other in ahead if other in state.keys)
        yield QueuePlace(
            attempt_id=each,
            state="held" if each in state.held else "waiting",
            waits_for=waits_for,
            conflicts=_by_key(state, each),
        )


def _by_key(state: QueueState, attempt_id: AttemptId) -> dict[ActionKey, tuple[str, ...]]:
    keys = {**state.running, **state.keys}
    found = state.conflicts.get(attempt_id, {})
    return {keys[other]: tuple(map(utf8_safe, paths)) for other, paths in found.items() if other in keys}
