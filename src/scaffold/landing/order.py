"""The order of a run's merge queue: forecasts, who waits for whom, and what people see of it."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from scaffold.core.errors import GitError
from scaffold.core.ids import ActionKey, AttemptId, Commit
from scaffold.core.model import Action, Attempt, Run
from scaffold.core.printable_text import utf8_safe
from scaffold.core.queue import PlaceState, QueuePlace
from scaffold.landing.arrangement import Arrangement, Conflicts, QueuedCandidate, arrange
from scaffold.landing.forecast import Forecaster
from scaffold.landing.line import Lane
from scaffold.run.context import RunContext
from scaffold.run.lease import owner_transaction


class QueueOrder:
    """Decides which candidates are proven next, for the run's owner."""

    def __init__(self, context: RunContext, run: Run) -> None:
        self._context = context
        self._run = run
        self._forecaster = Forecaster(context.git)
        self._passed = Counter[AttemptId]()
        self._postponed: dict[AttemptId, frozenset[AttemptId]] = {}
        """Candidates that failed on top of others: not proven again while one of these is in the line."""
        self._held: dict[AttemptId, Commit] = {}
        """Candidates that conflict with the tip, by that tip."""
        self._rivals: dict[AttemptId, tuple[ActionKey, ...]] = {}
        self._conflicts: Conflicts = {}
        self._arranged = Arrangement((), {})
        self._by_age: dict[AttemptId, Attempt] = {}
        """All that wait, oldest first."""
        self._looked_at: object = None
        """What the last arrangement depends on."""
        self._shown: tuple[QueuePlace, ...] = ()

    async def next_to_prove(
        self, waiting: Sequence[Attempt], started: Sequence[AttemptId], tip: Commit
    ) -> list[tuple[Action, Attempt]]:
        """Return the candidates that can be put in the line now, in order; `started` are in it, `waiting` are all."""
        self._by_age = {each.id: each for each in waiting}
        self._postponed = {each: ahead for each, ahead in self._postponed.items() if not ahead.isdisjoint(started)}
        able = [each for each in waiting if each.id in started or not await self._is_held(each, tip)]
        looked_at = ([each.id for each in able], [*started], [*self._postponed])
        # Much wakes the queue that says nothing about its order.
        if looked_at != self._looked_at:
            self._looked_at = looked_at
            await self._arrange(able, started)
        new = [self._by_age[each] for each in self._arranged.lanes if each not in started]
        return [(self._action(attempt), attempt) for attempt in new]

    async def _arrange(self, able: Sequence[Attempt], started: Sequence[AttemptId]) -> None:
        if len(able) > 1:
            self._conflicts = await self._forecaster.conflicts(able)
            queued = [await self._queued(each) for each in able]
            self._arranged = arrange(queued, self._conflicts, started=started)
        else:
            self._conflicts, self._arranged = {}, Arrangement(tuple(each.id for each in able), {})

    def postpone(self, attempt_id: AttemptId, ahead: Sequence[AttemptId]) -> None:
        """Prove a candidate again only once those that were ahead of it have landed, or have been refused."""
        self._postponed[attempt_id] = frozenset(ahead)

    def count_passed(self, landed: Collection[AttemptId]) -> None:
        """Count for each candidate that still waits how many younger ones have passed it."""
        for place, attempt_id in enumerate(ordered := [*self._by_age]):
            if attempt_id not in landed:
                self._passed[attempt_id] += sum(each in landed for each in ordered[place:])

    async def must_wait(self, attempt: Attempt, tip: Commit) -> bool:
        """Return whether a candidate that conflicts with the tip waits before its action is done again.

        While an action is done again whose last work conflicts with this candidate, too, the candidate would have to be
        done again twice: once on this tip, and once more when that action has landed. Some place stays free for that
        action: an attempt starts only while fewer than twice the agents are unlanded.
        """
        self._held[attempt.id] = tip
        held = sum(self._held.get(each) == tip for each in self._by_age)
        return held < 2 * self._run.settings.tier.agents and await self._has_rival(attempt, tip)

    def show(self, waiting: Sequence[Attempt], lanes: Sequence[Lane], *, gates: int) -> None:
        """Store the order for people; the gates of the first `gates` lanes run."""
        places = tuple(self._places(waiting, lanes, gates)) if len(waiting) > 1 else ()
        if places != self._shown:
            with owner_transaction(self._context.store, self._run):
                self._context.store.merge_queues.set(self._run.id, places, fence=self._run.fence)
            self._shown = places

    async def _is_held(self, attempt: Attempt, tip: Commit) -> bool:
        return self._held.get(attempt.id) == tip and await self._has_rival(attempt, tip)

    async def _has_rival(self, attempt: Attempt, tip: Commit) -> bool:
        """Return whether an action is being done again whose last work conflicts with the candidate's."""
        # Two candidates must not be held for each other.
        held = {each.action_id for each in self._by_age.values() if self._held.get(each.id) == tip}
        found = list[ActionKey]()
        for other in self._context.store.attempts.done_again(self._run.id):
            if other.action_id not in {attempt.action_id, *held} and await self._conflict(attempt, other):
                found.append(self._action(other).key)
        self._rivals[attempt.id] = tuple(found)
        return bool(found)

    async def _conflict(self, one: Attempt, other: Attempt) -> bool:
        if one.head_sha is None or other.head_sha is None:
            return False
        try:
            return bool(await self._forecaster.between(one.head_sha, other.head_sha))
        except GitError:  # what did not land may have been purged since
            return False

    async def _queued(self, attempt: Attempt) -> QueuedCandidate:
        action = self._action(attempt)
        facts = self._context.store.facts.of_goal(action.goal_id) if action.preconditions else ()
        return QueuedCandidate(
            id=attempt.id,
            paths=await self._forecaster.paths(attempt),
            proves=frozenset((action.goal_id, assertion) for assertion in action.effects),
            relies_on=frozenset(
                path for fact in facts if fact.assertion in action.preconditions for path in fact.paths
            ),
            passed=self._passed[attempt.id],
            barred=attempt.id in self._postponed,
        )

    def _action(self, attempt: Attempt) -> Action:
        action = self._context.store.actions.get(attempt.action_id)
        if action is None:
            raise LookupError(attempt.id)
        return action

    def _places(self, waiting: Sequence[Attempt], lanes: Sequence[Lane], gates: int) -> Iterator[QueuePlace]:
        keys = {each.id: self._action(each).key for each in waiting}
        for number, lane in enumerate(lanes, start=1):
            state: PlaceState = "gates" if number <= gates else "proven" if lane.proof.done() else "proving"
            yield QueuePlace(attempt_id=lane.id, state=state, lane=number, conflicts=self._keyed(lane.id, keys))
        in_line = {lane.id for lane in lanes}
        ahead = tuple(keys[each] for each in in_line if each in keys)
        for each in waiting:
            if each.id in in_line:
                continue
            if each.id in self._held and self._rivals.get(each.id):
                waits_for, state = self._rivals[each.id], "held"
            else:
                others = self._arranged.waiting.get(each.id)
                waits_for, state = tuple(keys[other] for other in others or () if other in keys) or ahead, "waiting"
            yield QueuePlace(attempt_id=each.id, state=state, waits_for=waits_for, conflicts=self._keyed(each.id, keys))

    def _keyed(self, attempt_id: AttemptId, keys: dict[AttemptId, ActionKey]) -> dict[ActionKey, tuple[str, ...]]:
        found = self._conflicts.get(attempt_id, {})
        return {keys[other]: tuple(map(utf8_safe, paths)) for other, paths in found.items() if other in keys}
