"""Work that did not land: where it is pinned, why it did not land, and how to salvage it."""

from datetime import datetime
from pathlib import Path

from msgspec import Struct, structs

from scaffold.core.errors import UsageError
from scaffold.core.ids import ActionKey, AttemptId, Commit, RunId
from scaffold.core.model import Attempt
from scaffold.git import refs
from scaffold.git.client.command_line import Git
from scaffold.git.commits import changed_paths
from scaffold.run.ignored_archive import archived_files, archives_folder
from scaffold.store.database import Store

REF_PREFIXES = (f"{refs.REF_PREFIX}rescue/", f"{refs.REF_PREFIX}work/")
DONE = frozenset({"landed", "recorded"})
# Git answers 1 if there is no common commit, 128 if HEAD has none yet.
MERGE_BASE_EXIT_CODES = frozenset({0, 1, 128})


class ArchivedFiles(Struct, frozen=True, kw_only=True):
    """The archived ignored files of one attempt, which are in no commit."""

    attempt: AttemptId
    run: RunId | None
    action: ActionKey | None
    """`run` and `action` are None if the attempt is not in the database."""
    landed: bool
    """Whether the rest of its work landed."""
    files: tuple[str, ...]


class UnlandedWork(Struct, frozen=True, kw_only=True):
    """The pinned work of one attempt."""

    attempt: AttemptId
    ref: str
    commit: Commit
    base: Commit | None
    """The commit that the work is based on; None if unknown."""
    files: tuple[str, ...]
    """The paths it changed."""
    run: RunId | None
    action: ActionKey | None
    at: datetime | None
    """When the attempt ended; None if it has not. `at`, `run` and `action` are None if it is not in the database."""
    why: str
    also: Commit | None = None
    """A commit of what it left in git besides its files: a merge of abandoned commits and the index."""


async def list_unlanded(git: Git, store: Store | None) -> tuple[UnlandedWork, ...]:
    """Return all pinned work that has not landed and changed something, latest first; without a store, all of it."""
    found = []
    also = await refs.list_refs(git, refs.keep_ref(AttemptId("")))
    for prefix in REF_PREFIXES:
        for ref, commit in (await refs.list_refs(git, prefix)).items():
            attempt = store.attempts.get(refs.attempt_id_of(ref)) if store else None
            # The work ref of a landed attempt has the landed commit; its rescue ref pins later, unlanded changes.
            if attempt is None or attempt.outcome != "landed" or ref != refs.work_ref(attempt.id):
                work = await _describe_work(git, store, ref, commit, attempt)
                found.append(structs.replace(work, also=also.pop(refs.keep_ref(work.attempt), None)))
    # Abandoned commits are listed alone if the rest of the work landed, or if nothing else was changed.
    for ref, commit in also.items():
        attempt = store.attempts.get(refs.attempt_id_of(ref)) if store else None
        found.append(await _describe_work(git, store, ref, commit, attempt))
    # A step pins its commit even if it changed nothing.
    kept = [
        each
        for each in found
        if each.files or each.also or each.base is None or each.ref == refs.keep_ref(each.attempt)
    ]
    return tuple(sorted(kept, key=lambda each: each.at.isoformat() if each.at else "", reverse=True))


def list_archived(common_dir: Path, store: Store | None) -> tuple[ArchivedFiles, ...]:
    """Return the archived ignored files of each attempt, ordered by its id."""
    top = archives_folder(common_dir)
    found = []
    names = {path.name.removeprefix(f"{top.name}/").partition("/")[0] for path, _ in top.entries()}
    for name in map(AttemptId, sorted(names)):
        attempt = store.attempts.get(name) if store else None
        action = store.actions.get(attempt.action_id) if store and attempt else None
        files = archived_files(common_dir, name)
        if files:
            found.append(
                ArchivedFiles(
                    attempt=name,
                    run=attempt.run_id if attempt else None,
                    action=action.key if action else None,
                    landed=attempt is not None and attempt.outcome in DONE,
                    files=files,
                )
            )
    return tuple(found)


def select_archived(found: tuple[ArchivedFiles, ...], name: str) -> ArchivedFiles:
    """Return the archive of the attempt whose id starts with `name`; raises UsageError for none or several."""
    matches = [each for each in found if each.attempt.startswith(name)]
    if len(matches) == 1:
        return matches[0]
    problem = "matches several attempts" if matches else "is not an attempt with ignored files that were kept"
    known = ", ".join(each.attempt for each in matches or found) or "none"
    raise UsageError(f"`{name}` {problem}", f"Attempts with ignored files: {known}.")


def select_unlanded(found: tuple[UnlandedWork, ...], name: str) -> UnlandedWork:
    """Return the work of the attempt whose id starts with `name`; raises UsageError for none or several."""
    # Of the two refs of an attempt, the rescue ref is first in `found`, and wins because it is written last.
    matches = {each.attempt: each for each in reversed(found) if each.attempt.startswith(name)}
    if len(matches) == 1:
        return next(iter(matches.values()))
    problem = "matches several attempts" if matches else "is not an attempt with pinned work"
    known = ", ".join(matches or dict.fromkeys(each.attempt for each in found)) or "none"
    raise UsageError(f"`{name}` {problem}", f"Attempts with pinned work: {known}.")


async def create_salvage_branch(git: Git, work: UnlandedWork, *, dry: bool) -> str:
    """Create a branch at the work's commit and return its name; with `dry`, only return it. No checkout is touched.

    Raises UsageError if a branch of that name points elsewhere.
    """
    branch = f"salvage-{work.attempt}"
    existing = await refs.resolve(git, f"refs/heads/{branch}")
    made = existing == work.commit or (existing is None and dry)
    if made or await refs.move(git, f"refs/heads/{branch}", new=work.commit, old=None):
        return branch
    raise UsageError(f"branch {branch} already exists with other work", f"Rename it: `git branch -m {branch} NAME`.")


async def _describe_work(
    git: Git, store: Store | None, ref: str, commit: Commit, attempt: Attempt | None
) -> UnlandedWork:
    base = attempt.base_sha if attempt else await _guess_base(git, commit)
    action = store.actions.get(attempt.action_id) if store and attempt else None
    return UnlandedWork(
        attempt=refs.attempt_id_of(ref),
        ref=ref,
        commit=commit,
        base=base,
        files=await changed_paths(git, base, commit) if base else (),
        run=attempt.run_id if attempt else None,
        action=action.key if action else None,
        at=attempt.ended_at if attempt else None,
        why=_why_unlanded(attempt),
    )


async def _guess_base(git: Git, commit: Commit) -> Commit | None:
    answer = await git("merge-base", "HEAD", commit, ok=MERGE_BASE_EXIT_CODES)
    found = Commit(answer.line) if answer.exit_code == 0 else None
    # Work that HEAD contains is its own merge base, which would show no change.
    return found if found and found != commit else await refs.resolve(git, f"{commit}^")


def _why_unlanded(attempt: Attempt | None) -> str:
    if attempt is None:
        return "it is not in the database"
    if attempt.outcome in DONE:
        return "its other work landed" if attempt.outcome == "landed" else "its result was recorded"
    if attempt.status != "ended":
        return "it is waiting to land" if attempt.phase in {"candidate", "landing"} else f"it is {attempt.phase}"
    return f"{attempt.outcome}: {attempt.error}" if attempt.error else str(attempt.outcome)
