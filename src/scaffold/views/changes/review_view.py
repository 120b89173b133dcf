"""The review of a run's work: its commits with their evidence, and its change by intent."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from scaffold.core.ids import ActionKey, Commit
from scaffold.core.model import Action, Attempt, Fact
from scaffold.core.proof.contract import STRENGTHS, ExecutedLines
from scaffold.git.client.command_line import Git
from scaffold.store.database import Store
from scaffold.views.changes.comment_standing import CommentStanding, read_comments
from scaffold.views.changes.reviewed_change import Contribution, ReviewedChange, read_change
from scaffold.views.changes.session_commits import SessionCommit, commits_between, paths_by_commit
from scaffold.views.changes.shown_range import ShownRange
from scaffold.views.run_view import RunView


class ReviewedCommit(Struct, frozen=True, kw_only=True):
    """A commit of the session branch, with the facts of its action."""

    commit: SessionCommit
    facts: tuple[Fact, ...]
    """Empty for the user's commits and for reverts."""
    executed: ExecutedLines | None
    """The number of its changed lines that checks executed; None if unknown."""


class RunReview(Struct, frozen=True, kw_only=True):
    """The work of a run on its session branch."""

    commits: tuple[ReviewedCommit, ...]
    """Parents before their children."""
    change: ReviewedChange
    """The whole difference, by intent."""
    comments: tuple[CommentStanding, ...]
    """The comments on all changes of the run, by action and number."""
    in_base: Mapping[ActionKey, tuple[Fact, ...]]
    """The facts of actions that have no commit, because the base that the run was carried over to has their change."""

    @property
    def facts(self) -> tuple[Fact, ...]:
        """Return the facts of the work, weak ones first, then reviewed ones, each once."""
        shown = [*(each.facts for each in self.commits), *self.in_base.values()]
        found = {(fact.goal_id, fact.assertion): fact for facts in shown for fact in facts}
        return tuple(sorted(found.values(), key=lambda fact: (STRENGTHS.index(fact.strength), fact.assertion)))


async def read_review(git: Git, store: Store, view: RunView, head: Commit) -> RunReview:
    """Return the review of a run's work from its base to `head`."""
    run = view.run
    commits = await commits_between(git, store, run, old=run.base_sha, new=head)
    by_key = {action.key: action for action in view.actions}
    reviewed = tuple(_reviewed_commit(view, each, by_key) for each in commits)
    paths = await paths_by_commit(git, run, commits)
    change = await read_change(git, store, run, contributions_of(view, commits, paths), (run.base_sha, head))
    landed = {action: _landed_attempt(view.attempts_of(action), None) for action in view.actions}
    in_base = {
        action.key: tuple(fact for fact in view.facts[action.goal_id] if fact.assertion in action.effects)
        for action, attempt in landed.items()
        if attempt is not None and attempt.head_sha is None
    }
    whole = ShownRange(run=run, base=run.base_sha, commit=head)
    commented = {each.action_id for each in store.review_comments.for_run(run.id)}
    comments = [
        each
        for action in view.actions
        if action.id in commented
        for each in await read_comments(git, store, action, whole)
    ]
    return RunReview(commits=reviewed, change=change, comments=tuple(comments), in_base=in_base)


def _reviewed_commit(view: RunView, commit: SessionCommit, by_key: Mapping[ActionKey, Action]) -> ReviewedCommit:
    action = by_key.get(commit.action) if commit.action else None
    if action is None:
        return ReviewedCommit(commit=commit, facts=(), executed=None)
    attempt = _landed_attempt(view.attempts_of(action), commit.commit)
    # The facts are those of the last landing: after a revert they are not this commit's.
    latest = attempt is not None and attempt == _landed_attempt(view.attempts_of(action), None)
    facts = tuple(fact for fact in view.facts[action.goal_id] if latest and fact.assertion in action.effects)
    verification = attempt.verification if attempt else None
    return ReviewedCommit(commit=commit, facts=facts, executed=verification.executed_lines if verification else None)


def _landed_attempt(attempts: Sequence[Attempt], commit: Commit | None) -> Attempt | None:
    landed = [each for each in attempts if each.outcome == "landed"]
    return next((each for each in reversed(landed) if commit in {None, each.head_sha}), None)


def contributions_of(
    view: RunView, commits: Sequence[SessionCommit], paths: Mapping[Commit, frozenset[str]]
) -> tuple[Contribution, ...]:
    """Return the actions that the commits landed, in their order, each with the paths of all its commits."""
    by_key = {action.key: action for action in view.actions}
    found: dict[ActionKey, Contribution] = {}
    for each in commits:
        action = by_key.get(each.action) if each.action else None
        attempt = _landed_attempt(view.attempts_of(action), each.commit) if action else None
        if action is not None and attempt is not None:
            before = found[action.key].paths or frozenset() if action.key in found else frozenset()
            found[action.key] = Contribution(action, attempt, frozenset(before) | paths[each.commit])
    return tuple(found.values())
