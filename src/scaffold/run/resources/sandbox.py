"""The sandbox of a run's agents and checks, and the services of its checks: inside it, or outside by compose."""

import re
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from msgspec import Struct, structs

from scaffold.core.model import Run
from scaffold.core.proof.gates import CheckEnvironment
from scaffold.core.run_settings import SandboxSettings
from scaffold.git.checkouts.worktree import find_worktree
from scaffold.git.repository import Repository
from scaffold.host.atomic_files import delete_folder_if_possible
from scaffold.host.child_environment import child_environment, path_outside
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.host.sandbox.launch import temporary_variables
from scaffold.host.sandbox.level import LEVEL_CACHE
from scaffold.host.user_dirs import user_dirs
from scaffold.policy.command_sandbox import SandboxInputs, probe_level, require_agreement, with_egress
from scaffold.policy.sandbox_profile import build_sandbox_spec
from scaffold.run.context import RunContext
from scaffold.run.notices import warn
from scaffold.verify.services import compose
from scaffold.verify.services.compose import DAEMON_VARIABLES, ComposeContext
from scaffold.verify.services.lifecycle import Services, stop_leftovers
from scaffold.verify.services.specs import external_services


@asynccontextmanager
async def open_sandbox(context: RunContext, run: Run, root: Path, *, name: str) -> AsyncIterator[SandboxSpec | None]:
    """Yield the sandbox for commands in the worktree `root`; None if there is none, TrustError if one is required.

    Its temporary folder is new, in the folder that `name` selects: an attempt's id, or the merge queue's name.
    """
    # The project's skills are in the checkout; the user's own are in a home whose settings are hidden.
    own = tuple(Path(each.file).parent for each in run.settings.extensions.skills if each.file.startswith("/"))
    place = SandboxPlace(context.repository, context.cache, context.environ, context.temporary(run.id, name), own)
    async with open_checkout_sandbox(run.settings.sandbox, place, root) as sandbox:
        yield sandbox


class SandboxPlace(Struct, frozen=True):
    """The repository that commands work on, and the folders that their sandboxes need."""

    repository: Repository
    cache: Path
    """The user's cache directory for Scaffold."""
    environ: Mapping[str, str]
    """The environment of this process."""
    temporary: Path
    """The folder in which temporary folders of commands are created."""
    shown: tuple[Path, ...] = ()
    """Other folders that commands may read."""


@asynccontextmanager
async def open_checkout_sandbox(
    settings: SandboxSettings, place: SandboxPlace, root: Path
) -> AsyncIterator[SandboxSpec | None]:
    """Yield the sandbox for commands in one of our checkouts of a repository, as `open_sandbox` does.

    Every gate, check, set-up and hook of a run comes through here: TrustError if they would run without a sandbox, to
    which the user has not agreed.
    """
    dirs, state = user_dirs(), place.repository.common_dir / "scaffold"
    inputs = SandboxInputs(
        root=root,
        home=Path.home(),
        temporary=_new_folder(place.temporary),
        # The state folder has the contracts and results that decide about the
        # work; the git directory itself must stay readable.
        private=(dirs.config, dirs.data, place.cache, state),
        shown=(place.repository.common_dir, *place.shown),
        searched=(root, place.repository.root),
        git=find_worktree(place.repository, root),
        disposable=True,
    )
    cache = place.cache / LEVEL_CACHE
    spec = await build_sandbox_spec(settings, inputs, place.environ, cache=cache)
    if spec is None:
        require_agreement(settings, await probe_level(root, place.environ, cache=cache))
    async with with_egress(spec) as sandbox:
        yield sandbox


def with_new_temporary_folder(sandbox: SandboxSpec | None) -> SandboxSpec | None:
    """Return the sandbox with a new temporary folder, which holds caches, too; None for no sandbox.

    Nothing is handed over in it: what an agent's command left behind could make a check pass.
    """
    if sandbox is None:
        return None
    confinement = sandbox.confinement
    temporary = _new_folder(confinement.temporary.parent)
    return structs.replace(sandbox, confinement=structs.replace(confinement, temporary=temporary))


def folders_without_sandbox(context: RunContext, run: Run, sandbox: SandboxSpec | None, *, name: str) -> dict[str, str]:
    """Return variables that give commands without a sandbox a new temporary folder with caches.

    Empty for commands in a sandbox, which sets these variables itself.
    """
    return {} if sandbox else temporary_variables(_new_folder(context.temporary(run.id, name)))


def _new_folder(above: Path) -> Path:
    # A folder that commands can write could be replaced by a link before it is used.
    above.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="", dir=above)).resolve()


def remove_temporary_folder(context: RunContext, run: Run, *, name: str) -> None:
    """Remove the temporary folders of this name and their content; ignore files that cannot be removed."""
    delete_folder_if_possible(context.temporary(run.id, name))


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
        environ=child_environment(
            context.environ,
            {"PATH": path_outside(context.environ, context.repository.root)},
            names=(*run.settings.environment.variables, *DAEMON_VARIABLES),
        ),
        clean=context.clean,
        tell=partial(warn, context, run.id),
    )
