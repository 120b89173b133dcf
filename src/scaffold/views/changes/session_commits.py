"""The commits of a session branch: the action that each landed, and which of them need each other."""

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from scaffold.core.ids import ActionId, ActionKey, Assertion, Commit
from scaffold.core.model import Action, Run
from scaffold.git.client.command_line import Git
from scaffold.run.task_list import own_changed_paths
from scaffold.store.database import Store

LOG_FORMAT = "%H%x00%T%x00%P%x00%s"
FIELDS = 4


class SessionCommit(Struct, frozen=True, kw_only=True):
    """One commit of a session branch."""

    commit: Commit
    tree: str
    parents: tuple[Commit, ...]
    subject: str
    action: ActionKey | None
    """The action that it landed; None for the user's commits and for reverts."""


async def commits_between(git: Git, store: Store, run: Run, *, old: Commit, new: Commit) -> tuple[SessionCommit, ...]:
    """Return the commits since the run's base that `new` contains and `old` does not, parents before their children."""
    keys = {action.id: action.key for action in store.actions.for_run(run.id)}
    landed = {
        each.head_sha: each.action_id
        for each in store.attempts.for_run(run.id)
        if each.outcome == "landed" and each.head_sha
    }
    args = ("rev-list", "--reverse", "--topo-order", "--no-commit-header", f"--format={LOG_FORMAT}%x00")
    # Each commit's fields end in NUL and a newline; a subject has neither.
    records = (await git(*args, new, f"^{old}", f"^{run.base_sha}")).out.decode(errors="replace").split("\0")[:-1]
    fields = [each.removeprefix("\n") for each in records]
    found = [fields[at : at + FIELDS] for at in range(0, len(fields), FIELDS)]
    return tuple(
        SessionCommit(
            commit=Commit(commit),
            tree=tree,
            parents=tuple(map(Commit, parents.split())),
            subject=subject,
            action=keys.get(landed[Commit(commit)]) if Commit(commit) in landed else None,
        )
        for commit, tree, parents, subject in found
    )


async def paths_by_commit(git: Git, run: Run, commits: Sequence[SessionCommit]) -> dict[Commit, frozenset[str]]:
    """Return the paths that each commit changes against its first parent; none for one without parents.

    Task lists in which a commit only marks tasks are left out.
    """
    listed = run.settings.landing.tracked_list
    return {
        each.commit: frozenset(await own_changed_paths(git, listed, each.parents[0], each.commit))
        if each.parents
        else frozenset()
        for each in commits
    }


def needed_for(
    key: ActionKey,
    commits: Sequence[SessionCommit],
    paths: Mapping[Commit, Collection[str]],
    builds_on: Mapping[ActionId, Sequence[Assertion]],
    actions: Sequence[Action],
) -> dict[Commit, str]:
    """Return the commits of an action and all that they need, each with the reason; in the order of `commits`.

    A commit needs the commits of the actions whose facts its own action builds on, and earlier ones that change a path
    that it changes. Empty if the action has no commit among them.

    `builds_on` are the inherited preconditions of each action.
    """
    needs = _needed_actions(builds_on, actions)
    reasons = {each.commit: "" for each in commits if each.action == key}
    # Each pass looks from the end: a commit needs only earlier ones.
    for at in range(len(commits) - 1, -1, -1):
        wanted = commits[at]
        if wanted.commit not in reasons:
            continue
        name = wanted.action or wanted.commit[:8]
        touched = frozenset(paths[wanted.commit])
        for earlier in commits[:at]:
            if earlier.commit in reasons:
                continue
            shared = sorted(touched & frozenset(paths[earlier.commit]))
            if facts := needs.get((wanted.action, earlier.action)):
                reasons[earlier.commit] = f"{name} builds on {', '.join(sorted(facts))}"
            elif shared:
                reasons[earlier.commit] = f"{name} also changes {', '.join(shared)}"
    return {each.commit: reasons[each.commit] for each in commits if each.commit in reasons}


def _needed_actions(
    builds_on: Mapping[ActionId, Sequence[Assertion]], actions: Sequence[Action]
) -> dict[tuple[ActionKey | None, ActionKey | None], set[str]]:
    """Return {(action, action it builds on): the facts it builds on}."""
    providers: dict[tuple[str, str], set[ActionKey]] = {}
    for action in actions:
        for effect in action.effects:
            providers.setdefault((action.goal_id, effect), set()).add(action.key)
    found: dict[tuple[ActionKey | None, ActionKey | None], set[str]] = {}
    for action in actions:
        for need in builds_on[action.id]:
            for provider in providers.get((action.goal_id, need), ()):
                for each in _actions_below(provider, actions):
                    found.setdefault((action.key, each), set()).add(need)
    return found


def _actions_below(key: ActionKey, actions: Sequence[Action]) -> set[ActionKey]:
    # The children of a compound prove what it provides.
    found = {action.id for action in actions if action.key == key}
    for action in actions:  # in plan order, parents first
        if action.parent_id in found:
            found.add(action.id)
    return {action.key for action in actions if action.id in found}
