"""From a plan to a run in the store."""

import hashlib
from collections.abc import Iterable
from datetime import datetime

from scaffold.core.errors import PlanInvalid
from scaffold.core.events import RunOpened
from scaffold.core.ids import ActionId, GoalId, RunId
from scaffold.core.model import Action, Goal, Run, RunSettings
from scaffold.core.plan import ActionSpec, GoalSpec, Plan
from scaffold.core.states import Pending, Planning
from scaffold.git.repository import Survey
from scaffold.host.ids import new_id
from scaffold.store.database import Store

PER_GOAL_CAP = 3


def refuse_what_cannot_run(plan: Plan) -> None:
    """Raise PlanInvalid for actions that nobody could carry out: reviews, and compounds without children."""
    for action in plan.actions:
        if action.role.endswith("_review") or action.role == "reviewer":
            raise PlanInvalid(
                f"the action `{action.key}` has the role `{action.role}`, and reviews cannot be proven by this version",
                "Leave review actions out of the plan, or give the work a role that changes files and a contract.",
            )
    parents = {action.parent for action in plan.actions}
    for action in plan.actions:
        if action.kind == "compound" and action.key not in parents:
            raise PlanInvalid(
                f"the compound action `{action.key}` has no children, and there is no planner to decompose it",
                f"Give it children (actions with `parent: {action.key}`), or make it primitive.",
            )


def input_hash(text: str, settings: RunSettings) -> str:
    """Return what tells whether the same input is run again: the plan's text and the model that carries it out.

    A cassette that was changed is another model.
    """
    given = f"{settings.model}\0{settings.model_hash}\0{text}"
    return hashlib.sha256(given.encode(errors="surrogateescape")).hexdigest()


def open_run(
    store: Store, plan: Plan, *, request: str, survey: Survey, settings: RunSettings, source: str, now: datetime
) -> Run:
    """Lay out a run with its goals and actions in one transaction and return it, in `planning`.

    `source` is the text the plan was read from.
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
            RunOpened(request, run.base_sha, run.session_branch, len(plan.goals), len(plan.actions)),
        )
        position = 0
        for spec in plan.goals:
            goal = _goal(spec, run)
            store.goals.add(goal)
            actions = list(_actions(spec.actions, goal, position))
            position += len(actions)
            store.actions.add(actions)
    return run


def _goal(spec: GoalSpec, run: Run) -> Goal:
    return Goal(
        id=GoalId(new_id()),
        run_id=run.id,
        name=spec.name,
        description=spec.description,
        desired=spec.goal_state,
        state=Planning(),
        persistent=spec.persistent,
        worker_cap=PER_GOAL_CAP,
        created_at=run.created_at,
        updated_at=run.created_at,
    )


def _actions(specs: Iterable[ActionSpec], goal: Goal, position: int) -> Iterable[Action]:
    specs = list(specs)
    ids = {spec.key: ActionId(new_id()) for spec in specs}
    for offset, spec in enumerate(specs):
        yield Action(
            id=ids[spec.key],
            run_id=goal.run_id,
            goal_id=goal.id,
            parent_id=ids[spec.parent] if spec.parent else None,
            key=spec.key,
            description=spec.description or spec.key,
            kind=spec.kind,
            method="htn" if spec.kind == "compound" else "single",
            role=spec.role,
            preconditions=spec.preconditions,
            effects=spec.effects,
            files=spec.files,
            contract=spec.contract,
            state=Pending(),
            unmet=0,
            position=position + offset,
            created_at=goal.created_at,
            updated_at=goal.created_at,
        )
