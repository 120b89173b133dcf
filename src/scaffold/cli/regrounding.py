"""What a run that is gone on with rests on, whether by `resume` or by `run --yes` with the same input."""

from scaffold.cli.quality import regrounded
from scaffold.cli.settings import load_settings
from scaffold.cli.trusted import trusted_folder
from scaffold.core.model import Run, RunSettings
from scaffold.worker.site import Site


def settings_now(site: Site, run: Run, *, trust_once: bool) -> RunSettings:
    """Return the run's settings, those of its baseline as they are configured now if it has none."""
    if site.store.baselines.of_run(run.id) is not None:
        return run.settings
    root, environ = site.repository.root, site.environ
    trusted = trusted_folder(root, environ, once=trust_once).trusted
    return regrounded(run.settings, load_settings(root, environ, {}, trust_once=trust_once), trusted=trusted)
