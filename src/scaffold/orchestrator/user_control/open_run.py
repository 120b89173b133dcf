"""Create a run in the store, and change its settings."""

import hashlib
from datetime import datetime

from msgspec import Struct

from scaffold.core.errors import PlanInvalid
from scaffold.core.events import NoticeRaised, RunCreated
from scaffold.core.ids import ActionKey, RunId
from scaffold.core.model import ProcessIdentity, Run
from scaffold.core.plan import Plan
from scaffold.core.proof.specification_audit import Requirement
from scaffold.core.run_settings import RunSettings, TaskFormat
from scaffold.core.states import Planning
from scaffold.git.repository import CheckoutStatus, starting_point
from scaffold.host.process_identity import own_identity
from scaffold.host.random_ids import new_id
from scaffold.orchestrator.owner.run_lease import claim_run
from scaffold.orchestrator.planning.agent_advice import advice_for
from scaffold.orchestrator.planning.apply_plan import as_started, new_goal, with_agreed_actions
from scaffold.run.attempts.lease import owner_transaction
from scaffold.run.context import RunContext
from scaffold.run.new_actions import new_actions
from scaffold.store.database import Store
from scaffold.views.store_reader import is_executed, is_interrupted

EMPTY_PLAN = Plan(goals=())
"""The plan of a run that has not been planned yet."""


class RunInput(Struct, frozen=True, kw_only=True):
    """The input of a run."""

    request: str
    source: str
    """The text that identifies the input: the request, or the text of the plan."""
    plan: Plan = EMPTY_PLAN
    task_format: TaskFormat | None = None
    """The format of the list of tasks that the plan was made from; None without one."""
    listed: tuple[ActionKey, ...] = ()
    """The open tasks of that list."""
    requirements: tuple[Requirement, ...] = ()
    """The requirements for audits; empty if the planner lists them, or if there are none."""


class RunOpened(Struct, frozen=True):
    """The input is new: this run was stored, and this process owns it."""

    run: Run


class RunTakenOver(Struct, frozen=True):
    """This run of the same input was interrupted; this process owns it now."""

    run: Run


class RunExecutedElsewhere(Struct, frozen=True):
    """A live process is executing this run, which was started in the same way."""

    run: Run


RunStart = RunOpened | RunTakenOver | RunExecutedElsewhere
"""The result of starting an input."""


def reject_childless_compounds(plan: Plan) -> None:
    """Raise PlanInvalid if a compound has no children; without a planner it could never run."""
    parents = {action.parent for action in plan.actions}
    for action in plan.actions:
        if action.kind == "compound" and action.key not in parents:
            raise PlanInvalid(
                f"the compound action `{action.key}` has no children, and there is no planner to decompose it",
                f"Give it children (actions with `parent: {action.key}`) or make it primitive.",
            )


def input_hash(text: str, settings: RunSettings) -> str:
    """Return a hash of the plan's text and the model that executes it; a changed cassette is another model."""
    # Names have no NUL, so different inputs have different content.
    content = f"{settings.model.name}\0{settings.model.cassette_hash}\0{text}"
    return hashlib.sha256(content.encode(errors="surrogateescape")).hexdigest()


async def start_run(context: RunContext, work: RunInput, settings: RunSettings) -> Run:
    """Store and return a run of this process at the checked-out commit, with status `planning`."""
    survey = await starting_point(context.repository)
    now = context.clock.now()
    return open_run(context.store, work, survey=survey, settings=settings, now=now, owner=own_identity())


async def start_run_once(context: RunContext, work: RunInput, settings: RunSettings) -> RunStart:
    """Store a run for a new input, or find or take over the run of the same input, in one transaction.

    An interrupted run of the input is taken over; the caller may give it other settings. A run that a process is
    executing is the same only with the same settings, started at the commit that is checked out now.
    """
    store, survey = context.store, await starting_point(context.repository)
    # Owned from the start: a new run must not look like an interrupted one.
    run = _new_run(work, survey, settings, context.clock.now(), own_identity())
    with store.transaction(durable=True):
        for known in store.runs.by_input(run.input_hash):
            if is_interrupted(known):
                claim_run(store, known)
                return RunTakenOver(store.runs.get(known.id) or known)
            if is_executed(known) and (as_started(known.settings), known.base_sha, known.base_branch) == (
                as_started(settings),
                survey.head,
                survey.branch,
            ):
                return RunExecutedElsewhere(known)
        _add_run(store, run, work)
    return RunOpened(run)


def open_run(
    store: Store,
    work: RunInput,
    *,
    survey: CheckoutStatus,
    settings: RunSettings,
    now: datetime,
    owner: ProcessIdentity | None = None,
) -> Run:
    """Store and return a run with its goals and actions, with status `planning`."""
    run = _new_run(work, survey, settings, now, owner)
    with store.transaction(durable=True):
        _add_run(store, run, work)
    return run


def _new_run(
    work: RunInput, survey: CheckoutStatus, settings: RunSettings, now: datetime, owner: ProcessIdentity | None
) -> Run:
    agents, fixed = settings.tier.agents, settings.choice.fixed_agents
    run_id, advice = RunId(new_id()), advice_for(work.plan, agents, settings.limits, fixed=fixed)
    return Run(
        id=run_id,
        request=work.request,
        input_hash=input_hash(work.source, settings),
        state=Planning(),
        base_branch=survey.branch,
        base_sha=survey.head,
        session_branch=f"session-{run_id}",
        settings=with_agreed_actions(settings, work.plan.actions),
        owner=owner,
        advised_agents=advice.agents if advice else None,
        advice=advice.why if advice else "",
        created_at=now,
        updated_at=now,
    )


def _add_run(store: Store, run: Run, work: RunInput) -> None:
    # In the caller's transaction, so that no run has half its plan.
    plan = work.plan
    store.runs.add(run)
    store.requirements.add(run.id, work.requirements)
    store.events.append(
        run.id, RunCreated(run.request, run.base_sha, run.session_branch, len(plan.goals), len(plan.actions))
    )
    if chosen := run.settings.choice.text(run.settings.tier.name):
        store.events.append(run.id, NoticeRaised("info", chosen))
    position = 0
    for spec in plan.goals:
        goal = new_goal(spec, run, now=run.created_at)
        store.goals.add(goal)
        actions = new_actions(spec.actions, goal, position=position, now=run.created_at)
        position += len(actions)
        store.actions.add(actions)


def reconfigure_run(context: RunContext, run: Run, settings: RunSettings) -> None:
    """Store new settings of a run, which its processes read from now on.

    Raises StaleFence if another process took the run since it was read.
    """
    before = run.settings
    if settings == before:
        return
    with owner_transaction(context.store, run):
        context.store.runs.configure(run.id, settings)
        # Other approvals may be needed now; those that still are will be asked for again.
        if (settings.sandbox, settings.permissions.yolo) != (before.sandbox, before.permissions.yolo):
            context.store.inbox.withdraw(run.id)
        # Checks may have other results in another sandbox, so the baseline is captured again.
        if settings.sandbox != before.sandbox:
            context.store.baselines.drop(run.id, results=False)
