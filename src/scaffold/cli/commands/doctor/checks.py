"""What `doctor` checks of the machine, the user's data and the repository."""

import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Literal

from msgspec import Struct

from scaffold.agent.model_access import ask_servers
from scaffold.cli.render.login_text import overview_lines
from scaffold.config.folder_trust import folder_trust
from scaffold.config.permission_settings import detect_sandbox_level
from scaffold.config.run.effective_settings import keep_settings
from scaffold.config.schema.parsers import SIZES
from scaffold.config.schema.table import find_setting
from scaffold.config.settings import Settings, load_settings, user_config_file
from scaffold.core.errors import ForeignState, GitError, RepositoryError, ScaffoldError
from scaffold.core.ids import AttemptId, RunId
from scaffold.core.printable_text import count_of, join_limited
from scaffold.git import refs
from scaffold.git.checkouts.worktree import Worktree, list_worktrees, remove
from scaffold.git.client.command_line import Git
from scaffold.git.repository import MIN_GIT_VERSION, Repository, checkout_status, signatures
from scaffold.host.clock import SystemClock
from scaffold.host.process.command_runner import run_command
from scaffold.host.sandbox.bubblewrap import FOLDERS
from scaffold.host.sandbox.level import level_limits
from scaffold.host.startup import importing
from scaffold.host.user_dirs import user_dirs
from scaffold.login.state import CODEX
from scaffold.orchestrator.upkeep.expired_files import logs_size
from scaffold.policy.trust_decision import TrustStatus
from scaffold.run.trial.temporary_checkout import dead_trials
from scaffold.store.database import Store
from scaffold.store.driver.location import existing_state_location
from scaffold.store.user_store import UserStore, user_database
from scaffold.views.store_reader import display_status, is_executed

MIN_PYTHON = (3, 11)
LOW_FREE_BYTES = 1_000_000_000
MIN_FREE_BYTES = 100_000_000
VERSION_S = 10.0  # for `bwrap --version`
MAX_NAMES = 12
LIVE = "active"  # shown for a run that a living process owns


class DoctorCheck(Struct, frozen=True):
    """The result of one check; `fix` is empty if nothing needs to be done."""

    name: str
    status: Literal["ok", "warn", "fail"]
    message: str
    fix: str = ""


async def check_machine(environ: Mapping[str, str]) -> Sequence[DoctorCheck]:
    """Check everything that does not depend on a repository."""
    dirs = user_dirs()
    found, least = platform.python_version(), ".".join(map(str, MIN_PYTHON))
    python = DoctorCheck("python", "ok", found)
    if sys.version_info < MIN_PYTHON:
        python = DoctorCheck("python", "fail", f"{found} is too old", f"Install Python {least} or newer.")
    return [
        python,
        await _check_git(environ),
        *(_check_folder(name, path) for name, path in (("data folder", dirs.data), ("cache folder", dirs.cache))),
        await _check_sandbox(environ),
    ]


async def check_repository(repository: Repository, environ: Mapping[str, str]) -> Sequence[DoctorCheck]:
    """Check the repository and Scaffold's state for it."""
    try:
        author, _ = await signatures(repository)
        identity = DoctorCheck("identity", "ok", f"{author.name} <{author.email}>")
    except RepositoryError as unfit:
        identity = DoctorCheck("identity", "fail", unfit.what, unfit.fix)
    try:
        trust = folder_trust(repository.root)
        settings = load_settings(repository.root, environ, {})
        models = [_check_model(settings), *await _check_model_servers(settings)]
        shown = (*_check_shown_paths(settings), *_check_scope(settings))
        configuration = [_check_trust(trust, settings), *models, *shown]
    except ScaffoldError as error:
        configuration = [DoctorCheck("model", "fail", error.what, error.fix)]
    return [await _check_checkout(repository), identity, *configuration, *await _check_state(repository, environ)]


async def prune_worktrees(repository: Repository) -> Sequence[Path]:
    """Remove git's records of our worktrees whose folders are missing, and return their paths."""
    stale = [each for each in await _run_worktrees(repository) if not each.path.exists()]
    for worktree in stale:
        # Not `git worktree prune`, which would drop the user's own records, too,
        # such as those on a disk that is not mounted.
        await remove(repository, worktree.path)
    return [worktree.path for worktree in stale]


async def _check_git(environ: Mapping[str, str]) -> DoctorCheck:
    least = ".".join(map(str, MIN_GIT_VERSION))
    if shutil.which("git", path=environ.get("PATH", os.defpath)) is None:
        return DoctorCheck("git", "fail", "not on PATH", f"Install git {least} or newer.")
    version = (await Git(Path.cwd(), environ=environ)("version")).line
    # Apple's git appends its own version: `2.39.3 (Apple Git-146)`.
    found = version.removeprefix("git version ").split(" ")[0]
    parts = tuple(int(part) for part in found.split(".")[:2] if part.isdigit())
    if parts >= MIN_GIT_VERSION:
        return DoctorCheck("git", "ok", found)
    return DoctorCheck("git", "fail", f"{found} is too old", f"Install git {least} or newer.")


def _check_folder(name: str, path: Path) -> DoctorCheck:
    # A folder that does not exist yet is judged by the one in which it will be made.
    there = next(each for each in (path, *path.parents) if each.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return DoctorCheck(name, "fail", f"{path} cannot be written", f"Make {there} writable, or set SCAFFOLD_HOME.")
    free = shutil.disk_usage(there).free
    room = f"{path}, {free / 1e9:.1f} GB free"
    if free < MIN_FREE_BYTES:
        return DoctorCheck(name, "fail", room, "Free some space: every agent needs its own checkout.")
    if free < LOW_FREE_BYTES:
        return DoctorCheck(name, "warn", room, "Free some space: every agent needs its own checkout.")
    return DoctorCheck(name, "ok", room)


async def _check_sandbox(environ: Mapping[str, str]) -> DoctorCheck:
    finding = await detect_sandbox_level()
    if not finding.problem:
        if not finding.program:  # the kernel confines by itself
            return DoctorCheck("sandbox", "ok", "; ".join((finding.level, *level_limits(finding.level))))
        asked = [finding.program, "--version"]
        finished = await run_command(asked, cwd=Path("/"), env=environ, timeout_s=VERSION_S)
        version = finished.stdout.decode(errors="replace").strip() or "bubblewrap"
        source = "" if str(Path(finding.program).parent) in FOLDERS else " from a wheel"
        return DoctorCheck("sandbox", "ok", f"{version}{source}, {finding.program}")
    left = ("agents' commands need your approval",) if finding.level == "none" else ()
    message = "; ".join((*left, *level_limits(finding.level), finding.problem))
    return DoctorCheck("sandbox", "warn", f"{finding.level}: {message}", f"For a better one, {finding.fix}.")


def _check_shown_paths(settings: Settings) -> Iterator[DoctorCheck]:
    for path in settings.texts("sandbox.read"):
        is_there = os.path.lexists(Path.home() / Path(path).expanduser())
        message = f"commands see {path}, but no secrets in it" if is_there else f"{path} does not exist"
        yield DoctorCheck("sandbox.read", "ok" if is_there else "warn", message, "" if is_there else "Correct it.")


async def _check_checkout(repository: Repository) -> DoctorCheck:
    try:
        found = await checkout_status(repository)
    except RepositoryError as unfit:
        return DoctorCheck("repository", "fail", unfit.what, unfit.fix)
    where = f"{found.branch or 'detached head'} at {found.head[:8]}"
    if found.dirty:
        fix = "Runs start from the last commit; commit what they should build on."
        return DoctorCheck("repository", "warn", f"{where}, with uncommitted changes", fix)
    return DoctorCheck("repository", "ok", where)


def _check_trust(trust: TrustStatus, settings: Settings) -> DoctorCheck:
    brought = join_limited([piece.name for piece in trust.folder.pieces if not piece.blank], MAX_NAMES)
    if not brought:
        return DoctorCheck("trust", "ok", "this repository has no configuration for Scaffold")
    if not trust.trusted:
        fix = "Review and trust it with `scaffold trust`."
        return DoctorCheck("trust", "warn", f"{brought} ignored: {trust.reason}", fix)
    if settings.ignored:
        what = f"trusted, but {len(settings.ignored)} of its settings ignored, e.g. {settings.ignored[0].setting}"
        return DoctorCheck("trust", "warn", what, "`scaffold config` shows which, and why.")
    return DoctorCheck("trust", "ok", f"{brought} trusted")


def _check_scope(settings: Settings) -> Iterator[DoctorCheck]:
    """Yield a warning for each of your settings that replaces what is detected in every repository."""
    for name, held in settings.values.items():
        setting = find_setting(name)
        is_replaced = setting is not None and setting.of_repository and not setting.accumulates
        if is_replaced and held.origin.startswith(f"{user_config_file()}:"):
            fix = f"`scaffold config --unset {name} --user`, then `scaffold config {name} VALUE` in its repository."
            yield DoctorCheck("settings", "warn", f"`{name}` is the same in all repositories ({held.origin})", fix)


def _check_model(settings: Settings) -> DoctorCheck:
    model = settings.values["model"]
    sizes = [f"models.{size}" for size in SIZES if settings.models(size)]
    if model.value is None and sizes:
        return DoctorCheck("model", "ok", f"by tier, role and type of task: {', '.join(sizes)}")
    if model.value is None:
        fix = "Set one: `scaffold config model MODEL`, or SCAFFOLD_MODEL, or `--model` each time."
        return DoctorCheck("model", "warn", "no model is configured", fix)
    return DoctorCheck("model", "ok", f"{model.value} ({model.origin})")


async def _check_model_servers(settings: Settings) -> Sequence[DoctorCheck]:
    model = settings.values["model"].value
    names = [*([str(model)] if model else []), *(each for size in SIZES for each in settings.models(size))]
    fix = "For better calls choose another model, or start the server with a chat template that has tools."
    return [
        DoctorCheck("model server", "warn", f"{name}: {facts.text}", fix)
        if facts.tools is False
        else DoctorCheck("model server", "ok", f"{name}: {facts.text}")
        for name, facts in (await ask_servers(names)).items()
    ]


async def _check_state(repository: Repository, environ: Mapping[str, str]) -> Sequence[DoctorCheck]:
    try:
        place = existing_state_location(repository.common_dir, environ)
        if place is None:
            none_yet = DoctorCheck("database", "ok", "none yet; the first run creates it")
            return [none_yet, await _check_worktrees(repository, {})]
        store = Store.open(place, clock=SystemClock(), create=False)
    except ScaffoldError as error:
        # What came with a repository is no fault of this machine.
        return [DoctorCheck("database", "warn" if isinstance(error, ForeignState) else "fail", error.what, error.fix)]
    try:
        runs = {run.id: LIVE if is_executed(run) else display_status(run) for run in store.runs.all()}
    except ScaffoldError as error:
        return [DoctorCheck("database", "fail", error.what, error.fix)]
    finally:
        store.close()
    healthy = DoctorCheck("database", "ok", f"{store.name}, {count_of(len(runs), 'run')}")
    return [healthy, await _check_worktrees(repository, runs), await _check_retention(repository, environ)]


async def _check_retention(repository: Repository, environ: Mapping[str, str]) -> DoctorCheck:
    keep = keep_settings(load_settings(repository.root, environ, {}))
    size_mb = logs_size(repository.root, repository.common_dir) / 1e6
    rescued = await refs.list_refs(repository.git, refs.rescue_ref(AttemptId("")))
    work = f"unlanded work of {count_of(len(rescued), 'attempt')}" if rescued else "no unlanded work"
    message = f"{work}; {size_mb:.1f} MB of logs and reports"
    if size_mb > keep.logs_mb:
        return DoctorCheck("kept", "warn", message, "`scaffold cleanup` removes the oldest logs and reports.")
    return DoctorCheck("kept", "ok", message)


async def _check_worktrees(repository: Repository, runs: Mapping[RunId, str]) -> DoctorCheck:
    # Only live runs have worktrees; whatever else is there was left behind.
    try:
        ours = await _run_worktrees(repository)
    except GitError as failed:
        return DoctorCheck("worktrees", "fail", failed.what, failed.fix)
    stale = [each for each in ours if not each.path.exists()]
    if trials := await dead_trials(repository, user_dirs().cache):
        what = f"{count_of(len(trials), 'trial')} of gates left behind by a killed command, e.g. {trials[0].checkout}"
        return DoctorCheck("worktrees", "warn", what, "`scaffold doctor --fix` removes them.")
    left = [each for each in ours if each not in stale and runs.get(_run_of(each)) != LIVE]
    if stale:
        what = f"{len(stale)} with missing folders, e.g. {stale[0].path}"
        return DoctorCheck("worktrees", "warn", what, "`scaffold doctor --fix` removes git's records of them.")
    if left:
        run, status = _run_of(left[0]), runs.get(_run_of(left[0]), "unknown")
        fix = f"`scaffold resume {run}` pins their work and removes them."
        if status not in {"interrupted", "paused"}:
            fix = f"Check {left[0].path}, then remove it with `git worktree remove`."
        return DoctorCheck("worktrees", "warn", f"{len(left)} left behind, e.g. by run {run}, which is {status}", fix)
    return DoctorCheck("worktrees", "ok", f"{len(ours)} in use" if ours else "none left behind")


async def _run_worktrees(repository: Repository) -> Sequence[Worktree]:
    # Worktrees of the user, elsewhere, are not ours to judge.
    folder = (user_dirs().cache / "runs").resolve()
    return [each for each in await list_worktrees(repository) if each.path.is_relative_to(folder)]


def _run_of(worktree: Worktree) -> RunId:
    above = worktree.path.parent  # of `RUN/landing` or `RUN/attempts/ID`
    return RunId(above.parent.name if above.name == "attempts" else above.name)


async def check_login() -> list[DoctorCheck]:
    """Return a check of the login; empty if there is none. Asks no server."""
    path = user_database(user_dirs().data)
    if not path.exists():
        return []
    try:
        with closing(UserStore.open(path, clock=SystemClock(), create=False)) as user:
            if user.logins.find(CODEX) is None:
                return []
        with importing():  # cryptography, which only a login needs
            from scaffold.login.subscription import connect_login
        async with connect_login() as stored:
            seen = await stored.overview()
    except ScaffoldError as error:
        return [DoctorCheck("login", "fail", error.what, error.fix)]
    if seen is None:
        return []
    if seen.problem:
        return [DoctorCheck("login", "warn", f"account {seen.account}: {seen.problem}", seen.fix)]
    return [DoctorCheck("login", "ok", " ".join(overview_lines(seen)))]
