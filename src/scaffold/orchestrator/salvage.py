"""Work that did not land: where it is kept, why it did not land, and how to take it."""

from datetime import datetime

from msgspec import Struct

from scaffold.core.errors import UsageProblem
from scaffold.core.ids import AttemptId, Commit, Key, RunId
from scaffold.core.model import Attempt
from scaffold.git import refs
from scaffold.git.command import Git
from scaffold.git.commit import changed_paths
from scaffold.orchestrator.cleanup import attempt_of
from scaffold.store.database import Store

PLACES = (f"{refs.PREFIX}rescue/", f"{refs.PREFIX}work/")
NO_BASE = frozenset({0, 1, 128})


class Unlanded(Struct, frozen=True, kw_only=True):
    """What one attempt left."""

    attempt: AttemptId
    ref: str
    commit: Commit
    base: Commit | None
    """Where the work began; None where nobody knows any more."""
    files: tuple[str, ...]
    """The paths it changed."""
    run: RunId | None
    action: Key | None
    at: datetime | None
    """When the attempt ended; None if it has not, or if the database does not know it, nor its run and action."""
    why: str


async def unlanded(git: Git, store: Store | None) -> tuple[Unlanded, ...]:
    """Return all pinned work that has not landed, the latest first; without a store all pinned work."""
    found = []
    for place in PLACES:
        for ref, commit in (await refs.listed(git, place)).items():
            attempt = store.attempts.get(attempt_of(ref)) if store else None
            if attempt is None or attempt.outcome != "landed":
                found.append(await _describe(git, store, ref, commit, attempt))
    return tuple(sorted(found, key=_age, reverse=True))


def pick(found: tuple[Unlanded, ...], name: str) -> Unlanded:
    """Return the one whose attempt's id starts with `name`; UsageProblem if there is none, or several."""
    fitting = {each.attempt: each for each in reversed(found) if each.attempt.startswith(name)}
    if len(fitting) == 1:
        return next(iter(fitting.values()))
    problem = "fits several attempts" if fitting else "is not an attempt whose work is kept"
    known = ", ".join(fitting or dict.fromkeys(each.attempt for each in found)) or "none"
    raise UsageProblem(f"`{name}` {problem}", f"Kept are: {known}.")


async def make_branch(git: Git, work: Unlanded, *, dry: bool) -> str:
    """Make a branch at the work and return its name; no checkout is touched. UsageProblem if the name is taken."""
    branch = f"salvage-{work.attempt}"
    there = await refs.resolve(git, f"refs/heads/{branch}")
    made = there == work.commit or (there is None and dry)
    if made or await refs.move(git, f"refs/heads/{branch}", new=work.commit, old=None):
        return branch
    raise UsageProblem(
        f"there is a branch {branch} with other work on it", f"Rename it: `git branch -m {branch} NAME`."
    )


async def _describe(git: Git, store: Store | None, ref: str, commit: Commit, attempt: Attempt | None) -> Unlanded:
    base = attempt.base_sha if attempt else await _guess_base(git, commit)
    action = store.actions.get(attempt.action_id) if store and attempt else None
    return Unlanded(
        attempt=attempt_of(ref),
        ref=ref,
        commit=commit,
        base=base,
        files=await changed_paths(git, base, commit) if base else (),
        run=attempt.run_id if attempt else None,
        action=action.key if action else None,
        at=attempt.ended_at if attempt else None,
        why=_why(attempt),
    )


async def _guess_base(git: Git, commit: Commit) -> Commit | None:
    answer = await git("merge-base", "HEAD", commit, ok=NO_BASE)
    found = Commit(answer.line) if answer.exit_code == 0 else None
    return found if found and found != commit else await refs.resolve(git, f"{commit}^")


def _why(attempt: Attempt | None) -> str:
    if attempt is None:
        return "the database does not know it"
    if attempt.status != "ended":
        return "it waits to land" if attempt.phase in {"candidate", "landing"} else f"it is {attempt.phase}"
    return f"{attempt.outcome}: {attempt.error}" if attempt.error else str(attempt.outcome)


def _age(work: Unlanded) -> str:
    return work.at.isoformat() if work.at else ""
