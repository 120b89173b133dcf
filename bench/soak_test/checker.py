"""What must be true after a soak, read from git and the database alone; one function for each promise."""

import subprocess  # noqa: TID251 - git fails in a repository that is not whole
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

from soak_test.place import Place
from soak_test.user import User
from soak_test.workload import BROKEN, FILES, GATE, Job, Workload


class Checker:
    """Reads the repository and the database of a run that is over."""

    def __init__(self, place: Place, workload: Workload, user: User, budget_usd: float) -> None:
        self.jobs: Mapping[str, Job] = workload.by_key
        self.place = place
        self.user = user
        self.budget_usd = budget_usd
        self.run = place.run()
        self.branch = f"refs/heads/{self.run['session_branch']}"
        trailer = "%(trailers:key=Scaffold-Action,valueonly,separator=%x2C)"
        listed = place.git("log", f"--format=%H {trailer}", f"{self.run['base_sha']}..{self.branch}")
        self.landed = [line.partition(" ")[2] for line in listed.splitlines()]
        """The keys of the landed actions, newest first."""

    def violations(self) -> list[str]:
        """Return everything that is wrong."""
        checks = (
            honest_work_landed_once,
            nothing_else_landed,
            files_are_what_was_proven,
            the_database_says_the_same,
            no_attempt_overlaps_another,
            candidates_are_kept,
            the_user_lost_nothing,
            the_repository_is_whole,
            nothing_is_open,
            nothing_is_left,
            the_budget_held,
            nobody_was_woken,
        )
        return [f"{check.__name__}: {each}" for check in checks for each in self._found(check)]

    def _found(self, check: "Check") -> Iterator[str]:
        try:
            yield from check(self)
        except subprocess.CalledProcessError as failed:
            yield f"git fails: {failed.stderr.strip()}"


Check = Callable[[Checker], Iterator[str]]


def honest_work_landed_once(end: Checker) -> Iterator[str]:
    """BX-2, BX-8, BX-23: nothing is lost, and nothing is landed twice."""
    counts = Counter(end.landed)
    for key, job in end.jobs.items():
        if job.lands and not counts[key]:
            yield f"{key} ({job.behaviour}) did not land: {_reason(end, key)}"
        if counts[key] > 1:
            yield f"{key} landed {counts[key]} times"


def nothing_else_landed(end: Checker) -> Iterator[str]:
    """BX-1: wrong work, no work, and work that breaks or edits a gate stays out."""
    for key in end.landed:
        if key not in end.jobs:
            yield f"a commit names the action {key!r}, which is none"
        elif not end.jobs[key].lands:
            yield f"{key} landed, although it {end.jobs[key].behaviour}"


def files_are_what_was_proven(end: Checker) -> Iterator[str]:
    """BX-1: the branch has the files of its actions, as they were asked for, and no others."""
    expected = {job.path: job.content for key, job in end.jobs.items() if key in set(end.landed)} | FILES
    found = set(end.place.git("ls-tree", "-r", "-z", "--name-only", end.branch).strip("\0").split("\0"))
    yield from (f"{path} is on the branch, but nobody was to make it" for path in sorted(found - set(expected)))
    yield from (f"{path} is not on the branch" for path in sorted(set(expected) - found))
    for path in sorted(found & set(expected)):
        content = end.place.git("show", f"{end.branch}:{path}")
        if content != expected[path]:
            yield f"{path} is {content!r} instead of {expected[path]!r}"
        if BROKEN in content and path != GATE:
            yield f"{path} breaks the gate"


def the_database_says_the_same(end: Checker) -> Iterator[str]:
    """BX-2: completed means landed, with a fact, and one attempt that landed."""
    landed = set(end.landed)
    attempts = Counter(
        key
        for (key,) in end.place.rows(
            "SELECT a.key FROM attempt t JOIN action a ON a.id = t.action_id WHERE t.outcome = 'landed'"
        )
    )
    facts = {assertion for (assertion,) in end.place.rows("SELECT assertion FROM fact WHERE state = 'holds'")}
    for key, status in end.place.rows("SELECT key, status FROM action"):
        if (status == "completed") != (key in landed):
            yield f"{key} is {status}, but {'landed' if key in landed else 'did not land'}"
        if (f"{key}_done" in facts) != (key in landed):
            yield f"{key}_done {'is' if f'{key}_done' in facts else 'is not'} a fact"
        if attempts[key] != (key in landed):
            yield f"{key} has {attempts[key]} attempts that landed"


def no_attempt_overlaps_another(end: Checker) -> Iterator[str]:
    """BX-8: the attempts of an action come one after another."""
    rows = end.place.rows("SELECT action_id, number, queued_at, ended_at FROM attempt ORDER BY action_id, number")
    for one, two in pairwise(rows):
        if one[0] == two[0] and (one[3] is None or one[3] > two[2]):
            yield f"attempt {two[1]} of {two[0]} began before attempt {one[1]} had ended"


def candidates_are_kept(end: Checker) -> Iterator[str]:
    """BX-2, BX-10: work that was handed in but did not land is kept by a ref."""
    kept = set(end.place.git("rev-list", "--all").split())
    query = "SELECT id, outcome, head_sha FROM attempt WHERE head_sha IS NOT NULL AND outcome <> 'landed'"
    for attempt, outcome, head in end.place.rows(query):
        if head not in kept:
            yield f"the work {head} of attempt {attempt} ({outcome}) has no ref"


def the_user_lost_nothing(end: Checker) -> Iterator[str]:
    """BX-3: the user's branches are as the user left them, and the working tree has what was committed."""
    for branch, subjects in end.user.branches.items():
        found = end.place.git("log", "--format=%s", branch).splitlines()
        yield from (f"{branch} has lost {each!r}" for each in subjects if each not in found)
        trailers = end.place.git("log", "--format=%(trailers:key=Scaffold-Action,valueonly)", branch).split()
        yield from (f"{branch} has the agent's commit of {each}" for each in trailers)
    if changed := end.place.git("status", "--porcelain", "--untracked-files=no").strip():
        yield f"the user's checkout is changed: {changed}"


def the_repository_is_whole(end: Checker) -> Iterator[str]:
    """BX-10: every object that something refers to is there."""
    if problems := end.place.git("fsck", "--connectivity-only", "--no-dangling", "--no-progress").strip():
        yield problems


def nothing_is_open(end: Checker) -> Iterator[str]:
    """BX-2, BX-17: no attempt, intention, turn, question or owner."""
    for table, condition in (
        ("attempt", "status <> 'ended'"),
        ("intent", "status = 'open'"),
        ("planning_turn", "ended_at IS NULL"),
        ("reservation", "granted = 1"),
    ):
        ((count,),) = end.place.rows(f"SELECT COUNT(*) FROM {table} WHERE {condition}")
        if count:
            yield f"{count} rows of {table} are open"
    if end.run["status"] not in {"completed", "failed"} or end.run["owner"]:
        yield f"the run is {end.run['status']} ({end.run['reason']}), its owner is {end.run['owner']}"


def nothing_is_left(end: Checker) -> Iterator[str]:
    """BX-17, AL-15: no process, no worktree, no temporary file."""
    yield from (f"process {pid} is left: {line}" for pid, line in end.place.processes().items())
    for line in end.place.git("worktree", "list", "--porcelain").splitlines():
        if line.startswith("worktree ") and line != f"worktree {end.place.repo}":
            yield f"{line} is left"
    yield from (f"{path} is left" for path in sorted(end.place.temporary.iterdir()))


def the_budget_held(end: Checker) -> Iterator[str]:
    """BX-11: the agents spent no more than they may."""
    ((spent,),) = end.place.rows("SELECT SUM(cost_usd) FROM usage_record")
    if (spent or 0.0) > end.budget_usd:
        yield f"{spent:.2f} $ were spent of {end.budget_usd:.2f} $"


def nobody_was_woken(end: Checker) -> Iterator[str]:
    """BX-23: no question waits for a human that was not about work that may not land."""
    query = (
        "SELECT i.kind, i.text, a.key FROM inbox i LEFT JOIN action a ON a.id = i.action_id WHERE i.kind <> 'notice'"
    )
    for kind, text, key in end.place.rows(query):
        if key is None or end.jobs[key].lands:
            yield f"a human is asked ({kind}, {key}): {text}"


def _reason(end: Checker, key: str) -> str:
    ((status, reason),) = end.place.rows(f"SELECT status, reason FROM action WHERE key = '{key}'")
    attempts = end.place.rows(
        "SELECT t.outcome, t.error FROM attempt t JOIN action a ON a.id = t.action_id"
        f" WHERE a.key = '{key}' ORDER BY t.number"
    )
    return f"{status} ({reason}); attempts: {attempts}"
