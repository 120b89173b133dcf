"""Cleaning up: what ended runs and dead owners left goes, once everything in it that has not landed is pinned."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from scaffold.core.errors import GitFailed, RepositoryUnfit, RunBusy, StaleFence
from scaffold.core.ids import AttemptId, Commit
from scaffold.core.model import Attempt, Run
from scaffold.core.states import WORKER_PHASES, Cancelled, Completed, Failed, status_of
from scaffold.git import refs, worktree
from scaffold.host.identity import alive
from scaffold.orchestrator.recovery import recover
from scaffold.orchestrator.takeover import take_over
from scaffold.worker.lease import owned
from scaffold.worker.services import forget_services, services_left
from scaffold.worker.site import Site

Verdict = Literal["removed", "pinned", "kept"]


class Step(Struct, frozen=True, kw_only=True):
    """One thing that was looked at, and what becomes of it."""

    kind: Literal["run", "attempt", "worktree", "folder", "ref", "services"]
    name: str
    verdict: Verdict
    why: str


class Leftovers(Struct, frozen=True, kw_only=True):
    """What a run that nobody carries out has left."""

    orphans: tuple[Attempt, ...]
    """Attempts that are not ended, and whose workers are gone."""
    worktrees: tuple[Path, ...]
    pins: tuple[tuple[str, Commit, Attempt], ...]
    """Work refs with their commits and attempts."""
    folder: Path | None
    """The run's folder, where it ended and the folder is there."""
    services: Mapping[str, str]
    """What its checks have left running outside, with the commands that take it down."""

    @property
    def any(self) -> bool:
        """Whether there is anything at all."""
        return bool(self.orphans or self.worktrees or self.pins or self.folder or self.services)


async def clean_up(site: Site, *, dry: bool) -> tuple[Step, ...]:
    """Remove what nobody needs any more and return what was, or with `dry` would be, done and kept, and why.

    Runs with a living owner are not touched. Safe to repeat, and to be killed at any point.
    """
    steps: list[Step] = []
    for run in site.store.runs.all():
        steps.extend(await _run(site, run, dry=dry))
    steps.extend(await _strangers(site))
    return tuple(steps)


def busy(run: Run) -> bool:
    """Return whether a living process carries the run out."""
    return run.owner is not None and alive(run.owner)


async def _run(site: Site, run: Run, *, dry: bool) -> list[Step]:
    if run.owner is not None and busy(run):
        return [Step(kind="run", name=run.id, verdict="kept", why=f"process {run.owner.pid} carries it out")]
    left = await _look(site, run)
    if not left.any:
        return []
    if not dry:
        try:
            await _settle(site, run)
        except (RunBusy, StaleFence):
            return [Step(kind="run", name=run.id, verdict="kept", why="another process took it just now")]
        except (RepositoryUnfit, GitFailed) as trouble:
            return [Step(kind="run", name=run.id, verdict="kept", why=f"{trouble.what}. {trouble.fix}")]
    return list(_told(run, left, {} if dry else services_left(site, run)))


async def _look(site: Site, run: Run) -> Leftovers:
    attempts = {attempt.id: attempt for attempt in site.store.attempts.of_run(run.id)}
    kept = await refs.listed(site.git, refs.work_ref(AttemptId("")))
    pins = tuple((ref, commit, attempts[of]) for ref, commit in kept.items() if (of := attempt_of(ref)) in attempts)
    folder = site.run_folder(run.id)
    return Leftovers(
        orphans=tuple(a for a in attempts.values() if a.status != "ended" and a.phase in WORKER_PHASES),
        worktrees=await _worktrees(site, folder),
        pins=tuple(pin for pin in pins if pin[2].status == "ended"),
        folder=folder if _over(run) and folder.is_dir() else None,
        services=services_left(site, run),
    )


async def _worktrees(site: Site, folder: Path) -> tuple[Path, ...]:
    """Return where the run's worktrees are, and where git believes that one is."""
    known = {each.path for each in await worktree.listed(site.repository)}
    return tuple(sorted(_inside(folder, known)))


def _inside(folder: Path, known: set[Path]) -> set[Path]:
    real = folder.resolve()
    there = {path.parent for path in (*real.glob("attempts/*/.git"), *real.glob("landing/.git"))}
    return there.union(path for path in known if path.is_relative_to(real))


async def _settle(site: Site, run: Run) -> None:
    """Become the run's owner, bring everything in order, and let go of it."""
    mine = take_over(site, run.id)
    await recover(site, mine)
    await forget_services(site, mine)
    await worktree.remove(site.repository, site.landing_folder(run.id))
    for ref, commit, attempt in (await _look(site, mine)).pins:
        await _unpin(site, ref, commit, attempt)
    if _over(run):
        delete_folder(site.run_folder(run.id), below=site.cache / "runs")
    with owned(site.store, mine):
        site.store.runs.release(mine.id, fence=mine.fence)


async def _unpin(site: Site, ref: str, commit: Commit, attempt: Attempt) -> None:
    """Move the pin of an ended attempt's candidate to where rescued work is; what is there already stays, too."""
    rescue = refs.rescue_ref(attempt.id)
    if attempt.outcome == "landed" or await refs.move(site.git, rescue, new=commit, old=None):
        await refs.delete(site.git, ref, old=commit)


def delete_folder(folder: Path, *, below: Path) -> None:
    """Delete a folder of ours with all that is in it; GitFailed if it is not truly inside of `below`."""
    if folder.is_symlink() or below.resolve() not in folder.resolve().parents:
        raise GitFailed(f"{folder} is not inside {below}", "look what is there, and delete it by hand")
    worktree.delete(folder)


async def _strangers(site: Site) -> list[Step]:
    """Name worktrees and refs of runs that this database does not know: nobody can say whether they are in use."""
    runs = [run.id for run in site.store.runs.all()]
    place = site.run_folder(runs[0]).parent if runs else None
    why = "this database does not know whose it is; `scaffold salvage` shows what is pinned"
    strange = [path for path in _entries(place) if path.name not in runs]
    pins = await refs.listed(site.git, refs.work_ref(AttemptId("")))
    unknown = [ref for ref in pins if site.store.attempts.get(attempt_of(ref)) is None]
    return [
        *(Step(kind="folder", name=str(path), verdict="kept", why=why) for path in strange),
        *(Step(kind="ref", name=ref, verdict="kept", why=why) for ref in unknown),
    ]


def _entries(folder: Path | None) -> list[Path]:
    return sorted(folder.iterdir()) if folder is not None and folder.is_dir() else []


def attempt_of(ref: str) -> AttemptId:
    """Return the attempt whose work the ref keeps."""
    return AttemptId(ref.rpartition("/")[2])


def _over(run: Run) -> bool:
    return isinstance(run.state, Completed | Failed | Cancelled)


def _told(run: Run, left: Leftovers, still_up: Collection[str]) -> Iterator[Step]:
    over = f"run {run.id} is {status_of(run.state)}" if _over(run) else f"the owner of run {run.id} is gone"
    for attempt in left.orphans:
        yield Step(kind="attempt", name=attempt.id, verdict="pinned", why=f"{over}; its action can start again")
    for path in left.worktrees:
        yield Step(kind="worktree", name=str(path), verdict="removed", why=f"{over}; unlanded work in it is pinned")
    for ref, _, attempt in left.pins:
        if attempt.outcome == "landed":
            yield Step(kind="ref", name=ref, verdict="removed", why="it has landed")
        else:
            yield Step(kind="ref", name=ref, verdict="pinned", why=f"as {refs.rescue_ref(attempt.id)}; {over}")
    for name, by_hand in left.services.items():
        if name in still_up:
            yield Step(
                kind="services", name=name, verdict="kept", why=f"compose could not take them down; `{by_hand}` does"
            )
        else:
            yield Step(kind="services", name=name, verdict="removed", why=over)
    if left.folder is not None:
        yield Step(kind="folder", name=str(left.folder), verdict="removed", why=over)
