"""What a run that is gone on with rests on, whether by `resume` or by `run --yes` with the same input."""

from scaffold.config.folder_trust import folder_trust
from scaffold.config.proof import refresh_gate_settings
from scaffold.config.settings import load_settings
from scaffold.core.model import Run
from scaffold.core.run_settings import RunSettings
from scaffold.run.context import RunContext


def resume_settings(site: RunContext, run: Run, *, trust_once: bool) -> RunSettings:
    """Return the run's settings, those of its baseline as they are configured now if it has none."""
    if site.store.baselines.of_run(run.id) is not None:
        return run.settings
    root, environ = site.repository.root, site.environ
    trusted = folder_trust(root, environ, once=trust_once).trusted
    return refresh_gate_settings(run.settings, load_settings(root, environ, {}, trust_once=trust_once), trusted=trusted)
