"""The order of a run's merge queue: forecasts, which candidates wait for which, and what users see of it."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

from msgspec import Struct, structs

from scaffold.core.errors import StoreError
from scaffold.core.ids import ActionKey, AttemptId, Commit
from scaffold.core.landing.queue_place import PlaceState, QueuePlace
from scaffold.core.model import Action, Attempt, Run
from scaffold.core.printable_text import utf8_safe
from scaffold.core.states import WORKER_PHASES
from scaffold.git import refs
from scaffold.landing.proving.candidate_line import Lane
from scaffold.landing.queue.arrangement import (
    MAX_LANES,
    MOST_OVERTAKEN,
    Arrangement,
    Conflicts,
    QueuedCandidate,
    arrange,
    count_apart,
)
from scaffold.landing.queue.forecast import Forecaster
from scaffold.policy.path import globs
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext
from scaffold.store.run.landings import WorkDoneAgain


class QueueOrder:
    """Decides which candidates are proven next; only the run's owner may use it."""

    def __init__(self, context: RunContext, run: Run, *, lanes: int = MAX_LANES) -> None:
        """Prove at most `lanes` candidates in parallel."""
        self._context = context
        self._run = run
        self._lanes = lanes
        is_union = partial(globs.matches_any, run.settings.landing.union)
        self._forecaster = Forecaster(
            context.git,
            folder=context.temporary_folder(run.id),
            is_union=is_union,
            rebased=context.store.branch_moves.was_rebased(run.id),
            listed=run.settings.landing.tracked_list,
        )
        self._overtaken = Counter[AttemptId]()
        self._postponed: dict[AttemptId, frozenset[AttemptId]] = {}
        """Candidates that failed on top of others; they are not proven again while one of those is in the line."""
        self._alone: AttemptId | None = None
        """The candidate that is proven next, without others in parallel."""
        self._conflicting: dict[AttemptId, Commit] = {}
        """{candidate: the tip that it conflicts with}."""
        self._held: dict[AttemptId, tuple[ActionKey, ...]] = {}
        """{conflicting candidate: the actions done again that it waits for}."""
        self._released: Commit | None = None
        """The tip on which candidates are no longer held."""
        self._conflicts: Conflicts = {}
        self._arranged = Arrangement((), {})
        self._paths: dict[AttemptId, frozenset[str]] = {}
        """The changed paths of the candidates that were arranged last."""
        self._running: dict[AttemptId, ActionKey] = {}
        """The actions of the working attempts with which candidates were compared."""
        self._by_age: dict[AttemptId, Attempt] = {}
        """All waiting candidates, oldest first."""
        self._keys: dict[AttemptId, ActionKey] = {}
        """The keys of their actions."""
        self._looked_at: object = None
        """The inputs of the last arrangement."""
        self._shown: tuple[QueuePlace, ...] = ()

    @property
    def held(self) -> int:
        """How many candidates are held."""
        return sum(each in self._held for each in self._by_age)

    async def next_to_prove(
        self,
        waiting: Sequence[Attempt],
        started: Sequence[AttemptId],
        tip: Commit,
        *,
        merging: Collection[AttemptId] = (),
        awaiting: Collection[AttemptId] = (),
    ) -> list[tuple[Action, Attempt]]:
        """Return the candidates that can join the line now, in order; `started` are in it, `waiting` are all.

        A helper is resolving the conflicts of those that are `merging`, so they are set aside. If one of them was
        overtaken too often, no other joins the line: each landing would make the helper's answer useless. Those
        `awaiting` a human are set aside, too, and nothing waits for them.
        """
        self._by_age = {each.id: each for each in waiting}
        self._overtaken = Counter({each: self._overtaken[each] for each in self._by_age if each in self._overtaken})
        self._conflicting = {each: at for each, at in self._conflicting.items() if each in self._by_age}
        self._postponed = {each: ahead for each, ahead in self._postponed.items() if not ahead.isdisjoint(started)}
        if self._alone in self._by_age and self._alone not in {*merging, *awaiting}:
            return [] if started else [self._with_action(self._by_age[self._alone])]
        await self._hold_conflicting(tip)
        aside = {*self._held, *merging, *awaiting}
        able = [each for each in waiting if each.id in started or each.id not in aside]
        closed = any(self._overtaken[each] >= MOST_OVERTAKEN for each in merging)
        looked_at = ([each.id for each in able], [*started], [*self._postponed], tip, closed)
        # Most wake-ups of the queue do not change its order.
        if looked_at != self._looked_at:
            self._looked_at = looked_at
            await self._arrange_queue(able, started, tip, closed=closed)
        return [self._with_action(self._by_age[each]) for each in self._arranged.lanes if each not in started]

    async def _hold_conflicting(self, tip: Commit) -> None:
        found = [each for each in self._by_age.values() if self._conflicting.get(each.id) == tip]
        rivals = self._context.store.merge_queues.done_again(self._run.id) if found and self._released != tip else ()
        self._held = {each.id: keys for each in found if (keys := await self._waits_for(each, rivals, tip))}

    async def _waits_for(self, attempt: Attempt, rivals: Sequence[WorkDoneAgain], tip: Commit) -> tuple[ActionKey, ...]:
        # Two candidates must not wait for each other.
        others = {each.action_id for each in self._by_age.values() if each.id in self._conflicting}
        asked = [each for each in rivals if each.action_id not in {attempt.action_id, *others}]
        return tuple([each.key for each in asked if await self._is_in_conflict(attempt, each, tip)])

    async def _is_in_conflict(self, one: Attempt, other: WorkDoneAgain, tip: Commit) -> bool:
        if one.head_sha is None:
            return False
        return bool(await self._forecaster.between(one.head_sha, other.head, tip, bases=(one.base_sha, other.base)))

    async def must_wait(self, attempt: Attempt, tip: Commit) -> bool:
        """Return whether a candidate that conflicts with the tip is held before its action is done again."""
        # If the last work of another action that is being done again also conflicts with the candidate, this action
        # would have to be done twice: on this tip, and again once the other one has landed.
        self._conflicting[attempt.id] = tip
        # An attempt starts only while fewer than twice the agents are unlanded: one place stays free for that action.
        if self.held + 1 < 2 * self._context.store.runs.agents(self._run.id):
            await self._hold_conflicting(tip)
        return attempt.id in self._held

    def release_held(self, tip: Commit) -> None:
        """Stop holding candidates on this tip, because the actions that they wait for do not go on."""
        self._released = tip

    def count_together(self, lanes: Sequence[AttemptId]) -> int:
        """Return how many of the lanes at the front may land together."""
        return count_apart([self._paths.get(each, frozenset()) for each in lanes])

    def prove_alone(self, attempt_id: AttemptId | None) -> None:
        """Prove this candidate next, without others in parallel; None to go on as usual."""
        self._alone = attempt_id
        self._looked_at = None

    def postpone(self, attempt_id: AttemptId, ahead: Sequence[AttemptId]) -> None:
        """Prove a candidate again only once those `ahead` of it have landed or been refused."""
        self._postponed[attempt_id] = frozenset(ahead)

    def count_overtaken(self, landed: Collection[AttemptId]) -> None:
        """Count for each waiting candidate how many younger ones have overtaken it."""
        for place, attempt_id in enumerate(ordered := [*self._by_age]):
            if attempt_id not in landed:
                self._overtaken[attempt_id] += sum(each in landed for each in ordered[place:])

    def show(
        self, lanes: Sequence[Lane], *, gates: int, merging: Mapping[AttemptId, str], awaiting: Mapping[AttemptId, str]
    ) -> None:
        """Store the order for users; the gates of the first `gates` lanes run.

        `merging` says what helpers do for a candidate, `awaiting` has the inbox items of those that wait for a human.
        """
        self._keys = {each.id: self._keys.get(each.id) or self._action_key(each) for each in self._by_age.values()}
        keys = self._keys
        ahead = self._arranged.waiting
        state = QueueState(
            keys=keys,
            held=self._held,
            merging=merging,
            awaiting=awaiting,
            ahead=ahead,
            conflicts=self._conflicts,
            running=self._running,
        )
        is_told = len(keys) > 1 or self._held or merging or awaiting or any(self._conflicts.values())
        places = tuple(places_of(state, lanes, gates)) if is_told else ()
        if places != self._shown:
            self._store_places(places)

    def _action_key(self, attempt: Attempt) -> ActionKey:
        action, _ = self._with_action(attempt)
        return action.key

    def clear(self) -> None:
        """Remove the stored order, because the owner ends and proves nothing any more."""
        if self._shown:
            self._store_places(())

    def _store_places(self, places: tuple[QueuePlace, ...]) -> None:
        # Only users read it: a store that cannot be written must not end the proofs.
        with suppress(StoreError), owner_transaction(self._context.store, self._run):
            self._context.store.merge_queues.set(self._run.id, places, fence=self._run.fence)
        self._shown = places

    async def _arrange_queue(
        self, able: Sequence[Attempt], started: Sequence[AttemptId], tip: Commit, *, closed: bool
    ) -> None:
        # The working attempts with commits, each with its last commit as its head. Their refs are read only when the
        # order changes: nothing may depend on what changes all the time.
        open_ones = self._context.store.attempts.open_of_run(self._run.id)
        working = {refs.work_ref(each.id): each for each in open_ones if each.phase in WORKER_PHASES}
        heads = await refs.list_refs(self._context.git, refs.WORK_PREFIX) if working else {}
        found = [structs.replace(each, head_sha=heads.get(ref)) for ref, each in working.items()]
        running = [each for each in found if each.head_sha not in {None, each.base_sha}]
        self._running = {each.id: self._keys.get(each.id) or self._action_key(each) for each in running}
        self._conflicts = {}
        if len(able) > 1 or running:
            self._conflicts = await self._forecaster.conflicts(able, tip, running=running)
        if len(able) > 1 or closed:
            queued = [await self._queued_candidate(each) for each in able]
            self._paths = {each.id: each.paths for each in queued}
            # Running work may still change, so it does not affect the landing order.
            waiting = {
                each: {other: paths for other, paths in found.items() if other not in self._running}
                for each, found in self._conflicts.items()
            }
            self._arranged = arrange(queued, waiting, started=started, most=self._lanes, closed=closed)
        else:
            self._arranged = Arrangement(tuple(each.id for each in able), {})

    async def _queued_candidate(self, attempt: Attempt) -> QueuedCandidate:
        action, _ = self._with_action(attempt)
        needs = frozenset(action.preconditions)
        facts = self._context.store.facts.for_assertions(action.goal_id, needs)
        return QueuedCandidate(
            id=attempt.id,
            # As text, like the stored paths of facts.
            paths=frozenset(map(utf8_safe, await self._forecaster.paths(attempt))),
            proves=frozenset((action.goal_id, assertion) for assertion in action.effects),
            needs=frozenset((action.goal_id, assertion) for assertion in needs),
            relies_on=frozenset(path for fact in facts for path in fact.paths),
            overtaken=self._overtaken[attempt.id],
            barred=attempt.id in self._postponed,
        )

    def _with_action(self, attempt: Attempt) -> tuple[Action, Attempt]:
        action = self._context.store.actions.get(attempt.action_id)
        if action is None:
            raise LookupError(attempt.id)
        return action, attempt


class QueueState(Struct, frozen=True, kw_only=True):
    """The waiting candidates, and what they wait for."""

    keys: Mapping[AttemptId, ActionKey]
    """The actions of all candidates, oldest first."""
    held: Mapping[AttemptId, tuple[ActionKey, ...]]
    merging: Mapping[AttemptId, str] = {}
    """{candidate whose conflicts a helper is resolving: what the helper does, for users}."""
    awaiting: Mapping[AttemptId, str] = {}
    """{candidate that waits for a human's approval: its inbox item}."""
    ahead: Mapping[AttemptId, tuple[AttemptId, ...]]
    """{candidate outside of the lanes: those that must land before it}; empty if all in lanes must."""
    conflicts: Conflicts
    running: Mapping[AttemptId, ActionKey] = {}
    """The actions of the working attempts among the conflicts."""


def places_of(state: QueueState, lanes: Sequence[Lane], gates: int) -> Iterator[QueuePlace]:
    """Yield the place of each candidate in landing order; the gates of the first `gates` lanes run."""
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
