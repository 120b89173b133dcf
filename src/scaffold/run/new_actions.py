"""Actions of a plan as rows of a run."""

from collections.abc import Callable, Sequence
from datetime import datetime

from scaffold.core.ids import ActionId, ActionKey
from scaffold.core.model import Action, Goal
from scaffold.core.plan import ActionSpec, Method, text_fields
from scaffold.core.states import Pending
from scaffold.host.random_ids import new_id


def new_actions(
    specs: Sequence[ActionSpec],
    goal: Goal,
    *,
    position: int,
    now: datetime,
    parents: Callable[[ActionKey], ActionId] | None = None,
    method: Method = "single",
) -> tuple[Action, ...]:
    """Return pending actions for the goal, the first at `position` in the run's plan.

    `parents` returns the id of a parent that is not among `specs`; `method` applies to primitives that have none.
    """
    ids = {spec.key: ActionId(new_id()) for spec in specs}

    def parent_of(spec: ActionSpec) -> ActionId | None:
        if spec.parent is None:
            return None
        return ids[spec.parent] if parents is None or spec.parent in ids else parents(spec.parent)

    return tuple(
        Action(
            id=ids[spec.key],
            run_id=goal.run_id,
            goal_id=goal.id,
            parent_id=parent_of(spec),
            key=spec.key,
            **{**text_fields(spec), "description": spec.stored_description},
            kind=spec.kind,
            method=spec.method or ("htn" if spec.kind == "compound" else method),
            workspace=spec.workspace,
            executor=spec.executor,
            role=spec.role,
            preconditions=spec.preconditions,
            effects=spec.effects,
            files=spec.files,
            contract=spec.contract,
            state=Pending(),
            unmet=0,
            position=position + offset,
            created_at=now,
            updated_at=now,
        )
        for offset, spec in enumerate(specs)
    )
