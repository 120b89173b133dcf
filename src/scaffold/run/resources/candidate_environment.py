"""The environment of a worktree's commands and of a candidate's checks, new if the work changed its dependencies."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from scaffold.core.ids import Commit
from scaffold.core.model import InboxItem, Run
from scaffold.core.printable_text import join_limited, utf8_safe
from scaffold.core.proof.gates import CheckEnvironment
from scaffold.git import commits
from scaffold.policy.secret.command_environment import command_environment, relocated
from scaffold.run.context import RunContext
from scaffold.run.notices import inform
from scaffold.run.resources.sandbox import open_sandbox, remove_temporary_folder
from scaffold.verify.check_readiness import NotReady
from scaffold.verify.contract.check_runs import During, HookPlace
from scaffold.verify.environment.check_env import PYTHON_PATH
from scaffold.verify.environment.dependencies import dependency_hashes, hash_lines, selects_dependencies
from scaffold.verify.environment.foreign_entries import UV_LOCK, work_sources
from scaffold.verify.environment.golden import ForeignSources
from scaffold.verify.environment.install_commit import code_in_manifests, code_of_packages, install_commit
from scaffold.verify.environment.later_commit import (
    DependencyChange,
    dependency_change,
    environment_of_commit,
    names_of,
)
from scaffold.verify.environment.preparation import EnvironmentRequest, prepare_environment
from scaffold.verify.environment.provisioning import provision_checkout
from scaffold.verify.environment.setup_network import hosts_in, setup_network
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
        clean=context.clean,
        during=during,
        tell=lambda command: inform(context, run.id, f"Setting up the check environment: {command}"),
    )


AskHuman = Callable[[str, Mapping[str, Any]], Awaitable[InboxItem]]
"""Takes the text and the detail of an approval; returns the decided item."""


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
    ask: AskHuman | None = None,
) -> CandidateEnvironment:
    """Return the environment of a commit; `base` is the environment of the run's base commit.

    If the work changed dependencies, they are set up for it, where set-up commands may run; otherwise the environment
    of the base has to do. A set-up may run code of the commit, so `may_run` is asked first. What needs more than
    the user's package indexes needs a human's agreement, which `ask` waits for; without it only earlier answers count.
    """
    if commit == run.base_sha:
        return CandidateEnvironment(base)
    git = context.git
    changes = await commits.path_changes(git, run.base_sha, commit)
    fitting = await environment_of_commit(base, git, changes, made_at=run.base_sha, commit=commit)
    change = await dependency_change(git, [change.path for change in changes], run.base_sha, commit)
    if change is None or not await may_run():
        return CandidateEnvironment(fitting)
    found = await _set_up(context, run, base, commit, change, during, ask)
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
    context: RunContext,
    run: Run,
    base: CheckEnvironment,
    commit: Commit,
    change: DependencyChange,
    during: During,
    ask: AskHuman | None,
) -> CheckEnvironment | str:
    configured = run.settings.environment.setup
    setup = (await detect_at_commit(context.git, commit)).setup if configured is None else configured
    if not setup:
        return "Name the command that installs what the work needs in `setup`"
    if not run.settings.environment.trusted:
        return "`scaffold trust` lets set-up install what the work needs"
    name = f"{SETUP_FOLDER}-{commit[:12]}"
    request = environment_request(context, run, commit, setup, sandbox=base.fingerprint, during=during, name=name)
    request = structs.replace(request, renewed=change.folders)
    made = await code_in_manifests(context.git, run.base_sha, commit, programs=_programs(context, base))
    changed = [each.path for each in await commits.path_changes(context.git, run.base_sha, commit)]
    indexes = setup_network(setup, request.environ, Path.home(), also=()).hosts
    sources = await work_sources(context.git, run.base_sha, commit, changed, indexes)
    programs = [f"{path}: a program" for path in made]
    if refusal := await _why_refused(context, run, (*sources.new, *programs), ask):
        return refusal
    unbuilt = sources.unbuilt if UV_LOCK in changed else None
    foreign = ForeignSources((*sources.hosts, *(host for each in sources.new for host in hosts_in(each))), unbuilt)
    taking_part = (*made, *(entry.partition(":")[0] for entry in sources.new))
    confined = structs.replace(request, foreign=foreign, made_by_work=join_limited(taking_part, MAX_NAMED))
    try:
        found = await (_prepare(confined) if programs else _prepare_without_code(context, run, confined))
        if isinstance(found, CheckEnvironment):
            return found
        manifests = sorted(filter(selects_dependencies, changed))
        locked = hash_lines(await dependency_hashes(context.git, commit))[:12]
        entry = f"{', '.join(manifests)} (as {locked}): {join_limited(names_of(change.added), MAX_NAMED)}"
        if refusal := await _why_refused(context, run, [entry], ask, without=found):
            return refusal
        return await _prepare(structs.replace(request, made_by_work=join_limited((*made, *manifests), MAX_NAMED)))
    finally:
        await asyncio.to_thread(remove_temporary_folder, context, run, name=name)


async def _prepare(request: EnvironmentRequest) -> CheckEnvironment | str:
    prepared = await prepare_environment(request)
    return prepared.what if isinstance(prepared, NotReady) else prepared.environment


async def _prepare_without_code(context: RunContext, run: Run, request: EnvironmentRequest) -> CheckEnvironment | str:
    """Return the environment of the request's commit, made by none of its code, or why that is impossible."""
    git, commit = context.git, request.base
    place = await install_commit(git, run.base_sha, commit, folder=context.run_folder(run.id))
    found = await _prepare(structs.replace(request, base=place))
    if isinstance(found, str):
        return found
    fitting = await environment_of_commit(
        found, git, await commits.path_changes(git, place, commit), made_at=place, commit=commit
    )
    return "generated files have to be built again" if found.built and not fitting.built else fitting


async def _why_refused(
    context: RunContext, run: Run, entries: Sequence[str], ask: AskHuman | None, *, without: str = ""
) -> str:
    """Return which entry no human has agreed to, and what to do; empty if all are agreed to.

    `without` is what happened without an agreement, which may differ each time.
    """
    shown = f": {without}" if without else ""
    for entry in map(utf8_safe, entries):
        question = f"May set-up use what the work adds, with code and network of its own? {entry}{shown}"
        text = context.redactor.clean(question)
        detail = context.redactor.clean_all({"setup": entry})
        # Whatever its scope: what lands and the last gates need the packages that the approved work was checked with.
        decided = next(
            (
                each
                for each in reversed(context.store.inbox.all())
                if each.run_id == run.id and each.detail == detail and each.state in {"approved", "rejected"}
                if each.valid_until is None or each.valid_until > context.clock.now()
            ),
            None,
        )
        if decided is None and ask is not None and not run.settings.permissions.yolo:
            decided = await ask(text, detail)
        if decided is None or decided.state != "approved":
            why = "a human rejected it" if decided else "nobody agreed to it"
            advice = "Take a package of the index, or add it to your branch yourself"
            return f"Set-up did not use `{entry}`: {why}{shown}. {advice}"
    return ""


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
