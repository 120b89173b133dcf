"""The review of a run's work: its commits with their evidence, and its changed files, the riskiest first."""

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from msgspec import Struct

from scaffold.core.ids import ActionKey, Commit
from scaffold.core.model import Action, Attempt, Fact, Run
from scaffold.core.proof.contract import STRENGTHS, ExecutedLines
from scaffold.git.added_lines import NUMSTAT_TABS
from scaffold.git.client.command_line import Git
from scaffold.git.commits import (
    DIFF_OPTIONS,
    WITHOUT_ATTRIBUTES,
    PathChange,
    batch_contents,
    listed_paths,
    path_changes,
    renames,
)
from scaffold.policy.path.protected_areas import ProtectedAreas
from scaffold.run.task_list import own_changed_paths
from scaffold.store.database import Store
from scaffold.verify.paths.check_inputs import BaseLayout, check_input_reason
from scaffold.verify.paths.manifest import changed_check_settings, has_settings
from scaffold.views.changes.session_commits import SessionCommit, commits_between, paths_by_commit
from scaffold.views.run_view import RunView

Risk = Literal["checks", "protected", "deleted", "big", "untested", "rest"]
"""Decides how work is checked | in a protected area | gone | many lines | lines that no check executed | the rest."""
RISKS: Sequence[Risk] = get_args(Risk)
"""In reading order."""
BIG_LINES = 200
"""A file with more changed lines is big."""


class ReviewedFile(Struct, frozen=True, kw_only=True):
    """A changed file."""

    path: str
    kind: Literal["A", "D", "M", "T"]
    """Added | deleted | modified | type changed."""
    added: int
    deleted: int
    risk: Risk
    reason: str
    """The reason for its risk, to be read after its path; empty for the rest."""
    actions: tuple[ActionKey, ...]
    """The actions whose commits changed it."""


class ReviewedCommit(Struct, frozen=True, kw_only=True):
    """A commit of the session branch, with the facts of its action."""

    commit: SessionCommit
    facts: tuple[Fact, ...]
    """Empty for the user's commits and for reverts."""
    executed: ExecutedLines | None
    """The number of its changed lines that checks executed; None if unknown."""


class RunReview(Struct, frozen=True, kw_only=True):
    """The work of a run on its session branch."""

    base: Commit
    head: Commit
    commits: tuple[ReviewedCommit, ...]
    """Parents before their children."""
    files: tuple[ReviewedFile, ...]
    """By risk, then by path."""
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
    files = await _reviewed_files(git, store, run, head, reviewed)
    landed = {action: _landed_attempt(view.attempts_of(action), None) for action in view.actions}
    in_base = {
        action.key: tuple(fact for fact in view.facts[action.goal_id] if fact.assertion in action.effects)
        for action, attempt in landed.items()
        if attempt is not None and attempt.head_sha is None
    }
    return RunReview(base=run.base_sha, head=head, commits=reviewed, files=files, in_base=in_base)


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


async def _reviewed_files(
    git: Git, store: Store, run: Run, head: Commit, commits: Sequence[ReviewedCommit]
) -> tuple[ReviewedFile, ...]:
    base = run.base_sha
    # Marks in task lists change with each commit, and need no review.
    shown = await own_changed_paths(git, run.settings.landing.tracked_list, base, head)
    changes = [each for each in await path_changes(git, base, head) if each.path in shown]
    paths = await paths_by_commit(git, run, [each.commit for each in commits])
    judge = _RiskJudge(
        layout=BaseLayout(await listed_paths(git, base), _judging_commands(store, run)),
        areas=ProtectedAreas.with_added(run.settings.permissions.areas),
        settings=await _changed_settings(git, base, head, changes),
        renamed=await renames(git, base, head),
        lines=await _line_counts(git, base, head),
        untested=frozenset(
            path
            for each in commits
            if each.executed is not None and each.executed.executed < each.executed.total
            for path in paths[each.commit.commit]
        ),
    )
    found = []
    for change in changes:
        risk, reason = judge.risk_of(change)
        added, deleted = judge.lines.get(change.path, (0, 0))
        touching = [each.commit.action for each in commits if change.path in paths[each.commit.commit]]
        found.append(
            ReviewedFile(
                path=change.path,
                kind=change.kind,
                added=added,
                deleted=deleted,
                risk=risk,
                reason=reason,
                actions=tuple(dict.fromkeys(key for key in touching if key is not None)),
            )
        )
    return tuple(sorted(found, key=lambda file: (RISKS.index(file.risk), file.path)))


class _RiskJudge(Struct, frozen=True, kw_only=True):
    """Says why a changed file deserves attention."""

    layout: BaseLayout
    areas: ProtectedAreas
    settings: Mapping[str, Sequence[str]]
    renamed: Mapping[str, str]
    lines: Mapping[str, tuple[int, int]]
    untested: frozenset[str]

    def risk_of(self, change: PathChange) -> tuple[Risk, str]:
        """Return the first risk that applies, and why."""
        path = change.path
        if why := check_input_reason(change, self.layout):
            return "checks", why
        if parts := self.settings.get(path):
            return "checks", f"has settings that determine check results: {', '.join(parts[:3])}"
        if area := self.areas.area_of(path):
            return "protected", f"is in a protected area: {area}"
        if change.kind != "D":
            return self._extent_risk(path)
        return ("rest", f"is {self.renamed[path]} now") if path in self.renamed else ("deleted", "is gone")

    def _extent_risk(self, path: str) -> tuple[Risk, str]:
        changed = sum(self.lines.get(path, (0, 0)))
        if changed > BIG_LINES:
            return "big", f"has {changed:,} changed lines"
        if path in self.untested:
            return "untested", "is part of a change of which the checks executed only some lines"
        return "rest", ""


def _judging_commands(store: Store, run: Run) -> tuple[str, ...]:
    baseline = store.baselines.for_run(run.id)
    gates = [each.gate.command for each in baseline.runs] if baseline else []
    contracts = [action.contract for action in store.actions.for_run(run.id) if action.contract]
    return tuple(dict.fromkeys([*gates, *(check.command for each in contracts for check in each.commands)]))


async def _changed_settings(
    git: Git, base: Commit, head: Commit, changes: Sequence[PathChange]
) -> dict[str, tuple[str, ...]]:
    """Return, by path, the changed parts of manifests that determine check results."""
    manifests = [each.path for each in changes if has_settings(each.path) and not each.is_gitlink]
    names = [f"{commit}:{path}" for path in manifests for commit in (base, head)]
    contents = await batch_contents(git, names) if names else ()
    pairs = zip(manifests, contents[::2], contents[1::2], strict=True)
    return {path: changed_check_settings(path, before, after) for path, before, after in pairs}


async def _line_counts(git: Git, old: Commit, new: Commit) -> dict[str, tuple[int, int]]:
    """Return {path: (added, deleted)} of text files."""
    options = [each for each in DIFF_OPTIONS if each != "-M"]
    args = ("diff-tree", "-r", "-z", "--numstat", "--no-renames", *options, old, new)
    records = (await git(*args, env=WITHOUT_ATTRIBUTES)).records
    parts = [record.split("\t", NUMSTAT_TABS) for record in records]
    # A binary file has `-` for its counts.
    return {path: (int(added), int(deleted)) for added, deleted, path in parts if added.isdecimal()}
