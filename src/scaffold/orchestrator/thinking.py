"""The agent of a supervisor: asked to break a compound down, to find another way, or to take every step itself."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from scaffold.core.errors import ModelTrouble, UsageProblem
from scaffold.core.ids import ActionId, Assertion, GoalId, Key
from scaffold.core.model import Action, Goal, PlanningEvent, Run
from scaffold.core.plan import Finding
from scaffold.core.ports import Model
from scaffold.core.states import Failed
from scaffold.orchestrator.desks import Dispatcher, LiveDesk
from scaffold.orchestrator.goap import supervisor_tools
from scaffold.orchestrator.judging import idle
from scaffold.orchestrator.leanness import (
    Failure,
    Situation,
    decompose_prompt,
    judge_prompt,
    replan_prompt,
    stands_still,
)
from scaffold.orchestrator.remit import Remit
from scaffold.orchestrator.turn import (
    Broke,
    Conditions,
    Helm,
    Occasion,
    TurnEnding,
    drive_turn,
    errors,
    nothing,
    take_turn,
)
from scaffold.orchestrator.writing import read_draft
from scaffold.plan.draft import BUSY, Draft
from scaffold.plan.wording import listed
from scaffold.store.database import Store
from scaffold.worker.site import Site

READY = 10
"""How many ready actions an agent is told of."""
FAILURES = 12
"""How many failures."""

OpenModel = Callable[[], AbstractAsyncContextManager[Model]]
Faults = Callable[[Draft], Sequence[Finding]]


class Thinker:
    """Asks the agent of a goal's supervisor: one turn at a time, each on a fresh context read from the store.

    StaleFence passes through: somebody else pursues the goal by now.
    """

    def __init__(self, site: Site, run: Run, open_model: OpenModel) -> None:
        self._site = site
        self._run = run
        self._open_model = open_model

    async def decompose(self, goal_id: GoalId, compound_id: ActionId) -> TurnEnding:
        """Ask for children of a compound that became ready; its effects are covered by them once that is written."""
        store, goal = self._site.store, self._goal(goal_id)
        compound = _action(store, compound_id)
        now = self._situation(goal, compound, "decompose")
        occasion = self._occasion("decompose", decompose_prompt(now, compound), goal, compound)
        return await self._propose(occasion, self._conditions(goal, compound))

    async def replan(
        self, goal_id: GoalId, compound_id: ActionId | None, unmet: tuple[Assertion, ...], why: str
    ) -> TurnEnding:
        """Ask for another way to `unmet`, among the children of a compound or at the top of the goal.

        Once that is written, what failed until then counts as dealt with.
        """
        store, goal = self._site.store, self._goal(goal_id)
        compound = None if compound_id is None else _action(store, compound_id)
        now = self._situation(goal, compound, "replan")
        before = now.turns[-1] if now.turns else None
        still = stands_still(now.failures, before, len(store.facts.of_goal(goal_id)))
        occasion = self._occasion("replan", replan_prompt(now, unmet, why, still=still), goal, compound)
        return await self._propose(
            occasion, self._conditions(goal, compound, lambda store: store.actions.account_for_failures(goal_id))
        )

    async def judge(self, goal_id: GoalId, why: str, dispatch: Dispatcher) -> TurnEnding:
        """Let the agent take every step that can be taken now; `dispatch` opens an attempt of a ready action."""
        goal = self._goal(goal_id)
        occasion = self._occasion("judge", judge_prompt(self._situation(goal, None, "judge"), why), goal, None)
        desk = Remit(LiveDesk(self._site, self._run, dispatch), goal.name)
        helm = Helm(tools=supervisor_tools(desk), idle=lambda: idle(self._site.store, self._run, goal))
        return await self._asked(lambda model: drive_turn(self._site, self._run, model, occasion, helm))

    async def _propose(self, occasion: Occasion, conditions: Conditions) -> TurnEnding:
        return await self._asked(lambda model: take_turn(self._site, self._run, model, occasion, conditions))

    async def _asked(self, turn: Callable[[Model], Awaitable[TurnEnding]]) -> TurnEnding:
        async with AsyncExitStack() as stack:
            try:
                model = await stack.enter_async_context(self._open_model())
            except (ModelTrouble, UsageProblem) as trouble:
                return Broke(self._site.redactor.clean(trouble.in_full), again=False)
            return await turn(model)

    def _conditions(self, goal: Goal, compound: Action | None, also: Callable[[Store], None] = nothing) -> Conditions:
        known = errors(read_draft(self._site.store, self._run).findings(goal.name))
        return Conditions(
            tools=lambda desk: supervisor_tools(Remit(desk, goal.name)),
            faults=sound(goal.name) if compound is None else covering(goal.name, compound.key, known),
            also=also,
        )

    def _occasion(self, event: PlanningEvent, prompt: str, goal: Goal, compound: Action | None) -> Occasion:
        return Occasion(event=event, prompt=self._site.redactor.clean(prompt), goal=goal, action=compound)

    def _situation(self, goal: Goal, compound: Action | None, event: PlanningEvent) -> Situation:
        store = self._site.store
        actions = store.actions.of_goal(goal.id)
        about = None if compound is None else compound.id
        return Situation(
            goal=goal,
            held=store.facts.holding(goal.id),
            tally=store.actions.tally(goal.id),
            actions=actions,
            ready=store.actions.ready(goal.id, READY),
            failures=_failures(store, actions),
            turns=tuple(
                turn
                for turn in store.turns.of_run(self._run.id)
                if (turn.goal_id, turn.event, turn.action_id) == (goal.id, event, about)
            ),
            compound=compound,
        )

    def _goal(self, goal_id: GoalId) -> Goal:
        goal = self._site.store.goals.get(goal_id)
        if goal is None:
            raise LookupError(goal_id)
        return goal


def sound(goal: str) -> Faults:
    """Return what tells the errors of a goal's plan: whoever looks for another way has to mend them all."""
    return lambda draft: errors(draft.findings(goal))


def covering(goal: str, key: Key, known: Sequence[Finding]) -> Faults:
    """Return what tells what of a compound its children leave open, and the errors that were not `known` before.

    Errors that follow from the compound's gap are not told beside it.
    """

    def faults(draft: Draft) -> tuple[Finding, ...]:
        gap = uncovered(draft, key)
        new = (fault for fault in errors(draft.findings(goal)) if fault not in known)
        return (*gap, *(fault for fault in new if not gap or fault.action not in {None, key}))

    return faults


def uncovered(draft: Draft, key: Key) -> tuple[Finding, ...]:
    """Return what a compound lacks to be begun: children that are not over, and that cover what does not hold yet.

    Nothing is lacking of one that was dropped.
    """
    goal, compound = draft.goal_of(key), draft.action(key)
    if goal is None or compound is None or draft.standing.status(key) == "skipped":
        return ()
    open_children = [
        child
        for child in goal.actions
        if child.parent == key and draft.standing.status(child.key) in {"pending", "blocked", *BUSY}
    ]
    if not open_children:
        fix = f"Create 2 to 7 actions with `parent: {key}`."
        return (_fault("no-children", goal.name, key, f"`{key}` has no children that could do its work", fix),)
    given = draft.standing.held(goal.name).union(*(child.effects for child in open_children))
    open_effects = [effect for effect in compound.effects if effect not in given]
    if not open_effects:
        return ()
    fix = f"Give `{key}` further children with these among their effects."
    return (_fault("uncovered", goal.name, key, f"no child of `{key}` makes {listed(open_effects)} true", fix),)


def _fault(code: str, goal: str, key: Key, message: str, fix: str) -> Finding:
    return Finding(code=code, severity="error", goal=goal, action=key, message=message, fix=fix)


def _failures(store: Store, actions: Sequence[Action]) -> tuple[Failure, ...]:
    failed = [action for action in actions if action.kind == "primitive" and isinstance(action.state, Failed)]
    latest = sorted(failed, key=lambda action: action.updated_at, reverse=True)[:FAILURES]
    return tuple(Failure(action=action, attempts=store.attempts.of_action(action.id)) for action in latest)


def _action(store: Store, action_id: ActionId) -> Action:
    action = store.actions.get(action_id)
    if action is None:
        raise LookupError(action_id)
    return action
