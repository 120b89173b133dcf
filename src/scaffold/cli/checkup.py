"""What `doctor` looks at: each check is one line, and one more that says how to mend it."""

import os
import platform
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from scaffold.cli.picture import GOING_ON
from scaffold.cli.place import place_if_any
from scaffold.cli.reader import shown_status
from scaffold.cli.sandbox import found
from scaffold.cli.settings import Settings, load_settings
from scaffold.cli.trusted import trusted_folder
from scaffold.core.errors import GitFailed, RepositoryUnfit, ScaffoldError
from scaffold.core.ids import RunId
from scaffold.git.command import Git
from scaffold.git.repository import OLDEST, Repository, signatures, survey
from scaffold.git.worktree import Worktree, listed, remove
from scaffold.host.clock import SystemClock
from scaffold.host.dirs import user_dirs
from scaffold.policy.trust import Standing
from scaffold.store.database import Store

LEAST_PYTHON = (3, 11)
LEAST_FREE_BYTES = 1_000_000_000
LEAST_FREE_TO_WORK_BYTES = 100_000_000


class Check(Struct, frozen=True):
    """One thing that was looked at; `fix` is empty where nothing is to be done."""

    name: str
    status: Literal["ok", "warn", "fail"]
    message: str
    fix: str = ""


async def check_machine(environ: Mapping[str, str]) -> Sequence[Check]:
    """Look at what has nothing to do with any repository."""
    dirs = user_dirs(environ)
    return [
        _python(),
        await _git(environ),
        *(_folder(name, path) for name, path in (("data folder", dirs.data), ("cache folder", dirs.cache))),
        await _sandbox(),
    ]


async def check_repository(repository: Repository, environ: Mapping[str, str]) -> Sequence[Check]:
    """Look at the repository, and at what Scaffold keeps for it."""
    return [
        await _fitness(repository),
        await _identity(repository),
        *_configuration(repository, environ),
        *await _kept(repository, environ),
    ]


async def prune_stale(repository: Repository, environ: Mapping[str, str]) -> Sequence[Path]:
    """Make git forget our worktrees whose folders are gone, and return where they were."""
    stale = [each for each in await _ours(repository, environ) if not each.path.exists()]
    for worktree in stale:
        await remove(repository, worktree.path)
    return [worktree.path for worktree in stale]


def _python() -> Check:
    least = ".".join(map(str, LEAST_PYTHON))
    found = platform.python_version()
    if sys.version_info >= LEAST_PYTHON:
        return Check("python", "ok", found)
    return Check("python", "fail", f"{found} is too old", f"Install Python {least} or newer.")


async def _git(environ: Mapping[str, str]) -> Check:
    least = ".".join(map(str, OLDEST))
    if shutil.which("git", path=environ.get("PATH", os.defpath)) is None:
        return Check("git", "fail", "not on PATH", f"Install git {least} or newer.")
    said = (await Git(Path.cwd(), environ=environ)("version")).line
    found = said.removeprefix("git version ").split(" ")[0]
    parts = tuple(int(part) for part in found.split(".")[:2] if part.isdigit())
    if parts >= OLDEST:
        return Check("git", "ok", found)
    return Check("git", "fail", f"{found} is too old", f"Install git {least} or newer.")


def _folder(name: str, path: Path) -> Check:
    """Check that `path` can be written, or made, and that its disk has room."""
    there = next(each for each in (path, *path.parents) if each.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return Check(name, "fail", f"{path} cannot be written", f"Make {there} writable, or set SCAFFOLD_HOME.")
    free = shutil.disk_usage(there).free
    room = f"{path}, {free / 1e9:.1f} GB free"
    if free < LEAST_FREE_TO_WORK_BYTES:
        return Check(name, "fail", room, "Free some space: every agent works in a checkout of its own.")
    if free < LEAST_FREE_BYTES:
        return Check(name, "warn", room, "Free some space: every agent works in a checkout of its own.")
    return Check(name, "ok", room)


async def _sandbox() -> Check:
    finding = await found()
    if not finding.trouble:
        return Check("sandbox", "ok", finding.level)
    left = " commands of agents wait for your consent;" if finding.level == "none" else ""
    return Check("sandbox", "warn", f"{finding.level}:{left} {finding.trouble}", f"For a better one, {finding.fix}.")


async def _fitness(repository: Repository) -> Check:
    try:
        found = await survey(repository)
    except RepositoryUnfit as unfit:
        return Check("repository", "fail", unfit.what, unfit.fix)
    where = f"{found.branch or 'detached head'} at {found.head[:8]}"
    if found.dirty:
        fix = "Commit what runs should build on; they start from the last commit."
        return Check("repository", "warn", f"{where}, with changes that are not committed", fix)
    return Check("repository", "ok", where)


async def _identity(repository: Repository) -> Check:
    try:
        author, _ = await signatures(repository)
    except RepositoryUnfit as unfit:
        return Check("identity", "fail", unfit.what, unfit.fix)
    return Check("identity", "ok", f"{author.name} <{author.email}>")


def _configuration(repository: Repository, environ: Mapping[str, str]) -> Sequence[Check]:
    """Check whether what the repository brings along counts, and what is set by whom."""
    try:
        standing = trusted_folder(repository.root, environ)
        settings = load_settings(repository.root, environ, {})
    except ScaffoldError as trouble:
        return [Check("model", "fail", trouble.what, trouble.fix)]
    return [_trust(standing, settings), _model(settings)]


def _trust(standing: Standing, settings: Settings) -> Check:
    """Check that nothing of the repository's own configuration is ignored."""
    brought = ", ".join(piece.name for piece in standing.folder.pieces if not piece.blank)
    if not brought:
        return Check("trust", "ok", "this repository brings no configuration of its own")
    if not standing.trusted:
        fix = "`scaffold trust` shows what is in there, and trusts it."
        return Check("trust", "warn", f"{brought} ignored: {standing.reason}", fix)
    if settings.ignored:
        what = f"trusted, but {len(settings.ignored)} of its settings ignored, e.g. {settings.ignored[0].setting}"
        return Check("trust", "warn", what, "`scaffold config` says which, and why.")
    return Check("trust", "ok", f"{brought} trusted")


def _model(settings: Settings) -> Check:
    model = settings.values["model"]
    if model.value is None:
        fix = "Set one: `scaffold config model MODEL`, or SCAFFOLD_MODEL, or `--model` each time."
        return Check("model", "warn", "none is configured", fix)
    return Check("model", "ok", f"{model.value} ({model.origin})")


async def _kept(repository: Repository, environ: Mapping[str, str]) -> Sequence[Check]:
    """Check the database, and what ended runs left behind."""
    try:
        place = place_if_any(repository.common_dir, environ)
        if place is None:
            none_yet = Check("database", "ok", "none yet; the first run makes it")
            return [none_yet, await _worktrees(repository, environ, {})]
        store = Store.open(place, clock=SystemClock(), create=False)
    except ScaffoldError as trouble:
        return [Check("database", "fail", trouble.what, trouble.fix)]
    try:
        runs = {run.id: shown_status(run) for run in store.runs.all()}
    except ScaffoldError as trouble:
        return [Check("database", "fail", trouble.what, trouble.fix)]
    finally:
        store.close()
    healthy = Check("database", "ok", f"{store.name}, {len(runs)} run{'s' * (len(runs) != 1)}")
    return [healthy, await _worktrees(repository, environ, runs)]


async def _worktrees(repository: Repository, environ: Mapping[str, str], runs: Mapping[RunId, str]) -> Check:
    """Check that only runs that go on have worktrees."""
    try:
        ours = await _ours(repository, environ)
    except GitFailed as failed:
        return Check("worktrees", "fail", failed.what, failed.fix)
    stale = [each for each in ours if not each.path.exists()]
    left = [each for each in ours if each not in stale and runs.get(_run_of(each)) not in GOING_ON]
    if stale:
        what = f"{len(stale)} whose folders are gone, e.g. {stale[0].path}"
        return Check("worktrees", "warn", what, "`scaffold doctor --fix` makes git forget them.")
    if left:
        run, status = _run_of(left[0]), runs.get(_run_of(left[0]), "unknown")
        fix = f"`scaffold resume {run}` pins their work and removes them."
        if status not in {"interrupted", "paused"}:
            fix = f"Look at {left[0].path}, then `git worktree remove` it."
        return Check("worktrees", "warn", f"{len(left)} left, e.g. by run {run}, which is {status}", fix)
    return Check("worktrees", "ok", f"{len(ours)} in use" if ours else "none left behind")


async def _ours(repository: Repository, environ: Mapping[str, str]) -> Sequence[Worktree]:
    """Return the worktrees that lie where runs put theirs."""
    folder = (user_dirs(environ).cache / "runs").resolve()
    return [each for each in await listed(repository) if each.path.is_relative_to(folder)]


def _run_of(worktree: Worktree) -> RunId:
    """Return whose it is: it lies in the run's folder as `landing`, or as `attempts/<id>`."""
    above = worktree.path.parent
    return RunId(above.parent.name if above.name == "attempts" else above.name)
