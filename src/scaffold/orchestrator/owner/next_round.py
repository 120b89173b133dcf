"""What follows once all goals of a run in rounds are reached: an audit, another round of its prompt, or its end."""

from collections.abc import Awaitable, Callable, Sequence
from typing import assert_never

from msgspec import Struct, structs

from scaffold.core.errors import ScaffoldError
from scaffold.core.events import NoticeRaised
from scaffold.core.ids import Commit
from scaffold.core.model import Run
from scaffold.core.plan import GoalSpec
from scaffold.core.printable_text import count_of
from scaffold.core.proof.gates import GateResult
from scaffold.core.states import Cancelled, Failed
from scaffold.landing.facts.landing_record import session_tip
from scaffold.orchestrator.owner.run_baseline import regression_reason
from scaffold.orchestrator.owner.run_end import FinalGateStatus
from scaffold.orchestrator.planning.apply_plan import apply_changes
from scaffold.orchestrator.planning.projects import project_changes, project_goal
from scaffold.plan.compliance.requirements import gap_tasks
from scaffold.plan.compliance.rounds import (
    CloseGaps,
    ComplianceView,
    Complied,
    GaveUp,
    StartAudit,
    audit_goal,
    gaps_name,
    next_round,
)
from scaffold.plan.source.prompt_loop import PromptLoop, round_goal
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext
from scaffold.views.compliance import read_compliance


class RoundAdded(Struct, frozen=True):
    """The run has another goal."""


class RoundsOver(Struct, frozen=True):
    """No round follows; `failure` says why the requirements will not be met, None if they are."""

    failure: str | None = None


async def judge_end(
    context: RunContext, run: Run, gates: Callable[[], Awaitable[Sequence[GateResult]]]
) -> FinalGateStatus | None:
    """Return the final verdict on a run whose goals are all reached; None if another round has begun.

    `gates` runs all gates at the tip of its branch.
    """
    rounds = await begin_next_round(context, run)
    if isinstance(rounds, RoundAdded):
        return None
    broken = regression_reason(await gates())
    failures = [each for each in (broken, rounds.failure) if each is not None]
    return Failed("; ".join(failures)) if failures else "proven"


async def begin_next_round(context: RunContext, run: Run) -> RoundAdded | RoundsOver:
    """Add the goal of the next round, if any, to a run without open goals.

    Safe to repeat: it reads the rounds and adds the goal in one transaction.
    """
    if run.settings.planning.rounds:
        return _next_of_prompt(context, run)
    if run.settings.planning.until_complied:
        return _next_audit(context, run, await session_tip(context, run))
    return RoundsOver()


def _next_of_prompt(context: RunContext, run: Run) -> RoundAdded | RoundsOver:
    # Until a round changes nothing, or there have been too many.
    store, loop = context.store, PromptLoop(prompt=run.request, max_rounds=run.settings.planning.rounds)
    with owner_transaction(store, run, durable=True):
        actions = [action for action in store.actions.for_run(run.id) if action.method == "round"]
        attempts = store.attempts.for_action(actions[-1].id) if actions else ()
        if not attempts or attempts[-1].outcome != "landed":
            return RoundsOver()
        if len(actions) >= loop.max_rounds:
            limit = count_of(loop.max_rounds, "round")
            return RoundsOver(f"{limit} are over, which is the limit, and the last one still changed something")
        return _add_goal(context, run, round_goal(loop, len(actions) + 1), f"round {len(actions)} has landed")


def _next_audit(context: RunContext, run: Run, tip: Commit) -> RoundAdded | RoundsOver:
    """Add an audit or the tasks for the last one's gaps, unless all requirements are met or no progress is made."""
    store = context.store
    with owner_transaction(store, run, durable=True):
        compliance = read_compliance(store, run)
        if compliance is None or not compliance.requirements:
            return RoundsOver("the run has no requirements to audit")
        cancelled = [goal.name for goal in store.goals.for_run(run.id) if isinstance(goal.state, Cancelled)]
        if cancelled:
            return RoundsOver(f"{compliance.summary}, and {', '.join(cancelled)} was cancelled")
        view = ComplianceView(
            requirements=compliance.requirements, audits=compliance.audits, has_tasks=compliance.has_tasks, tip=tip
        )
        step = next_round(view)
        match step:
            case Complied():
                return RoundsOver()
            case GaveUp(reason=reason):
                return RoundsOver(reason)
            case StartAudit(number=number):
                goal = audit_goal(number, compliance.requirements)
            case CloseGaps(number=number, gaps=gaps):
                tasks = gap_tasks(compliance.audits[-1], compliance.requirements, gaps)
                goal = project_goal(gaps_name(number), f"The gaps that audit {number} found are closed.", tasks)
                # The audit may be wrong about a gap, so its task may have nothing to change.
                actions = tuple(structs.replace(each, method="round") for each in goal.actions)
                goal = structs.replace(goal, actions=actions)
            case _:
                assert_never(step)
        return _add_goal(context, run, goal, compliance.summary)


def _add_goal(context: RunContext, run: Run, goal: GoalSpec, before: str) -> RoundAdded | RoundsOver:
    # In the caller's transaction. A plan that already uses the names ends the rounds.
    try:
        apply_changes(context.store, run, project_changes(goal), now=context.clock.now())
    except ScaffoldError as error:
        return RoundsOver(f"{goal.name} cannot be added: {error.what}")
    text = f"{before}; {goal.name} begins with {count_of(len(goal.actions), 'action')}."
    context.store.events.append(run.id, NoticeRaised("info", text))
    return RoundAdded()
