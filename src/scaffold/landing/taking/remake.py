"""Make commits again: on another parent, signed off, or signed as the user's git is configured."""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from scaffold.core.errors import GitError
from scaffold.core.ids import Commit, TreeId
from scaffold.core.landing.branch_move import TakenCommit
from scaffold.core.model import Action, Goal, Run
from scaffold.core.run_settings import Signature
from scaffold.git.trees.merge import HELPER, Conflicted, merge_commits
from scaffold.git.trees.tree_file import tree_with
from scaffold.landing.conflicts.merge_ladder import Integration, TreeMerged, merge_candidate
from scaffold.landing.integration import fitted_subject
from scaffold.landing.marked_tree import merge_list
from scaffold.landing.taking.user_programs import run_as_user, told
from scaffold.run.context import RunContext
from scaffold.run.task_list import read_list, with_list
from scaffold.views.changes.session_commits import SessionCommit

TRAILER = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*: \S.*")
PLACEHOLDER = re.compile(r"\{(request|actions|run)\}")
IDENTITY_FORMAT = "%an%x00%ae%x00%aI%x00%cn%x00%ce%x00%B"


class CommitStyle(Struct, frozen=True, kw_only=True):
    """What the user wants on commits besides tree and message."""

    sign: bool = False
    """Sign as the user's git is configured (`commit.gpgSign`)."""
    sign_off: bool = False
    """Add `Signed-off-by:` with the committer's name and address."""

    @property
    def changes_commits(self) -> bool:
        """Return whether the commits of agents must be made again."""
        return self.sign or self.sign_off


class CommitText(Struct, frozen=True, kw_only=True):
    """The authors, time and message of a commit."""

    author: Signature
    authored_at: str
    """ISO 8601; empty for the present."""
    committer: Signature
    message: str


async def wants_signature(context: RunContext) -> bool:
    """Return whether the user's git signs commits."""
    asked = await run_as_user(context, "git", "config", "--type=bool", "--get", "commit.gpgSign")
    return asked.exit_code == 0 and asked.stdout.strip() == b"true"


async def read_text(context: RunContext, commit: Commit) -> CommitText:
    """Return the authors, time and message of a commit."""
    args = ("rev-list", "--max-count=1", "--no-commit-header", f"--format={IDENTITY_FORMAT}")
    name, address, at, committer, their_address, message = (await context.git(*args, commit)).line.split("\0", 5)
    author, by = Signature(name, address), Signature(committer, their_address)
    return CommitText(author=author, authored_at=at, committer=by, message=message.rstrip("\n") + "\n")


async def remake(
    context: RunContext, tree: str, text: CommitText, *, parents: Sequence[Commit], style: CommitStyle
) -> Commit:
    """Return a new commit of `tree` in the given style, which no ref points to; raises GitError if signing fails."""
    message = signed_off(text.message, text.committer) if style.sign_off else text.message
    env = {
        "GIT_AUTHOR_NAME": text.author.name,
        "GIT_AUTHOR_EMAIL": text.author.email,
        "GIT_COMMITTER_NAME": text.committer.name,
        "GIT_COMMITTER_EMAIL": text.committer.email,
        **({"GIT_AUTHOR_DATE": text.authored_at} if text.authored_at else {}),
    }
    flags = [word for parent in parents for word in ("-p", parent)]
    content = message.encode(errors="surrogateescape")
    if not style.sign:
        return Commit((await context.git("commit-tree", *flags, "-F", "-", tree, stdin=content, env=env)).line)
    argv = ("git", "-c", "i18n.commitEncoding=UTF-8", "commit-tree", "-S", *flags, "-F", "-", tree)
    made = await run_as_user(context, *argv, stdin=content, env=env)
    if made.exit_code != 0:
        raise GitError(
            f"git could not sign a commit: {told(context, made)}",
            "Your git signs commits (`commit.gpgSign`). Unlock the key in its agent and try again; nothing was moved.",
        )
    return Commit(made.stdout.decode().strip())


class Remaker(Struct, frozen=True, kw_only=True):
    """Makes commits again in one style, and reuses those that it made `earlier`."""

    context: RunContext
    style: CommitStyle
    earlier: Mapping[Commit, Commit]
    """{commit: the one made from it}, so that an updated pull request keeps its commits."""

    async def remake(self, commit: SessionCommit, tree: str, parents: Sequence[Commit]) -> Commit:
        """Return the commit made from `commit`, with this tree and these parents."""
        known = self.earlier.get(commit.commit)
        if known is not None and await self._is_reusable(known, tree, parents):
            return known
        text = await read_text(self.context, commit.commit)
        return await remake(self.context, tree, text, parents=parents, style=self.style)

    async def remake_all(self, commits: Sequence[SessionCommit]) -> dict[Commit, Commit]:
        """Return {commit: the one made from it}, with the same trees and the same history graph."""
        made: dict[Commit, Commit] = {}
        for each in commits:
            made[each.commit] = await self.remake(
                each, each.tree, [made.get(parent, parent) for parent in each.parents]
            )
        return made

    async def _is_reusable(self, known: Commit, tree: str, parents: Sequence[Commit]) -> bool:
        found = await self.context.git("cat-file", "commit", known, ok=frozenset({0, 128}))
        head, _, message = found.out.decode(errors="replace").partition("\n\n")
        lines = head.split("\n")
        same = [f"tree {tree}", *(f"parent {parent}" for parent in parents)] == [
            line for line in lines if line.startswith(("tree ", "parent "))
        ]
        signed = any(line.startswith("gpgsig") for line in lines)
        return same and signed == self.style.sign and ("\nSigned-off-by: " in message) == self.style.sign_off


async def apply_work(
    context: RunContext,
    run: Run,
    *,
    old: Commit,
    new: Commit,
    onto: Commit,
    trees: Mapping[Commit, str],
    integration: Integration | None = None,
) -> str | Conflicted:
    """Apply a change as `apply_change` does, but merge the list of tasks task by task, so that marks never conflict."""
    git, listed = context.git, run.settings.landing.tracked_list
    merged = await merge_list(git, listed, old=trees[old], new=trees[new], onto=trees[onto]) if listed else None
    if listed is None or merged is None:
        return await apply_change(context, old=old, new=new, onto=onto, trees=trees, integration=integration)
    without = await tree_with(git, TreeId(trees[new]), listed.path, mode=merged.mode, object_id=merged.object_id)
    trees = {**trees, new: without}
    applied = await apply_change(context, old=old, new=new, onto=onto, trees=trees, integration=integration)
    version = None if isinstance(applied, Conflicted) else await read_list(git, listed, applied)
    if isinstance(applied, Conflicted) or version is None:
        return applied
    return await with_list(git, listed, TreeId(applied), version, merged.text)


async def apply_change(
    context: RunContext,
    *,
    old: Commit,
    new: Commit,
    onto: Commit,
    trees: Mapping[Commit, str],
    integration: Integration | None = None,
) -> str | Conflicted:
    """Return the tree of `onto` with the change from `old` to `new` applied in memory, or its conflicts.

    `trees` has the trees of all three. With `integration`, conflicts are resolved as the merge queue does it.
    """
    if trees[onto] == trees[old]:
        return trees[new]
    # `merge-tree` takes its base from the history, so we make a history in which `old` is the base.
    base = await _helper_commit(context, trees[old])
    ours = await _helper_commit(context, trees[onto], base)
    theirs = await _helper_commit(context, trees[new], base)
    if integration is None:
        merged = await merge_commits(context.git, ours, theirs)
        return merged if isinstance(merged, Conflicted) else merged.tree
    found = await merge_candidate(integration, tip=ours, head=theirs)
    return found.tree if isinstance(found, TreeMerged) else Conflicted(paths=found.paths)


async def _helper_commit(context: RunContext, tree: str, *parents: Commit) -> Commit:
    text = CommitText(author=HELPER, authored_at="", committer=HELPER, message="base of a merge\n")
    return await remake(context, tree, text, parents=parents, style=CommitStyle())


def signed_off(message: str, who: Signature) -> str:
    """Return the message with a `Signed-off-by:` line, in its last paragraph if that consists of trailers."""
    line = f"Signed-off-by: {who.name} <{who.email}>"
    body = message.rstrip("\n")
    if line in body.split("\n"):
        return message
    last = body.rpartition("\n\n")[2] if "\n\n" in body else ""
    joined = "\n" if last and all(map(TRAILER.fullmatch, last.split("\n"))) else "\n\n"
    return f"{body}{joined}{line}\n"


def request_line(run: Run, goals: Sequence[Goal]) -> str:
    """Return the run's request on one line; for a given plan, the names of its goals."""
    given = run.settings.planning.plan_path
    text = ", ".join(goal.name for goal in goals) if given else run.request.strip().partition("\n")[0]
    return text or f"run {run.id}"


def work_title(
    run: Run, goals: Sequence[Goal], commits: Sequence[SessionCommit | TakenCommit], only: Action | None
) -> str:
    """Return what commits are about: the subject of the `only` action's or of the single one, or the run's request."""
    subjects = [each.subject for each in commits if only is None or each.action == only.key]
    return subjects[0] if len(subjects) == 1 else fitted_subject(request_line(run, goals))


def squash_message(
    run: Run, goals: Sequence[Goal], commits: Sequence[SessionCommit], template: str, *, only: Action | None
) -> str:
    """Return the message of the squashed commit of a run's work.

    In the template, `{request}` is the `work_title`, `{actions}` a line for each commit, `{run}` the run.
    """
    actions = "\n".join(f"- {each.subject}" for each in commits)
    values = {"request": work_title(run, goals, commits, only), "actions": actions, "run": run.id}
    text = PLACEHOLDER.sub(lambda found: values[found[1]], template)
    keys = dict.fromkeys(each.action for each in commits if each.action)
    trailers = [f"Scaffold-Run: {run.id}", *(f"Scaffold-Action: {key}" for key in keys)]
    return f"{text.strip()}\n\n" + "\n".join(trailers) + "\n"
