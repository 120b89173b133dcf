"""The environment of a worktree's commands and of a candidate's checks, new if the work changed its dependencies."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path

from msgspec import Struct, structs

from scaffold.core.ids import Commit
from scaffold.core.model import Run
from scaffold.core.printable_text import join_limited
from scaffold.core.proof.gates import CheckEnvironment
from scaffold.git import commits
from scaffold.policy.secret.command_environment import command_environment, relocated
from scaffold.run.context import RunContext
from scaffold.run.notices import inform
from scaffold.run.resources.sandbox import open_sandbox, remove_temporary_folder
from scaffold.verify.check_readiness import NotReady
from scaffold.verify.contract.check_runs import During, HookPlace
from scaffold.verify.environment.check_env import PYTHON_PATH
from scaffold.verify.environment.install_commit import code_in_manifests, code_of_packages, install_commit
from scaffold.verify.environment.later_commit import (
    DependencyChange,
    dependency_change,
    environment_of_commit,
    names_of,
)
from scaffold.verify.environment.preparation import EnvironmentRequest, PreparedEnvironment, prepare_environment
from scaffold.verify.environment.provisioning import provision_checkout
from scaffold.verify.gates.detection import detect_at_commit

FIXED = ("PATH", "HOME")
"""Variables whose paths keep pointing to the user's checkout, whose programs are used in place."""
MAX_NAMED = 3
SETUP_FOLDER = "setup"
"""Name of the temporary folder of the setup commands."""


class CandidateEnvironment(Struct, frozen=True):
    """The environment of a commit's checks."""

    environment: CheckEnvironment
    lacks: str = ""
    """Which new dependencies are not in it, why, and what to do; empty if none are missing."""


def environment_request(
    context: RunContext,
    run: Run,
    base: Commit,
    setup: tuple[str, ...],
    *,
    sandbox: str,
    during: During,
    name: str = SETUP_FOLDER,
) -> EnvironmentRequest:
    """Return the request for an environment of a commit; `name` selects the set-up's temporary folder."""
    environment = run.settings.environment
    return EnvironmentRequest(
        repository=context.repository,
        base=base,
        setup=setup,
        trusted=environment.trusted,
        services=environment.services,
        include=environment.include,
        sandbox=sandbox,
        cache=context.cache,
        environ=command_environment(context.environ, names=environment.variables),
        open_sandbox=partial(open_sandbox, context, run, name=name),
        clean=context.redactor.clean,
        during=during,
        tell=lambda command: inform(context, run.id, f"Setting up the check environment: {command}"),
    )


async def landed() -> bool:
    """Return True: code that has landed may run."""
    return True


async def environment_at(
    context: RunContext,
    run: Run,
    base: CheckEnvironment,
    commit: Commit,
    *,
    during: During,
    may_run: Callable[[], Awaitable[bool]] = landed,
) -> CandidateEnvironment:
    """Return the environment of a commit; `base` is the environment of the run's base commit.

    If the work changed dependencies, they are set up for it, where set-up commands may run; otherwise the environment
    of the base has to do. A set-up may run code of the commit, so `may_run` is asked first.
    """
    if commit == run.base_sha:
        return CandidateEnvironment(base)
    git = context.git
    changes = await commits.path_changes(git, run.base_sha, commit)
    fitting = await environment_of_commit(base, git, changes, made_at=run.base_sha, commit=commit)
    change = await dependency_change(git, [change.path for change in changes], run.base_sha, commit)
    if change is None or not await may_run():
        return CandidateEnvironment(fitting)
    found = await _set_up(context, run, base, commit, change, during)
    if isinstance(found, str):
        names = names_of(change.added)  # a change that only removes dependencies lacks nothing
        lacks = f"Not installed here: {join_limited(names, MAX_NAMED)}. {found}." if names else ""
        return CandidateEnvironment(fitting, lacks)
    # The source folders that come first are a matter of the commit, not of what is installed.
    paths = {name: value for name, value in fitting.variables.items() if name == PYTHON_PATH}
    variables = {**found.variables, **paths}
    brought = await asyncio.to_thread(code_of_packages, found, base, programs=_programs(context, base))
    made = found.made_by_work or join_limited(brought, MAX_NAMED)
    return CandidateEnvironment(
        structs.replace(found, variables=variables, installed=base.installed, made_by_work=made)
    )


async def _set_up(
    context: RunContext, run: Run, base: CheckEnvironment, commit: Commit, change: DependencyChange, during: During
) -> CheckEnvironment | str:
    configured = run.settings.environment.setup
    setup = (await detect_at_commit(context.git, commit)).setup if configured is None else configured
    if not setup:
        return "Name the command that installs what the work needs in `setup`"
    if not run.settings.environment.trusted:
        return "`scaffold trust` lets set-up install what the work needs"
    name = f"{SETUP_FOLDER}-{commit[:12]}"
    request = environment_request(context, run, commit, setup, sandbox=base.fingerprint, during=during, name=name)
    request, programs = structs.replace(request, renewed=change.folders), _programs(context, base)
    made = await code_in_manifests(context.git, run.base_sha, commit, programs=programs)
    try:
        if not made:
            found = await _without_its_code(context, run, request)
            if not isinstance(found, str):
                return found
            made = (found,)
        prepared = await prepare_environment(structs.replace(request, made_by_work=join_limited(made, MAX_NAMED)))
    finally:
        await asyncio.to_thread(remove_temporary_folder, context, run, name=name)
    match prepared:
        case PreparedEnvironment(environment=environment):
            return environment
        case NotReady(what=what):
            return what


async def _without_its_code(context: RunContext, run: Run, request: EnvironmentRequest) -> CheckEnvironment | str:
    """Return the environment of the request's commit, made by none of its code, or why that is impossible."""
    git, commit = context.git, request.base
    place = await install_commit(git, run.base_sha, commit, folder=context.run_folder(run.id))
    prepared = await prepare_environment(structs.replace(request, base=place))
    if isinstance(prepared, NotReady):
        return f"without its code {prepared.what}"
    changes = await commits.path_changes(git, place, commit)
    fitting = await environment_of_commit(prepared.environment, git, changes, made_at=place, commit=commit)
    return "generated files" if prepared.environment.built and not fitting.built else fitting


def _programs(context: RunContext, environment: CheckEnvironment) -> str:
    """Return the PATH of checks, with the folders from which installed ones are copied."""
    copied = (f"{each.source}/{name}" for each in environment.copies for name in ("bin", ".bin"))
    return os.pathsep.join((*copied, *environment.path, context.environ.get("PATH", os.defpath)))


def worktree_environment(context: RunContext, run: Run, worktree: Path, *, marks: Mapping[str, str]) -> dict[str, str]:
    """Return the user's environment without secrets, with paths in the checkout replaced by those in `worktree`.

    `marks` are further variables.
    """
    own = command_environment(context.environ, names=run.settings.environment.variables)
    return relocated(own, context.repository.root, worktree, fixed=FIXED) | dict(marks)


def hook_place(context: RunContext, run: Run, environment: CheckEnvironment | None) -> HookPlace | None:
    """Return the place for the repository's commit hooks; None if the folder is not trusted."""
    if not run.settings.environment.trusted:
        return None
    return HookPlace(
        common_dir=context.repository.common_dir,
        prepare=partial(provision_checkout, environment),
        trusted=run.settings.environment.hooks,
    )
