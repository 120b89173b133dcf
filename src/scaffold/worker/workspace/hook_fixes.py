"""What the repository's commit hooks fix after each turn of an agent: it is part of the work that is proven."""

from collections.abc import Callable

from msgspec import structs

from scaffold.core.ids import Commit, TreeId
from scaffold.core.printable_text import count_of
from scaffold.core.proof.gates import GateRun
from scaffold.git import commits, refs
from scaffold.git.checkouts import worktree
from scaffold.verify.gates.repository_hooks import HookInput, HookRun, run_hooks
from scaffold.verify.regression.baseline_capture import hooks_apply
from scaffold.verify.regression.gate_results import gate_timeout_s
from scaffold.verify.regression.hook_results import hook_key
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.workspace.work_commit import WorkCommit
from scaffold.worker.workspace.workplace import Workplace

MOST_REPEATS = 2
"""A hook that fixes files fails at first; fixes of one may be fixed by another."""


class HookFixes:
    """Runs the hooks that the repository has at the base of the run. Whether they pass, the proof decides."""

    def __init__(self, place: Workplace, records: AttemptRecords, keep: Callable[[GateRun, TreeId], None]) -> None:
        """`keep` stores a run for the proof of the same tree."""
        self._place = place
        self._records = records
        self._keep = keep
        runs = place.baseline.runs if place.baseline and place.task.run.settings.gates.enabled else ()
        self._before = next((run for run in runs if run.gate.runner == "hooks" and hooks_apply(run)), None)

    async def apply(self, work: WorkCommit) -> WorkCommit:
        """Run the hooks on the work until they fix nothing more, and commit what they fixed.

        Fixes that other fixes undo, or of hooks that did not end, are left out.
        """
        head, tree, base = work.head, work.tree, self._place.workspace.base
        unchanged = await commits.tree_of(self._place.workspace.git, base)
        if self._before is None or tree == unchanged:
            return work
        found = await self._run_hooks(self._before, head, tree)
        for _ in range(MOST_REPEATS):
            if not found.ended or found.run.exit_code == 0 or found.left == tree:
                break
            tree = found.left
            found = await self._run_hooks(self._before, head, tree)
        if not found.ended or not (found.run.exit_code == 0 or found.left == tree):
            return work
        if found.left == tree and found.run.problem is None:
            key = hook_key(found.run.environment, self._before, unchanged)
            self._keep(structs.replace(found.run, environment=key), tree)
        return work if found.left == work.tree else await self._commit_fixes(work, found.left)

    async def _run_hooks(self, before: GateRun, head: Commit, tree: TreeId) -> HookRun:
        place = self._place
        given = HookInput(staged=tree, head=place.workspace.base, definitions=before.commit)
        environment = place.environment.fingerprint if place.environment else ""
        timeout_s = gate_timeout_s(before.gate, before, place.task.run.settings.gates.timeout_s)
        return await run_hooks(before.gate, place.tree(head), given, environment=environment, timeout_s=timeout_s)

    async def _commit_fixes(self, work: WorkCommit, tree: TreeId) -> WorkCommit:
        git, task = self._place.workspace.git, self._place.task
        identity, key = task.run.settings.identity, task.action.key
        head = await commits.commit_tree(
            git,
            tree,
            parents=[work.head],
            message="Fixes of the commit hooks",
            author=identity.author,
            committer=identity.committer,
        )
        await refs.pin(git, refs.work_ref(task.attempt.id), head, known=self._place.workspace.start)
        await worktree.restore(git, head)
        fixed = await commits.changed_paths(git, work.head, head)
        text = f"The commit hooks fixed {count_of(len(fixed), 'file')} of {key}: {', '.join(fixed[:5])}."
        self._records.inform(text)
        return structs.replace(work, head=head, tree=tree)
