"""The models of one attempt: that of its work, and those of the agents that advise on it."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from scaffold.agent.model_access import connect_run_model
from scaffold.core.ports import Model
from scaffold.core.run_settings import RunSettings
from scaffold.llm.transport.live_context import Patience
from scaffold.run.attempts.assignment import Assignment
from scaffold.worker.agent.side_agent import SideRole


@asynccontextmanager
async def connect_work_models(
    task: Assignment, *, patience: Patience
) -> AsyncIterator[tuple[Model, Mapping[str, Model]]]:
    """Yield the model of the work, and by role the models of agents that have another one.

    The second reviewer opens its own, if it is asked. Raises as `connect_model` does.
    """
    settings = task.run.settings
    work = settings.worker_model(task.action.role, task.action.type, alternative=task.attempt.alternative)
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(connect_run_model(work, patience=patience))
        opened, side = {(work.name, work.others): model}, dict[str, Model]()
        for role in _side_roles(settings):
            own = settings.agent_model(role)
            place = (own.name, own.others)
            if place not in opened:
                opened[place] = await stack.enter_async_context(connect_run_model(own, patience=patience))
            if opened[place] is not model:
                side[role] = opened[place]
        yield model, side


def _side_roles(settings: RunSettings) -> Iterator[SideRole]:
    if settings.planning.drafter:
        yield "drafter"
    if settings.planning.critic:
        yield "critic"
    if settings.learning.extract:
        yield "learner"
