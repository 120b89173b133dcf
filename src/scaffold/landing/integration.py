"""Integrate a candidate: make the commit that would land on a tip, in memory."""

import re
from collections.abc import Sequence
from functools import partial

from msgspec import Struct

from scaffold.core.ids import Commit
from scaffold.core.landing.conflict import FileMerge
from scaffold.core.model import Action, Run
from scaffold.core.plan import full_text
from scaffold.core.printable_text import utf8_safe
from scaffold.git import commits
from scaffold.git.trees.merge import on_base
from scaffold.landing.conflicts.merge_ladder import (
    AskAgent,
    Helper,
    Integration,
    MakeLockFiles,
    TreeConflict,
    merge_candidate,
)
from scaffold.landing.marked_tree import MarkedTree, marked, set_apart
from scaffold.policy.path import globs
from scaffold.run.attempts.assignment import action_of_work
from scaffold.run.context import RunContext

MAX_SUBJECT = 72
HEADING = re.compile(r"^#+\s+")
MAX_TOLD = 12
"""How many files a refusal names."""


class Integrated(Struct, frozen=True, tag="integrated"):
    """The candidate's change fits the tip; `commit` is what would land: one commit on the tip."""

    commit: Commit
    told: tuple[FileMerge, ...] = ()
    """What became of each file that both sides changed, if one was in conflict."""
    needs_all_tests: bool = False
    """Whether every gate has to pass completely, because a helper decided how to combine both sides."""
    unmarked: str = ""
    """Why its task is not marked as done in the list of tasks; empty if it is marked, or not listed."""


class Helpers(Struct, frozen=True, kw_only=True):
    """Resolve the conflicts that the queue itself cannot; None if there is no such helper."""

    ask_agent: AskAgent | None = None
    make_lock_files: MakeLockFiles | None = None


NO_HELPERS = Helpers()


class IntegrationConflict(Struct, frozen=True, tag="conflict"):
    """The candidate's change and what landed meanwhile cannot be merged in `paths` (sorted)."""

    paths: tuple[str, ...]
    told: tuple[FileMerge, ...] = ()
    """What became of each file that both sides changed."""
    helpers: frozenset[Helper] = frozenset()
    """The helpers that could resolve it together; empty if only a new attempt can."""

    @property
    def why(self) -> str:
        """The reason for the refusal, for the agent of the next attempt."""
        return f"{_conflict_with(self.paths)}\n{_merge_list(self.told)}".rstrip()


def integration_of(context: RunContext, run: Run, helpers: Helpers = NO_HELPERS) -> Integration:
    """Return how changes of a run are merged, when they land and when they are taken back."""
    return Integration(
        git=context.git,
        folder=context.temporary_folder(run.id),
        identity=run.settings.identity.committer,
        is_union=partial(globs.matches_any, run.settings.landing.union),
        ask_agent=helpers.ask_agent,
        make_lock_files=helpers.make_lock_files,
    )


async def integrate(
    context: RunContext,
    run: Run,
    action: Action,
    *,
    head: Commit,
    tip: Commit,
    base: Commit | None = None,
    helpers: Helpers = NO_HELPERS,
) -> Integrated | IntegrationConflict:
    """Merge a candidate into `tip` in memory and squash it to one commit on it.

    With `base`, the commit on which the work was made, only the change since then is merged, even if the tip does not
    contain that commit because the run was carried over to another base. The commit marks the action's task in the list
    that the run executes. Takes milliseconds without helpers.
    """
    identity, integration = run.settings.identity, integration_of(context, run, helpers)
    git, listed = context.git, run.settings.landing.tracked_list
    target = tip if base is None else await on_base(git, tip, base)
    work = await set_apart(git, listed, tip=target, head=head)
    merged = await merge_candidate(integration, tip=target, head=work.head)
    told = _printable_merges(context, merged.told)
    if isinstance(merged, TreeConflict):
        return IntegrationConflict(merged.paths, told, merged.helpers)
    whole, shown = action_of_work(context.store, action), MarkedTree(merged.tree)
    if listed is not None:
        shown = await marked(git, listed, merged.tree, whole.key, merged=work.text, base=run.base_sha)
    commit = await commits.commit_tree(
        git,
        shown.tree,
        parents=[tip],
        message=landing_message(run, whole),
        author=identity.author,
        committer=identity.committer,
    )
    return Integrated(commit, told, needs_all_tests=bool(merged.helpers), unmarked=shown.why_not)


def why_merge_failed(told: Sequence[FileMerge], why: str) -> str:
    """Return the reason for refusing a commit whose conflict was resolved but whose checks fail with `why`."""
    resolved = [each for each in told if each.status == "resolved"]
    conflict = _conflict_with([each.path for each in resolved])
    return f"{conflict}, and what was merged does not pass:\n{why}\n\n{_merge_list(resolved)}"


def landing_message(run: Run, action: Action) -> str:
    """Return the message of the commit that lands an action's work."""
    rest = full_text(action).removeprefix(_subject_words(action)).strip()
    body = f"\n\n{rest}" if rest else ""
    return f"{commit_subject(action)}{body}\n\nScaffold-Run: {run.id}\nScaffold-Action: {action.key}\n"


def commit_subject(action: Action) -> str:
    """Return the subject of the commit of an action: its title as it stands; trailers name the action."""
    words = _subject_words(action)
    return f"feat(ralph): {action.key} - {words}" if action.method == "story" else words


def _subject_words(action: Action) -> str:
    return action.title.strip() or fitted_subject(action.description) or action.key


def fitted_subject(text: str) -> str:
    """Return the first line of a text, cut to fit the subject of a commit."""
    # Editors of commit messages drop lines that begin as a heading does.
    line = HEADING.sub("", text.strip().partition("\n")[0]).strip()
    if len(line) <= MAX_SUBJECT:
        return line
    cut = line[: MAX_SUBJECT - 2]
    return f"{(cut.rpartition(' ')[0] or cut[:-1]).rstrip()}..."


def _printable_merges(context: RunContext, told: Sequence[FileMerge]) -> tuple[FileMerge, ...]:
    # The reasons may quote lines of the files, and those may have secrets.
    if not told:
        return ()
    clean = context.redactor.clean
    return tuple(FileMerge(utf8_safe(each.path), each.status, clean(utf8_safe(each.detail))) for each in told)


def _conflict_with(paths: Sequence[str]) -> str:
    return f"conflicts with work that landed earlier in {', '.join(paths)}"


def _merge_list(told: Sequence[FileMerge]) -> str:
    return "\n".join(f"- {each.line}" for each in told[:MAX_TOLD])
