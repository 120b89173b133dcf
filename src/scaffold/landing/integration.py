"""Integrate a candidate: make the commit that would land on a tip, without a worktree."""

from msgspec import Struct

from scaffold.core.ids import Commit
from scaffold.core.model import Action, Run
from scaffold.git import commits
from scaffold.git.merge import Conflicted, merge_commits
from scaffold.run.context import RunContext


class Integrated(Struct, frozen=True, tag="integrated"):
    """The candidate's change fits the tip; `commit` is what would land: one commit on the tip."""

    commit: Commit


class IntegrationConflict(Struct, frozen=True, tag="conflict"):
    """The candidate's change and what landed meanwhile cannot be merged in `paths` (sorted)."""

    paths: tuple[str, ...]

    @property
    def why(self) -> str:
        """The reason for the refusal, as text for the agent of the next attempt."""
        return f"conflicts with work that landed earlier in {', '.join(self.paths)}"


async def integrate(
    context: RunContext, run: Run, action: Action, *, head: Commit, tip: Commit
) -> Integrated | IntegrationConflict:
    """Merge a candidate into `tip` in memory and squash it to one commit on it."""
    merged = await merge_commits(context.git, tip, head)
    if isinstance(merged, Conflicted):
        return IntegrationConflict(merged.paths)
    identity = run.settings.identity
    commit = await commits.commit_tree(
        context.git,
        merged.tree,
        parents=[tip],
        message=landing_message(run, action),
        author=identity.author,
        committer=identity.committer,
    )
    return Integrated(commit)


def landing_message(run: Run, action: Action) -> str:
    """Return the message of the commit that lands an action's work."""
    first, _, rest = action.description.strip().partition("\n")
    subject = f"{action.key}: {first}" if first and first != action.key else action.key
    body = f"\n\n{rest.strip()}" if rest.strip() else ""
    return f"{subject}{body}\n\nScaffold-Run: {run.id}\nScaffold-Action: {action.key}\n"
