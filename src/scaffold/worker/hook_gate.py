"""The repository's commit hooks, after each turn of an agent: their fixes are part of the work that is proven."""

from pathlib import Path

from msgspec import Struct

from scaffold.core.contract import CheckResult
from scaffold.core.ids import Commit
from scaffold.core.printable_text import count_of
from scaffold.git import commits, worktree
from scaffold.run.notices import inform, warn
from scaffold.verify.environment.provisioning import provision_checkout
from scaffold.verify.gates.repository_hooks import HookTool, inapplicable, run_hooks
from scaffold.worker.attempt_context import AttemptContext

UNTRUSTED = "the folder is not trusted: `scaffold trust` trusts it"


class HookedWork(Struct, frozen=True, kw_only=True):
    """The work after the hooks have run."""

    head: Commit
    """The work's commit, or one on top of it with their fixes."""
    tree: str
    failed: tuple[CheckResult, ...] = ()


class CommitHooks:
    """The hooks that the repository has at the base of one attempt."""

    def __init__(self, context: AttemptContext) -> None:
        self._context = context
        self._tools: tuple[HookTool, ...] | None = None
        """Those that apply; None before they were tried on the base."""

    async def apply(self, head: Commit, tree: str) -> HookedWork:
        """Run the hooks on the work, and commit what they fixed.

        Only in a trusted folder, and with what is installed; what does not apply is told once in the run.
        """
        context, work = self._context, HookedWork(head=head, tree=tree)
        if not context.hooks or not context.task.run.settings.gates.hooks:
            return work
        if tree == await commits.tree_of(context.workspace.git, context.workspace.base):
            return work
        if self._tools is None:
            self._tools = tuple([tool for tool in context.hooks if await self._applies(tool)])
        for tool in self._tools:
            work = await self._applied(tool, work)
            if work.failed:
                break
        return work

    async def _applies(self, tool: HookTool) -> bool:
        context, why = self._context, UNTRUSTED
        if context.task.run.settings.environment.trusted:
            why = await inapplicable(tool, context.tree(context.workspace.base), self._common_dir, self._prepare)
        if why:
            warn(context.run_context, context.task.run.id, f"The hooks in {tool.file} are not applicable: {why}.")
        return not why

    async def _applied(self, tool: HookTool, work: HookedWork) -> HookedWork:
        found = await run_hooks(tool, self._context.tree(work.head), self._common_dir, self._prepare)
        if found.result.verdict != "pass":
            return HookedWork(head=work.head, tree=work.tree, failed=(found.result,))
        return work if found.tree == work.tree else await _committed(self._context, tool, work, found.tree)

    @property
    def _common_dir(self) -> Path:
        return self._context.run_context.repository.common_dir

    async def _prepare(self, top: Path) -> None:
        await provision_checkout(self._context.environment, top)


async def _committed(context: AttemptContext, tool: HookTool, work: HookedWork, tree: str) -> HookedWork:
    """Commit what the hooks fixed on top of the work, and check that out in the worktree."""
    git, identity, key = context.workspace.git, context.task.run.settings.identity, context.task.action.key
    head = await commits.commit_tree(
        git,
        tree,
        parents=[work.head],
        message=f"Fixes of the hooks in {tool.file}",
        author=identity.author,
        committer=identity.committer,
    )
    await worktree.restore(git, head)
    fixed = await commits.changed_paths(git, work.head, head)
    text = f"The hooks in {tool.file} fixed {count_of(len(fixed), 'file')} of {key}: {', '.join(fixed[:5])}."
    inform(context.run_context, context.task.run.id, text)
    return HookedWork(head=head, tree=tree)
