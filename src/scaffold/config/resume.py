"""The settings that a run continues with, after `resume` or after `run --yes` with the same input."""

from msgspec.structs import replace

from scaffold.agent.model_access import resolve_model
from scaffold.config.folder_trust import folder_trust
from scaffold.config.proof import refresh_gate_settings, with_tier
from scaffold.config.run_flags import RunFlags
from scaffold.config.settings import load_settings
from scaffold.core.errors import UsageError
from scaffold.core.model import Run
from scaffold.core.run_settings import RunSettings
from scaffold.llm.model_factory import cassette_digest
from scaffold.run.context import RunContext


def resume_settings(site: RunContext, run: Run, flags: RunFlags) -> RunSettings:
    """Return the settings stored with the run, overridden by the flags.

    A run without a baseline takes the gate settings as they are configured now. Raises UsageError if the run's cassette
    has changed.
    """
    return _with_flags(site, run, _with_current_gates(site, run, trust_once=flags.trust_once), flags)


def _with_current_gates(site: RunContext, run: Run, *, trust_once: bool) -> RunSettings:
    if site.store.baselines.of_run(run.id) is not None:
        return run.settings
    root, environ = site.repository.root, site.environ
    trusted = folder_trust(root, environ, once=trust_once).trusted
    return refresh_gate_settings(run.settings, load_settings(root, environ, {}, trust_once=trust_once), trusted=trusted)


def _with_flags(site: RunContext, run: Run, settings: RunSettings, flags: RunFlags) -> RunSettings:
    if flags.model is not None:
        model, digest = resolve_model(flags.model)
        settings = replace(settings, model=replace(settings.model, name=model, cassette_hash=digest))
    elif cassette_digest(settings.model.name) != settings.model.cassette_hash:
        raise UsageError(
            f"the cassette of run {run.id} has changed since the run started",
            f"Restore the file, or choose another with `scaffold resume {run.id} --model cassette:FILE`.",
        )
    if flags.tier is not None:
        chosen = load_settings(site.repository.root, site.environ, {"tier": flags.tier}, trust_once=flags.trust_once)
        settings = with_tier(settings, chosen)
    if flags.agents is not None:
        settings = replace(settings, tier=replace(settings.tier, agents=flags.agents))
    if flags.budget_usd is not None:
        settings = replace(settings, limits=replace(settings.limits, budget_usd=flags.budget_usd))
    if flags.sandbox is not None:
        settings = replace(settings, sandbox=replace(settings.sandbox, mode=flags.sandbox))
    if flags.yolo:
        settings = replace(settings, permissions=replace(settings.permissions, yolo=True))
    return settings
