"""What a user should know of a worker's surroundings, told once in a run."""

from scaffold.core.events import Noticed
from scaffold.core.ids import RunId
from scaffold.worker.site import Site


def warn(site: Site, run_id: RunId, text: str) -> None:
    """Leave a warning in the run, unless it stands there already; secrets are taken out."""
    _tell(site, run_id, Noticed("warning", site.redactor.clean(text)))


def inform(site: Site, run_id: RunId, text: str) -> None:
    """Leave a note in the run, unless it stands there already; secrets are taken out."""
    _tell(site, run_id, Noticed("info", site.redactor.clean(text)))


def _tell(site: Site, run_id: RunId, notice: Noticed) -> None:
    with site.store.transaction():
        if all(recorded.event != notice for recorded in site.store.events.since(run_id, 0)):
            site.store.events.append(run_id, notice)
