"""How many actions the plan counts as that the user agreed to: stored once, so no later proposal raises a limit."""

from collections.abc import Sequence

from msgspec import structs

from scaffold.core.model import Run
from scaffold.core.plan import ActionSpec
from scaffold.core.run_settings import RunSettings
from scaffold.orchestrator.planning.apply_plan import stored_plan
from scaffold.plan.budget import agreed_actions
from scaffold.store.database import Store


def with_agreed_actions(settings: RunSettings, actions: Sequence[ActionSpec]) -> RunSettings:
    """Return the settings of a run with this plan; those of a run without actions, or with a stored number, as is."""
    if settings.limits.agreed_actions or not actions:
        return settings
    number = agreed_actions(settings.planning, actions)
    return structs.replace(settings, limits=structs.replace(settings.limits, agreed_actions=number))


def as_started(settings: RunSettings) -> RunSettings:
    """Return the settings as the run was started with them, before it had a plan."""
    return structs.replace(settings, limits=structs.replace(settings.limits, agreed_actions=0))


def store_agreed_actions(store: Store, run: Run) -> Run:
    """Store how many actions the run's plan counts as, unless that is stored, or there is none; return the run."""
    if run.settings.limits.agreed_actions:
        return run
    with store.transaction():
        now = store.runs.get(run.id) or run
        settings = with_agreed_actions(now.settings, stored_plan(store, run).actions)
        if settings == now.settings:
            return run
        store.runs.configure(run.id, settings)
    return structs.replace(run, settings=settings)
