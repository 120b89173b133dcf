"""Create a run in the store from a plan."""

import hashlib
from datetime import datetime

from scaffold.core.errors import PlanInvalid
from scaffold.core.events import RunCreated
from scaffold.core.ids import RunId
from scaffold.core.model import Run, RunSettings
from scaffold.core.plan import Plan
from scaffold.core.states import Planning
from scaffold.git.repository import CheckoutStatus
from scaffold.host.random_ids import new_id
from scaffold.orchestrator.planning.apply_plan import new_actions, new_goal
from scaffold.store.database import Store

EMPTY_PLAN = Plan(goals=())
"""The plan of a run that has not been planned yet."""


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
    """Return a hash that is equal for equal inputs: the plan's text and the model that executes it.

    A changed cassette counts as another model.
    """
    content = f"{settings.model}\0{settings.model_hash}\0{text}"
    return hashlib.sha256(content.encode(errors="surrogateescape")).hexdigest()


def open_run(
    store: Store, plan: Plan, *, request: str, survey: CheckoutStatus, settings: RunSettings, source: str, now: datetime
) -> Run:
    """Store a run with its goals and actions in one transaction and return it, with status `planning`.

    `source` is the text that the plan was read from.
    """
    run_id = RunId(new_id())
    run = Run(
        id=run_id,
        request=request,
        input_hash=input_hash(source, settings),
        state=Planning(),
        base_branch=survey.branch,
        base_sha=survey.head,
        session_branch=f"session-{run_id}",
        settings=settings,
        created_at=now,
        updated_at=now,
    )
    with store.transaction(durable=True):
        store.runs.add(run)
        store.events.append(
            run.id,
            RunCreated(request, run.base_sha, run.session_branch, len(plan.goals), len(plan.actions)),
        )
        position = 0
        for spec in plan.goals:
            goal = new_goal(spec, run, now=now)
            store.goals.add(goal)
            actions = new_actions(spec.actions, goal, position=position, now=now)
            position += len(actions)
            store.actions.add(actions)
    return run
