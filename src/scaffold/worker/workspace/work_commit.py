"""Commit what an agent left in its worktree after a turn, and hand it in."""

from collections.abc import Mapping

from msgspec import Struct, structs

from scaffold.core.errors import GitError
from scaffold.core.ids import Commit, TreeId
from scaffold.core.plan import forced_files
from scaffold.core.printable_text import utf8_safe
from scaffold.core.proof.contract import CheckResult, Verification
from scaffold.git import commits, refs
from scaffold.git.checkouts import worktree
from scaffold.git.ignored_files import IgnoreRule, ignoring_rules
from scaffold.run.ignored_archive import archive_ignored
from scaffold.run.task_list import own_changed_paths
from scaffold.verify.contract.check_runs import STEP_CHECK
from scaffold.verify.guard import MAX_LISTED
from scaffold.verify.paths.declared_paths import is_declared_path
from scaffold.worker.attempt_records import AttemptRecords, CandidateReady
from scaffold.worker.workspace.attempt_worktree import AttemptWorkspace, copied_files
from scaffold.worker.workspace.stray_work import pin_staged
from scaffold.worker.workspace.workplace import Workplace


class WorkCommit(Struct, frozen=True):
    """The work after an agent's turn: a commit on top of the base, and its tree."""

    head: Commit
    tree: TreeId
    ignored: Mapping[str, IgnoreRule] = {}
    """Files that are not in the commit, because git ignores them: by path, with the rule."""


async def commit_work(place: Workplace, records: AttemptRecords) -> WorkCommit | Verification:
    """Commit everything git does not ignore, whether or not the agent made commits, and pin it by the work ref.

    While it is judged its checks leave files behind, and what a crash must keep is the commit. If the commit
    fails, return a failed verification: the agent may have caused the failure and can fix it. GitError if the
    worktree was removed.
    """
    committed = await _commit_files(place, records)
    # Where others remove the files, their deletion is not the agent's work.
    place.workspace.require_present(confined=place.sandbox is not None)
    return committed


async def _commit_files(place: Workplace, records: AttemptRecords) -> WorkCommit | Verification:
    git, start, identity = place.workspace.git, place.workspace.start, records.task.run.settings.identity
    context, run, attempt, action = records.run_context, records.task.run, records.task.attempt, records.task.action
    pin = refs.work_ref(attempt.id)
    try:
        left = (await git(*worktree.STATUS, "--ignored", "--ignore-submodules=all")).records
        # The commit has the files; what is staged otherwise, neither as at HEAD nor as in a file, becomes the same.
        if any(" " not in entry[:2] and not entry.startswith(worktree.UNTRACKED) for entry in left):
            await pin_staged(context, run, attempt, git)
        forced = [path for path in forced_files(action.files, action.contract) if (git.cwd / path).is_file()]
        if forced:
            await git("add", "--force", "--", *(f":(literal){path}" for path in forced))
        head = await commits.commit_all_info(
            git,
            f"Work on {action.key}",
            author=identity.author,
            committer=identity.committer,
            kept_out=await copied_files(context, run.id, start),
            pin=pin,
            new_folders=any(entry.startswith("?? ") and entry.endswith("/") for entry in left),
        )
        # Checking the work deletes them, as a new checkout would not have them.
        listed = None if forced else [entry[3:] for entry in left if entry.startswith("!! ")]
        made = await archive_ignored(context, run, attempt, git, known=listed)
        rules = await ignoring_rules(git, made)
        ignored = {utf8_safe(path): IgnoreRule(*map(utf8_safe, structs.astuple(rule))) for path, rule in rules.items()}
        # An agent may have checked out another commit or rewritten history; its
        # work would then revert what it started from contains.
        if await commits.contains(git, head, start):
            parent, base = records.task.parent, place.workspace.base
            is_known = action.files or (action.workspace == "parent" and parent and parent.files)
            # Others that change the same paths are held back while this work is under way.
            if head.commit != base and not is_known and run.settings.scheduling.collisions:
                paths = await own_changed_paths(context.git, run.settings.landing.tracked_list, base, head.commit)
                records.changed([utf8_safe(path) for path in paths], head.commit)
            return WorkCommit(head.commit, TreeId(head.tree), ignored)
        # It must not be taken for work from where this attempt began.
        await refs.delete(git, pin, old=head.commit)
    except GitError as error:
        return _failed_commit(start, f"{error.what}\n{error.fix}")
    fix = f"Go back with `git checkout --detach {start}` and make your changes there."
    return _failed_commit(start, f"HEAD does not contain the commit this task starts from. {fix}")


def ignored_text(ignored: Mapping[str, IgnoreRule]) -> str:
    """Return which files are not part of the work, and why; empty without any."""
    lines = [f"- {path} ({rule})" for path, rule in sorted(ignored.items())]
    more = [f"- and {len(lines) - MAX_LISTED} more"] if len(lines) > MAX_LISTED else []
    problem = "Git ignores these new files, so they are not part of the work:"
    return utf8_safe("\n".join([problem, *lines[:MAX_LISTED], *more])) if lines else ""


def step_ended(head: Commit, detail: str) -> Verification:
    """Return the verification of a step that ended at `head`: it proves nothing until the whole story lands."""
    return Verification(commit=head, results=(CheckResult(name=STEP_CHECK, verdict="pass", detail=detail),))


async def hand_in(
    workspace: AttemptWorkspace,
    records: AttemptRecords,
    verification: Verification,
    ignored: Mapping[str, IgnoreRule] | None = None,
    *,
    pinned: Commit | None = None,
) -> CandidateReady:
    """Pin the verified commit, unless it is what is `pinned`, and offer it for landing, or for being recorded.

    Say which declared files it lacks.
    """
    declared = {
        path: rule for path, rule in (ignored or {}).items() if is_declared_path(path, records.task.action.files)
    }
    if declared:
        records.inform(f"{records.task.action.key}: {ignored_text(declared)}")
    # The ref comes before the row: a candidate in the store always has its
    # commit, even if this process dies in between.
    if pinned != verification.commit:
        work = refs.work_ref(records.task.attempt.id)
        await refs.pin(records.run_context.git, work, verification.commit, known=workspace.start)
    records.hand_in(verification.commit, verification)
    return CandidateReady(verification.commit)


def _failed_commit(base: Commit, why: str) -> Verification:
    problem = CheckResult(name="commit", verdict="error", detail=utf8_safe(why))
    return Verification(commit=base, results=(problem,))
