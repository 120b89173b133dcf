"""Read refs, and move or delete them by compare-and-swap."""

from collections.abc import Mapping

from scaffold.core.ids import AttemptId, Commit
from scaffold.git.client.command_errors import objects_collected
from scaffold.git.client.command_line import Git

REF_PREFIX = "refs/scaffold/"
WORK_PREFIX = f"{REF_PREFIX}work/"
LANE_PREFIX = f"{REF_PREFIX}lane/"
REVIEW_PREFIX = f"{REF_PREFIX}review/"
_LANE_BASE = "base-"


def work_ref(attempt_id: AttemptId) -> str:
    """Return the ref that keeps an attempt's work while it waits to land."""
    return f"{WORK_PREFIX}{attempt_id}"


def rescue_ref(attempt_id: AttemptId) -> str:
    """Return the ref that keeps an attempt's unlanded work."""
    return f"{REF_PREFIX}rescue/{attempt_id}"


def keep_ref(attempt_id: AttemptId) -> str:
    """Return the ref that keeps an attempt's leftovers in git besides its files: staged versions, abandoned commits."""
    return f"{REF_PREFIX}keep/{attempt_id}"


def attempt_id_of(ref: str) -> AttemptId:
    """Return the id of the attempt whose work the ref pins."""
    return AttemptId(ref.rpartition("/")[2])


def lane_ref(attempt_id: AttemptId) -> str:
    """Return the ref that keeps an attempt's candidate while it is proven; nothing else depends on it."""
    return f"{LANE_PREFIX}{attempt_id}"


def lane_base_ref(attempt_id: AttemptId) -> str:
    """Return the ref that keeps the commit the candidate is compared with; nothing else depends on it."""
    return f"{LANE_PREFIX}{_LANE_BASE}{attempt_id}"


def review_ref(attempt_id: AttemptId) -> str:
    """Return the ref that keeps an attempt's candidate while a human is asked about it, so that it can be shown."""
    return f"{REVIEW_PREFIX}{attempt_id}"


def attempt_id_of_lane(ref: str) -> AttemptId:
    """Return the id of the attempt whose lane keeps a commit by the ref."""
    return AttemptId(ref.removeprefix(LANE_PREFIX).removeprefix(_LANE_BASE))


async def resolve(git: Git, name: str) -> Commit | None:
    """Return the commit that `name` (a ref, a short id, `HEAD~1`) resolves to, or None."""
    answer = await git(
        "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", ok=frozenset({0, 1})
    )
    return Commit(answer.line) if answer.exit_code == 0 else None


async def move(git: Git, ref: str, *, new: Commit, old: Commit | None, known: Commit | None = None) -> bool:
    """Move `ref` from `old` (None: it must not exist) to `new`; return whether it is at `new` now.

    False means that another process moved it first and nothing changed. A ref already at `new` counts as moved, so a
    move can be repeated after a crash. `known` is a commit that certainly stays: with it, ObjectsCollected is raised
    and nothing changes if a collection has deleted an object that `new` adds to it.
    """
    # An empty old value tells git that the ref must not exist.
    answer = await git("update-ref", ref, new, old or "", ok=frozenset({0, 1, 128}))
    if answer.exit_code == 0:
        if known is not None and not await git.still_has(new, known=known):
            await git("update-ref", *(("-d", ref, new) if old is None else (ref, old, new)))
            await _drop_move_and_return(git, ref)
            raise objects_collected(new)
        return True
    now = await resolve(git, ref)
    if now is None and old is None:  # it may point to a commit that a collection deleted
        await git("update-ref", "-d", ref, ok=frozenset({0, 1, 128}))
    # No other process moved the ref, so it was not a lost race: repeating the command raises git's error.
    if now == old:
        await git("update-ref", ref, new, old or "")
        return True
    return now == new


async def move_and_delete(git: Git, ref: str, *, new: Commit, old: Commit, drop: Mapping[str, Commit]) -> bool:
    """Move `ref` from `old` to `new` and delete the refs `drop`, each at its commit, in one transaction.

    Return the same as `move`. If another process moved one of `drop` first, nothing changes. If `ref` is already at
    `new`, they may still exist. Raises ObjectsCollected and changes nothing if a collection has deleted an object of
    `new` meanwhile.
    """
    deletions = (f"delete {name} {commit}\n" for name, commit in drop.items())
    wanted = f"update {ref} {new} {old}\n{''.join(deletions)}".encode()
    answer = await git("update-ref", "--stdin", stdin=wanted, ok=frozenset({0, 1, 128}))
    if answer.exit_code == 0:
        if await git.still_has(new, known=old):
            return True
        creations = (f"create {name} {commit}\n" for name, commit in drop.items())
        await git("update-ref", "--stdin", stdin=f"update {ref} {old} {new}\n{''.join(creations)}".encode())
        await _drop_move_and_return(git, ref)
        raise objects_collected(new)
    now = await resolve(git, ref)
    # As in `move`: no ref has changed, so another try succeeds or raises git's error.
    if now == old and all([await resolve(git, name) == commit for name, commit in drop.items()]):
        await git("update-ref", "--stdin", stdin=wanted)
        return True
    return now == new


async def _drop_move_and_return(git: Git, ref: str) -> None:
    # The last two entries of the log name a deleted commit, and `git fsck` would complain.
    # A ref may have no log.
    entries = (f"{ref}@{{1}}", f"{ref}@{{0}}")
    await git("reflog", "delete", "--rewrite", *entries, ok=frozenset({0, 1, 128, 255}))


async def delete(git: Git, ref: str, *, old: Commit) -> bool:
    """Delete `ref` if it is at `old`; return whether it no longer exists, also True if it never existed."""
    answer = await git("update-ref", "-d", ref, old, ok=frozenset({0, 1, 128}))
    if answer.exit_code == 0:
        return True
    now = await resolve(git, ref)
    if now == old:
        await git("update-ref", "-d", ref, old)
        return True
    return now is None


async def pin(git: Git, ref: str, commit: Commit, *, known: Commit | None = None) -> None:
    """Set `ref` to `commit`, whatever its old value.

    `known` is a commit that certainly stays: with it, ObjectsCollected is raised and the ref is removed if a collection
    has deleted an object that `commit` adds to it.
    """
    await git("update-ref", ref, commit)
    if known is not None and not await git.still_has(commit, known=known):
        await git("update-ref", "-d", ref, commit)
        raise objects_collected(commit)


async def list_refs(git: Git, prefix: str) -> dict[str, Commit]:
    """Return {full name: commit} of all refs under `prefix`, e.g. `refs/scaffold/rescue/`."""
    answer = await git("for-each-ref", "--format=%(objectname) %(refname)", prefix)
    pairs = (line.split(" ", 1) for line in answer.line.split("\n") if line)
    return {name: Commit(commit) for commit, name in pairs}
