"""Prepare the environment of a run's checks from installed dependencies and permitted set-up commands."""

import platform
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct, structs

from scaffold.core.ids import Commit
from scaffold.core.proof.gates import CheckEnvironment
from scaffold.git import commits
from scaffold.git.repository import Repository
from scaffold.verify.check_readiness import NotReady
from scaffold.verify.contract.check_runs import During, unseen
from scaffold.verify.environment.dependencies import (
    NODE_MODULES,
    VENV,
    dependency_hashes,
    hash_lines,
    install_folder,
    installed_folders,
    installed_lines,
    toolchain_lines,
    with_venv_creation,
)
from scaffold.verify.environment.generated_files import left_in_checkout, version_files
from scaffold.verify.environment.golden import (
    ENVIRONMENTS,
    ForeignSources,
    GoldenBuilder,
    SandboxFactory,
    golden_environment,
    snapshot_installed,
)
from scaffold.verify.environment.included_files import OWN_FOLDER, find_included, snapshot_files
from scaffold.verify.gates.projects.project_files import files_at_commit

KEPT_FILES = "packages and generated files, recorded out of reach"
"""Part of the key of environments: set-up commands could write the records of earlier versions' environments."""
TEST_NAMES = "tests are named by file, suites, title and number"
"""Part of the fingerprint: results with other names of tests are not comparable."""
BUILT = "built-"
"""Prefix of a snapshot of files that builds left in the user's checkout."""


def ignore_progress(_command: str) -> None:
    """Do nothing."""


class EnvironmentRequest(Struct, frozen=True, kw_only=True):
    """The inputs for preparing an environment."""

    repository: Repository
    base: Commit
    setup: tuple[str, ...]
    """The commands that prepare a checkout of `base`."""
    trusted: bool
    """Whether the set-up commands are allowed to run."""
    services: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    """The patterns of a trusted `.worktreeinclude`."""
    made_by_work: str = ""
    """What of unlanded work the set-up executes, if it does: then what it installs serves the tree of `base` alone."""
    foreign: ForeignSources | None = None
    """If the manifests are unlanded work's, and no user agreed to run code of theirs: what they may lead to."""
    renewed: frozenset[str] = frozenset()
    """Names of installed folders that are not copied from the user's checkout because they do not fit the commit."""
    sandbox: str = ""
    """The level and settings of the sandbox that confines the checks."""
    cache: Path
    """The user's cache directory for Scaffold."""
    environ: Mapping[str, str]
    """The variables that child processes may inherit."""
    open_sandbox: SandboxFactory
    clean: Callable[[str], str]
    """Redacts secrets in the output of commands."""
    tell: Callable[[str], None] = ignore_progress
    """Called with each set-up command before it runs, which may take minutes."""
    during: During = unseen
    """Shows each set-up command while it runs."""


class PreparedEnvironment(Struct, frozen=True):
    """The environment of checks, and what it lacks."""

    environment: CheckEnvironment
    left_out: tuple[str, ...]
    """Set-up commands that seem necessary but were skipped because the folder is not trusted."""
    included: tuple[str, ...] = ()
    """The user's files that `.worktreeinclude` names and that are copied to worktrees."""
    generated: tuple[str, ...] = ()
    """Files that builds made and that are copied to worktrees."""
    secrets: tuple[str, ...] = ()
    """Files that were not copied: they may be secrets, and `.worktreeinclude` does not name them one by one."""


class SetupPlan(Struct, frozen=True):
    """The steps that make an environment."""

    run: tuple[str, ...]
    """Set-up commands to run."""
    copy: tuple[str, ...]
    """Dependencies in the user's checkout to copy."""
    borrow: bool
    """Whether the user's own virtual environment is used in place."""
    left_out: tuple[str, ...]


def plan_setup(setup: tuple[str, ...], there: tuple[str, ...], *, trusted: bool) -> SetupPlan:
    """Return the steps, given the dependencies already installed (`there`) in the user's checkout.

    Dependencies that the user has installed are not installed again.
    """
    missing = tuple(command for command in setup if install_folder(command) not in there)
    run = with_venv_creation(missing) if trusted else ()
    made = {install_folder(command) for command in run}
    # Node looks for packages in the folders above a file, so they have to be
    # inside the checkout; a `.venv` works anywhere.
    copied = tuple(path for path in there if path.rpartition("/")[2] == NODE_MODULES and NODE_MODULES not in made)
    return SetupPlan(
        run=run, copy=copied, borrow=VENV in there and VENV not in made, left_out=() if trusted else missing
    )


async def prepare_environment(request: EnvironmentRequest) -> PreparedEnvironment | NotReady:
    """Return the environment of checks at the request's `base`; built once per set of dependencies, then reused."""
    root = request.repository.root
    installed_there = await installed_folders(request.repository.git, ignored=True)
    there = tuple(path for path in installed_there if path.rpartition("/")[2] not in request.renewed)
    plan = plan_setup(request.setup, there, trusted=request.trusted)
    # Compiled packages fit one platform and one interpreter.
    machine = (sys.platform, platform.machine(), *toolchain_lines(request.environ.get("PATH", "")))
    locks = await dependency_hashes(request.repository.git, request.base)
    versions = version_files(await files_at_commit(request.repository.git, request.base))
    # The user's own virtual environment is read in place and never written.
    venv = root / VENV
    user_venv = CheckEnvironment(fingerprint="", path=(str(venv / "bin"),), shown=(str(venv),))
    parts = [user_venv] if plan.borrow else []
    if plan.copy:
        own = hash_lines(line for target in plan.copy for line in installed_lines(root / target))
        parts.append(await snapshot_installed(_environment_folder(request, own), root, plan.copy))
    if plan.run:
        # The tree instead of the commit, which is a new one each time if it was made for the set-up.
        alone = (await commits.tree_of(request.repository.git, request.base),) if request.made_by_work else ()
        key = hash_lines((KEPT_FILES, *machine, *locks, *plan.run, *alone, repr(request.foreign)))
        installed = await golden_environment(_golden_builder(request, key, versions), plan.run)
        if isinstance(installed, NotReady):
            return installed
        parts.append(structs.replace(installed, made_by_work=request.made_by_work))
    if plan.borrow or not plan.run:
        parts.append(await _left_by_builds(request, versions, installed_there))
    included = await find_included(request.repository.git, request.include, installed=installed_there)
    files = await snapshot_files(request.cache, root, included.names) if included.names else ()
    if isinstance(files, NotReady):
        return files
    environment = _merge_environments(parts, request.services)
    named = {file.target for file in files}
    versions_left = tuple(file for file in environment.files if file.target not in named)
    built = tuple(file for file in environment.built if file.target not in named)
    environment = structs.replace(environment, files=(*files, *versions_left), built=built)
    own_venv = installed_lines(root / VENV) if plan.borrow else ()
    # Gate results are reused by this fingerprint, so it must cover everything that can change a result.
    fingerprint = hash_lines((TEST_NAMES, *machine, *locks, *own_venv, request.sandbox, repr(environment)))
    return PreparedEnvironment(
        structs.replace(environment, fingerprint=fingerprint),
        plan.left_out,
        included=included.names,
        generated=tuple(sorted(file.target for file in (*versions_left, *built))),
        secrets=included.secrets,
    )


async def _left_by_builds(
    request: EnvironmentRequest, versions: frozenset[str], there: tuple[str, ...]
) -> CheckEnvironment:
    """Return an environment with the files that builds left in the user's checkout; empty if they are too large."""
    git, root = request.repository.git, request.repository.root
    tracked = frozenset(await commits.listed_paths(git, request.base))
    found = await left_in_checkout(git, tracked, versions, (*there, OWN_FOLDER))
    names = (*found.versions, *found.built)
    copied = await snapshot_files(request.cache, root, names, prefix=BUILT) if names else ()
    if isinstance(copied, NotReady):
        copied = ()
    is_version = frozenset(found.versions)
    return CheckEnvironment(
        fingerprint="",
        files=tuple(file for file in copied if file.target in is_version),
        built=tuple(file for file in copied if file.target not in is_version),
    )


def _merge_environments(parts: list[CheckEnvironment], services: tuple[str, ...]) -> CheckEnvironment:
    """Return one environment of all parts; programs of later parts take precedence."""
    return CheckEnvironment(
        fingerprint="",
        path=tuple(folder for part in reversed(parts) for folder in part.path),
        variables={name: value for part in parts for name, value in part.variables.items()},
        copies=tuple(copied for part in parts for copied in part.copies),
        files=tuple(file for part in parts for file in part.files),
        built=tuple(file for part in parts for file in part.built),
        shown=tuple(folder for part in parts for folder in part.shown),
        services=services,
        made_by_work="".join(part.made_by_work for part in parts),
    )


def _golden_builder(request: EnvironmentRequest, key: str, versions: frozenset[str]) -> GoldenBuilder:
    return GoldenBuilder(
        repository=request.repository,
        folder=_environment_folder(request, key),
        base=request.base,
        environ=request.environ,
        open_sandbox=request.open_sandbox,
        clean=request.clean,
        tell=request.tell,
        during=request.during,
        versions=versions,
        foreign=request.foreign,
    )


def _environment_folder(request: EnvironmentRequest, key: str) -> Path:
    return request.cache / ENVIRONMENTS / key
