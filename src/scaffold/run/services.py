"""Services of a run's checks, inside the sandbox and, by compose, outside of it."""

import re
from functools import partial

from scaffold.core.gates import CheckEnvironment
from scaffold.core.model import Run
from scaffold.host.environment import child_environment
from scaffold.run.context import RunContext
from scaffold.run.notices import warn
from scaffold.verify.services import compose
from scaffold.verify.services.compose import DAEMON_VARIABLES, ComposeContext
from scaffold.verify.services.lifecycle import Services, stop_leftovers
from scaffold.verify.services.specs import external_services


def check_services(context: RunContext, run: Run, environment: CheckEnvironment | None) -> Services:
    """Return the services that run for each check of the run."""
    lines = environment.services if environment else ()
    return Services(lines, _compose_project(context, run) if external_services(lines) else None)


async def stop_leftover_services(context: RunContext, run: Run) -> None:
    """Stop external services that killed checks of the run left running.

    This ignores the run's current settings: they may have requested other services when it started.
    """
    await stop_leftovers(_compose_project(context, run))


def leftover_services(context: RunContext, run: Run) -> dict[str, str]:
    """Return the external services still running: the stop command of each by its project name."""
    return {
        project.name: compose.manual_stop_command(project)
        for project in compose.projects_of_run(_compose_project(context, run))
    }


def _compose_project(context: RunContext, run: Run) -> ComposeContext:
    return ComposeContext(
        name=f"scaffold_{re.sub('[^a-z0-9_-]', '-', run.id.casefold())}",
        repository=context.repository,
        base=run.base_sha,
        folder=context.services_folder(run.id),
        shared=context.cache / "services",
        environ=child_environment(context.environ, names=(*run.settings.environment.variables, *DAEMON_VARIABLES)),
        clean=context.redactor.clean,
        tell=partial(warn, context, run.id),
    )
