"""The agent of a supervisor: it decomposes a compound, replans, or takes every step itself."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack

from msgspec import structs

from scaffold.core.errors import ModelError, UsageError
from scaffold.core.ids import ActionId, ActionKey, Assertion, GoalId
from scaffold.core.model import Action, Goal, PlanningEvent, Run
from scaffold.core.plan import Finding, full_text
from scaffold.core.states import Failed
from scaffold.llm.transport.live_context import Patience
from scaffold.orchestrator.planning.agent_supervision import no_effect_reason, recent_events
from scaffold.orchestrator.planning.apply_plan import read_draft
from scaffold.orchestrator.planning.evidence_check import BranchEvidence
from scaffold.orchestrator.planning.proposal_tools import supervisor_tools
from scaffold.orchestrator.planning.proposals import Dispatcher, GoalScopedProposals, LiveProposals
from scaffold.orchestrator.planning.supervisor_prompts import (
    FailedAction,
    GoalContext,
    decompose_prompt,
    is_replan_stuck,
    judge_prompt,
    replan_prompt,
)
from scaffold.orchestrator.planning.turn import (
    ModelFailed,
    PlanningResult,
    StepTools,
    TurnRequest,
    TurnRules,
    no_extra_changes,
    only_errors,
    run_proposal_turn,
    run_step_turn,
)
from scaffold.plan.edit.draft import IN_PROGRESS_STATUSES, PlanDraft
from scaffold.plan.message_text import quoted_list
from scaffold.run.attempts.time_limit import TimeLimit
from scaffold.run.context import RunContext
from scaffold.run.learning.told_learnings import with_notes_for_planning
from scaffold.store.database import Store
from scaffold.worker.agent.agent_source import AgentSource, OpenSource

MAX_READY = 10
"""How many ready actions a prompt names."""
MAX_FAILURES = 12
"""How many failed actions a prompt names."""


PlanCheck = Callable[[PlanDraft], Sequence[Finding]]


class SupervisorAgent:
    """Runs the turns of a supervisor's agent, each on a fresh context read from the store.

    Raises StaleFence once another process supervises the goal.
    """

    def __init__(self, run_context: RunContext, run: Run, open_source: OpenSource) -> None:
        self._run_context = run_context
        self._run = run
        self._open_source = open_source

    async def decompose(self, goal_id: GoalId, compound_id: ActionId) -> PlanningResult:
        """Ask for children of a ready compound; the written children cover all its effects."""
        store, goal = self._run_context.store, self._require_goal(goal_id)
        compound = _require_action(store, compound_id)
        context = self._goal_context(goal, compound, "decompose")
        request = self._turn_request("decompose", decompose_prompt(context, compound), goal, compound)
        return await self._run_proposal_turn(request, self._turn_rules(goal, compound))

    async def replan(
        self, goal_id: GoalId, compound_id: ActionId | None, unmet: tuple[Assertion, ...], why: str
    ) -> PlanningResult:
        """Ask for another way to `unmet`: children of the compound, or top-level actions of the goal if None.

        Writing the proposal marks the failures so far as handled.
        """
        store, goal = self._run_context.store, self._require_goal(goal_id)
        compound = None if compound_id is None else _require_action(store, compound_id)
        context = self._goal_context(goal, compound, "replan")
        before = context.turns[-1] if context.turns else None
        still = is_replan_stuck(context.failures, before, len(store.facts.for_goal(goal_id)))
        request = self._turn_request("replan", replan_prompt(context, unmet, why, still=still), goal, compound)
        return await self._run_proposal_turn(
            request, self._turn_rules(goal, compound, lambda store: store.actions.mark_failures_handled(goal_id))
        )

    async def judge(self, goal_id: GoalId, why: str, dispatch: Dispatcher) -> PlanningResult:
        """Let the agent take every step that can be taken now; `dispatch` opens an attempt of a ready action."""
        goal = self._require_goal(goal_id)
        request = self._turn_request("judge", judge_prompt(self._goal_context(goal, None, "judge"), why), goal, None)
        request = structs.replace(request, news=recent_events(self._run_context.store, self._run, goal))
        proposals = GoalScopedProposals(LiveProposals(self._run_context, self._run, dispatch), goal.name)
        step_tools = StepTools(
            tools=supervisor_tools(
                proposals, BranchEvidence(self._run_context, self._run, goal_id), self._run_context.git
            ),
            idle=lambda: no_effect_reason(self._run_context.store, self._run, goal),
        )
        return await self._with_source(
            request, lambda source, timed: run_step_turn(self._run_context, self._run, source, timed, step_tools)
        )

    async def _run_proposal_turn(self, request: TurnRequest, rules: TurnRules) -> PlanningResult:
        return await self._with_source(
            request, lambda source, timed: run_proposal_turn(self._run_context, self._run, source, timed, rules)
        )

    async def _with_source(
        self, request: TurnRequest, turn: Callable[[AgentSource, TurnRequest], Awaitable[PlanningResult]]
    ) -> PlanningResult:
        settings = self._run.settings
        limit = TimeLimit(self._run_context.clock, settings.tier.timeout_s)
        patience = Patience(settings.limits.model_wait_s, limit.paused)
        async with AsyncExitStack() as stack:
            try:
                source = await stack.enter_async_context(self._open_source(patience=patience))
            # Only opening it is guarded here; errors of the turn are part of its result.
            except (ModelError, UsageError) as error:
                return ModelFailed(self._run_context.redactor.clean(error.in_full), retryable=False)
            return await turn(source, structs.replace(request, limit=limit))

    def _turn_rules(
        self, goal: Goal, compound: Action | None, extra_changes: Callable[[Store], None] = no_extra_changes
    ) -> TurnRules:
        # Decomposing one compound cannot fix errors that the plan had before.
        known = only_errors(read_draft(self._run_context.store, self._run).findings(goal.name))
        evidence = BranchEvidence(self._run_context, self._run, goal.id)
        return TurnRules(
            tools=lambda proposals: supervisor_tools(
                GoalScopedProposals(proposals, goal.name), evidence, self._run_context.git
            ),
            faults=goal_plan_check(goal.name)
            if compound is None
            else compound_plan_check(goal.name, compound.key, known),
            extra_changes=extra_changes,
        )

    def _turn_request(self, event: PlanningEvent, prompt: str, goal: Goal, compound: Action | None) -> TurnRequest:
        about = (goal.name, goal.description, full_text(compound) if compound else "")
        told = with_notes_for_planning(self._run_context, self._run, prompt, *about)
        return TurnRequest(event=event, prompt=self._run_context.redactor.clean(told), goal=goal, action=compound)

    def _goal_context(self, goal: Goal, compound: Action | None, event: PlanningEvent) -> GoalContext:
        store = self._run_context.store
        actions = store.actions.for_goal(goal.id)
        about = None if compound is None else compound.id
        failed = [action for action in actions if action.kind == "primitive" and isinstance(action.state, Failed)]
        latest = sorted(failed, key=lambda action: action.updated_at, reverse=True)[:MAX_FAILURES]
        return GoalContext(
            goal=goal,
            holding=store.facts.holding(goal.id),
            status_counts=store.actions.tally(goal.id),
            actions=actions,
            ready=store.actions.ready(goal.id, MAX_READY),
            failures=tuple(
                FailedAction(action=action, attempts=store.attempts.for_action(action.id)) for action in latest
            ),
            turns=tuple(
                turn
                for turn in store.turns.for_run(self._run.id)
                if (turn.goal_id, turn.event, turn.action_id) == (goal.id, event, about)
                # Who repeats a turn that was cut off asks what it asked, and its replies are known.
                and turn.outcome not in {"lost", "budget", "unavailable"}
            ),
            compound=compound,
        )

    def _require_goal(self, goal_id: GoalId) -> Goal:
        goal = self._run_context.store.goals.get(goal_id)
        if goal is None:
            raise LookupError(goal_id)
        return goal


def goal_plan_check(goal: str) -> PlanCheck:
    """Return a check for any error in the goal's plan; replanning must fix all of them."""
    return lambda draft: only_errors(draft.findings(goal))


def compound_plan_check(goal: str, key: ActionKey, known: Sequence[Finding]) -> PlanCheck:
    """Return a check for effects of a compound that its children do not cover, and for errors not in `known`."""

    def faults(draft: PlanDraft) -> tuple[Finding, ...]:
        # Errors that merely follow from a gap are left out.
        gap = coverage_findings(draft, key)
        new = (fault for fault in only_errors(draft.findings(goal)) if fault not in known)
        return (*gap, *(fault for fault in new if not gap or fault.action not in {None, key}))

    return faults


def coverage_findings(draft: PlanDraft, key: ActionKey) -> tuple[Finding, ...]:
    """Return an error if a compound has no open children, or if they do not cover its effects that do not hold yet.

    A skipped or unknown compound has no errors.
    """
    goal, compound = draft.goal_of(key), draft.action(key)
    if goal is None or compound is None or draft.progress.status(key) == "skipped":
        return ()
    open_children = [
        child
        for child in goal.actions
        # The effects of a child that has ended hold already, or never will.
        if child.parent == key and draft.progress.status(child.key) in {"pending", "blocked", *IN_PROGRESS_STATUSES}
    ]
    if not open_children:
        fix = f"Create 2 to 7 actions with `parent: {key}`."
        return (_error_finding("no-children", goal.name, key, f"`{key}` has no open children", fix),)
    given = draft.progress.held(goal.name).union(*(child.effects for child in open_children))
    open_effects = [effect for effect in compound.effects if effect not in given]
    if not open_effects:
        return ()
    fix = f"Add children with these effects to `{key}`."
    return (
        _error_finding("uncovered", goal.name, key, f"no child of `{key}` makes {quoted_list(open_effects)} true", fix),
    )


def _error_finding(code: str, goal: str, key: ActionKey, message: str, fix: str) -> Finding:
    return Finding(code=code, severity="error", goal=goal, action=key, message=message, fix=fix)


def _require_action(store: Store, action_id: ActionId) -> Action:
    action = store.actions.get(action_id)
    if action is None:
        raise LookupError(action_id)
    return action
