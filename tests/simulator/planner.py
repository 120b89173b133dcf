"""A simulated supervisor's agent: its turns are stored like real ones, and some of its proposals are nonsense."""

import asyncio
from collections.abc import Callable
from typing import Literal

from scaffold.core.ids import ActionId, ActionKey, Assertion, GoalId, TurnId
from scaffold.core.model import Action, Goal, PlanningEvent, PlanningTurn, Run, Usage
from scaffold.core.plan import ActionSpec
from scaffold.core.states import Failed
from scaffold.host.random_ids import new_id
from scaffold.orchestrator.planning.apply_plan import apply_changes
from scaffold.orchestrator.planning.proposals import Dispatcher
from scaffold.orchestrator.planning.turn import ModelFailed, PlanningResult, PlanRejected, PlanWritten
from scaffold.plan.edit.draft import ChangeRejected, CreateActions, DraftChange, UpdateAction
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext
from scaffold.store.database import Store
from simulator.faults import FaultInjector
from simulator.plans import primitive

Behaviour = Literal["good", "nothing", "nonsense", "refused", "broken"]
BEHAVIOURS: tuple[tuple[Behaviour, float], ...] = (
    ("good", 14),
    ("nothing", 2),
    ("nonsense", 2),
    ("refused", 1),
    ("broken", 2),
)
"""Makes a useful proposal | proposes nothing | proposes something that does not apply | is rejected | gets no reply."""


class SimulatedPlanner:
    """Proposes useful and useless changes. Implements `orchestrator.supervisor.Thinks`."""

    def __init__(
        self, context: RunContext, run: Run, faults: FaultInjector, behaviour: Callable[[], Behaviour]
    ) -> None:
        self._context = context
        self._run = run
        self._faults = faults
        self._behaviour = behaviour

    async def decompose(self, goal_id: GoalId, compound: ActionId) -> PlanningResult:
        """Propose children of a compound that provide its effects."""
        action = self._action(compound)
        return await self._turn("decompose", goal_id, compound, lambda: self._children(goal_id, action, action.effects))

    async def replan(
        self, goal_id: GoalId, compound: ActionId | None, unmet: tuple[Assertion, ...], why: str
    ) -> PlanningResult:
        """Propose other actions towards `unmet`, or a retry of a failed one; failures count as settled then."""
        parent = None if compound is None else self._action(compound)

        def propose() -> tuple[DraftChange, ...]:
            return self._retries(goal_id) or self._children(goal_id, parent, unmet)

        return await self._turn(
            "replan", goal_id, compound, propose, lambda store: store.actions.mark_failures_handled(goal_id)
        )

    async def judge(self, goal_id: GoalId, why: str, dispatch: Dispatcher) -> PlanningResult:
        """Never called: simulated runs are supervised mechanically."""
        raise NotImplementedError

    async def _turn(
        self,
        event: PlanningEvent,
        goal_id: GoalId,
        compound: ActionId | None,
        propose: Callable[[], tuple[DraftChange, ...]],
        also: Callable[[Store], None] = lambda _: None,
    ) -> PlanningResult:
        turn, behaviour = self._begin(event, goal_id, compound), self._behaviour()
        await asyncio.sleep(self._faults.rng.uniform(0.1, 4.0))
        match behaviour:
            case "broken":
                return self._ended(turn, ModelFailed("there is no reply", retryable=True))
            case "refused":
                return self._ended(turn, PlanRejected((), "it is never sound"))
            case "nothing":
                return self._written(turn, (), also)
            case "nonsense":
                return self._written(turn, (_nonsense(self._goal(goal_id)),), also)
            case "good":
                changes = propose()
                await asyncio.sleep(self._faults.rng.uniform(0.0, 1.0))
                return self._written(turn, changes, also)

    def _begin(self, event: PlanningEvent, goal_id: GoalId, compound: ActionId | None) -> PlanningTurn:
        turn = PlanningTurn(
            id=TurnId(new_id()),
            run_id=self._run.id,
            goal_id=goal_id,
            action_id=compound,
            event=event,
            usage=Usage(),
            started_at=self._context.clock.now(),
        )
        store = self._context.store
        with owner_transaction(store, self._run, durable=True):
            for lost in store.turns.open_of_run(self._run.id):
                if lost.goal_id == goal_id:
                    store.turns.end(lost.id, "lost", error="the process that asked has exited")
            store.turns.begin(turn)
        return turn

    def _written(
        self, turn: PlanningTurn, changes: tuple[DraftChange, ...], also: Callable[[Store], None]
    ) -> PlanningResult:
        """Store the proposals with the turn's end; proposals that no longer apply are not sound."""
        store = self._context.store
        try:
            with owner_transaction(store, self._run, durable=True):
                store.turns.check(turn.id)
                apply_changes(store, self._run, changes, now=self._context.clock.now())
                also(store)
                store.turns.end(turn.id, "done")
        except ChangeRejected as refused:
            return self._ended(turn, PlanRejected((), refused.what))
        return PlanWritten(changes, "done")

    def _ended(self, turn: PlanningTurn, ending: ModelFailed | PlanRejected) -> PlanningResult:
        outcome, error = ("failed", ending.error) if isinstance(ending, ModelFailed) else ("refused", ending.why)
        with owner_transaction(self._context.store, self._run, durable=True):
            self._context.store.turns.end(turn.id, outcome, error=error)
        return ending

    def _children(
        self, goal_id: GoalId, parent: Action | None, wanted: tuple[Assertion, ...]
    ) -> tuple[DraftChange, ...]:
        """Return a chain of actions, the last of which provides the wanted effects."""
        last = self._context.store.actions.last_position(self._run.id) + 1
        stem = f"{parent.key if parent else self._goal(goal_id).name}n{last}"
        specs: list[ActionSpec] = []
        for number in range(self._faults.rng.randint(1, 3)):
            needs = specs[-1].effects if specs else ()
            above = parent.key if parent else None
            specs.append(primitive(self._faults.rng, f"{stem}s{number}", preconditions=needs, parent=above))
        *others, final = specs
        covering = primitive(
            self._faults.rng, final.key, preconditions=final.preconditions, parent=final.parent, effects=wanted
        )
        return (CreateActions(self._goal(goal_id).name, (*others, covering)),)

    def _retries(self, goal_id: GoalId) -> tuple[DraftChange, ...]:
        """Sometimes return another approach for one failed action that had none yet."""
        failed = [
            action
            for action in self._context.store.actions.for_goal(goal_id)
            if action.kind == "primitive" and isinstance(action.state, Failed) and not action.extra_attempts
        ]
        if not failed or not self._faults.happens(0.4):
            return ()
        return (UpdateAction(self._faults.rng.choice(failed).key, "pending", "in another way"),)

    def _goal(self, goal_id: GoalId) -> Goal:
        goal = self._context.store.goals.get(goal_id)
        if goal is None:
            raise LookupError(goal_id)
        return goal

    def _action(self, action_id: ActionId) -> Action:
        action = self._context.store.actions.get(action_id)
        if action is None:
            raise LookupError(action_id)
        return action


def _nonsense(goal: Goal) -> DraftChange:
    """Return a change that never applies: its parent is missing."""
    spec = ActionSpec(
        key=ActionKey("odd"), description="Odd", parent=ActionKey("missing"), effects=(Assertion("odd_done"),)
    )
    return CreateActions(goal.name, (spec,))
