"""The limit in tokens of a run that does not exist yet, for `--dry-run`: no model is opened for it."""

from collections.abc import Iterator

from msgspec import structs

from scaffold.config.run.effective_settings import RunFlags, planning_settings, run_limits
from scaffold.config.run.spending_limits import with_default_tokens
from scaffold.config.schema.parsers import SIZES
from scaffold.config.settings import Settings
from scaffold.core.plan import Plan
from scaffold.core.run_settings import ModelSettings
from scaffold.plan.budget import agreed_actions, spending_limits


def planned_tokens(settings: Settings, flags: RunFlags, plan: Plan) -> int | None:
    """Return how many tokens a run of this plan may use; None if a limit in dollars takes the place of the default.

    A plan without actions is a request that is yet to be planned.
    """
    models = [ModelSettings(name=name) for name in _model_names(settings)]
    limits = with_default_tokens(run_limits(settings), settings, settings.tier(), models)
    if plan.actions:
        planning = planning_settings(settings, flags, planner=False)
        limits = structs.replace(limits, agreed_actions=agreed_actions(planning, plan.actions))
    return spending_limits(limits).tokens


def _model_names(settings: Settings) -> Iterator[str]:
    chosen = settings.text("model")
    for word in SIZES if chosen is None else (chosen,):
        yield from settings.models(word)
