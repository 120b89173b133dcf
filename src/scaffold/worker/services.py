"""Services of a run's checks: what its environment asks for, and the means for what is outside of the sandbox."""

import re
from functools import partial

from scaffold.core.gates import CheckEnvironment
from scaffold.core.model import Run
from scaffold.host.environment import child_environment
from scaffold.verify.services import compose
from scaffold.verify.services.attendance import Services, take_down_left
from scaffold.verify.services.compose import DAEMON, Outfit
from scaffold.verify.services.lines import outside_of
from scaffold.worker.notice import warn
from scaffold.worker.site import Site


def services_of(site: Site, run: Run, environment: CheckEnvironment | None) -> Services:
    """Return what runs for each check in the environment of a run."""
    lines = environment.services if environment else ()
    return Services(lines, _means(site, run) if outside_of(lines) else None)


async def forget_services(site: Site, run: Run) -> None:
    """Take down what checks of the run have left up outside, which only those do that were killed.

    Whatever the run's settings ask for: they may have asked for something else when it was started.
    """
    await take_down_left(_means(site, run))


def services_left(site: Site, run: Run) -> dict[str, str]:
    """Return what checks of the run have brought up outside and nobody has taken down: names, and commands for that."""
    return {project.name: compose.by_hand(project) for project in compose.noted_for(_means(site, run))}


def _means(site: Site, run: Run) -> Outfit:
    return Outfit(
        name=f"scaffold_{re.sub('[^a-z0-9_-]', '-', run.id.casefold())}",
        repository=site.repository,
        base=run.base_sha,
        folder=site.services_folder(run.id),
        shared=site.cache / "services",
        environ=child_environment(site.environ, names=(*run.settings.environment, *DAEMON)),
        clean=site.redactor.clean,
        tell=partial(warn, site, run.id),
    )
