"""Invariants at every commit and at the end of a run; one function for each."""

from collections import Counter
from collections.abc import Iterator

from scaffold.core.events import (
    ActionLanded,
    ActionReverted,
    ActionStatusChanged,
    AttemptEnded,
    AttemptPhaseChanged,
    AttemptQueued,
    AttemptWaitChanged,
    Event,
    FactStateChanged,
    GoalStatusChanged,
    PlanningTurnEnded,
    RunStatusChanged,
    StoredEvent,
)
from scaffold.core.ids import Commit, GoalId, RunId
from scaffold.core.model import Attempt, Goal, Run
from scaffold.core.states import Active, Cancelled, Completed, Failed, Paused, Planning, reason_of, status_of
from scaffold.git import refs
from scaffold.orchestrator.owner.run_end import PAUSE_REASONS
from scaffold.store.database import Store
from simulator.branch_changes import reverted, what_a_revert_undoes_holds_no_longer
from simulator.collision_invariants import (
    count_able_to_start,
    no_directory_has_more_agents_than_may,
    nothing_runs_beside_what_it_collides_with,
)
from simulator.database import Database
from simulator.failure_invariants import an_action_fails_only_for_its_own_failures, own_failures_are_bounded
from simulator.memory_git import Objects
from simulator.story_invariants import (
    AT_THE_END,
    has_used_its_restarts,
    is_about_step,
    is_part_of_a_landing,
    one_attempt_in_a_workspace,
    steps_begin_in_order,
    was_replaced,
)
from simulator.worker import SimulatedWorktrees

OWN_FAILURES = frozenset({"contract_failed", "gate_failed", "executor_failed", "timeout"})
"""Repeated here as promised, because the list in the code may be wrong."""
WORKING_PHASES = frozenset({"workspace", "executing", "verifying", "critiquing"})
SOME_DEATHS, MANY_DEATHS = 3, 6
BUSY = frozenset({"running", "verifying", "landing"})


class InvariantChecker:
    """Checks every commit of the database and every move of a ref, and records violations."""

    def __init__(self, store: Store, run_id: RunId, database: Database, objects: Objects) -> None:
        """`store` belongs to no process: it is never killed and never writes."""
        self.violations: list[str] = []
        self.trace: list[StoredEvent] = []
        self.reported: list[Commit] = []
        """Commits that were reported as landed, in that order."""
        self._store = store
        self._run_id = run_id
        self._objects = objects
        self._own_failures: Counter[str] = Counter()
        self._statuses: dict[str, str] = {}
        self._submitted: set[tuple[str, int]] = set()
        database.listeners.append(self._check_commit)
        objects.moved.append(self._check_ref)

    @property
    def run(self) -> Run:
        """Return the run as it is committed."""
        run = self._store.runs.get(self._run_id)
        assert run is not None
        return run

    def _check_commit(self) -> None:
        """Check what a commit changed; one without an event changed no state."""
        seen = self.trace[-1].seq if self.trace else 0
        if self._store.events.last_seq(self._run_id) == seen:
            return
        new = self._store.events.since(self._run_id, seq=seen)
        self.trace += new
        run = self.run
        for recorded in new:
            self._record(self._check_event(run, recorded.event))

    def _check_ref(self, ref: str, old: str | None, new: str | None) -> None:
        run = self.run
        if ref == f"refs/heads/{run.session_branch}":
            self._record(the_branch_only_grows(self._objects, old, new))

    def _record(self, found: Iterator[str]) -> None:
        self.violations += [f"at event {len(self.trace)}: {each}" for each in found]

    def _check_event(self, run: Run, event: Event) -> Iterator[str]:
        match event:
            case AttemptQueued():
                yield from steps_begin_in_order(self._store, run, event)
                yield from one_attempt_in_a_workspace(self._store, run)
                yield from nothing_starts_in_a_goal_that_is_not_active(self._store, run, event)
                yield from nothing_starts_in_a_goal_whose_workers_die(self._store, run, event)
                yield from caps_are_kept(self._store, run)
                yield from one_attempt_at_a_time(self._store, run)
                yield from slots_are_shared_in_turn(self._store, run, event)
                yield from nothing_runs_beside_what_it_collides_with(self._store, run, event)
                yield from no_directory_has_more_agents_than_may(self._store, run, event)
            case PlanningTurnEnded(event="replan"):
                yield from replans_are_bounded(self._store, run)
            case AttemptPhaseChanged(action=key, number=number, phase="candidate"):
                self._submitted.add((key, number))
                yield from landing_keeps_up(self._store, run)
            case AttemptWaitChanged() | AttemptPhaseChanged():
                yield from caps_are_kept(self._store, run)
            case AttemptEnded(action=key, number=number, outcome=outcome) if outcome in OWN_FAILURES:
                self._own_failures[key] += 1
                if (key, number) in self._submitted and not has_used_its_restarts(self._store, run, key):
                    yield from a_submitted_candidate_belongs_to_the_owner(event)
                yield from own_failures_are_bounded(self._store, run, key, self._own_failures[key])
            case ActionStatusChanged():
                yield from self._action_moved(run, event)
            case ActionLanded() | ActionReverted() | FactStateChanged(state="holds"):
                yield from self._branch_has(run, event)

    def _branch_has(self, run: Run, event: ActionLanded | ActionReverted | FactStateChanged) -> Iterator[str]:
        if isinstance(event, FactStateChanged) and is_about_step(event.assertion):
            return
        yield from reported_landings_are_on_the_branch(self._objects, run, event.commit)
        if isinstance(event, ActionLanded | ActionReverted):
            self.reported.append(event.commit)
        if isinstance(event, ActionReverted):
            del self._own_failures[event.action]  # a human asked for it to be done once more
            yield from what_a_revert_undoes_holds_no_longer(self._store, run, event)

    def _action_moved(self, run: Run, event: ActionStatusChanged) -> Iterator[str]:
        was, self._statuses[event.action] = self._statuses.get(event.action), event.status
        if event.status == "failed":
            yield from an_action_fails_only_for_its_own_failures(
                self._store, run, event.action, self._own_failures[event.action]
            )
        action = self._store.actions.by_key(run.id, event.action)
        # A human granted new attempts; what the planner opens again, or a human gives up, keeps its failures.
        reopened = was in {"failed", "blocked"} and event.status == "pending" and action is not None
        if reopened and not self._store.actions.failures(action.id):
            del self._own_failures[event.action]


def caps_are_kept(store: Store, run: Run) -> Iterator[str]:
    """SC-15, BX-13: no more run at a time than the run and their goal allow; as many more may wait for a human."""
    open_ones = [attempt for attempt in store.attempts.open_of_run(run.id) if attempt.phase in WORKING_PHASES]
    working = [attempt for attempt in open_ones if attempt.waits_for is None]
    for count, what in ((len(working), "run"), (len(open_ones) - len(working), "wait")):
        if count > run.settings.tier.agents:
            yield f"{count} attempts {what}, but the run allows {run.settings.tier.agents}"
    if len(working) < 2:
        return
    goals = Counter(action.goal_id for each in working if (action := store.actions.get(each.action_id)))
    for goal in store.goals.for_run(run.id):
        if goals[goal.id] > goal.worker_cap:
            yield f"{goals[goal.id]} attempts run in {goal.name}, which allows {goal.worker_cap}"


def slots_are_shared_in_turn(store: Store, run: Run, event: AttemptQueued) -> Iterator[str]:
    """SC-15: enough slots are left for all goals with ready work to get as many as the goal had before this one."""
    working = _slots_taken(store, run)
    action = store.actions.by_key(run.id, event.action)
    before = working.get(action.goal_id, 1) - 1 if action else 0
    owed = 0
    for goal in store.goals.for_run(run.id):
        held = working.get(goal.id, 0)
        ready = count_able_to_start(store, run, goal)
        if isinstance(goal.state, Active) and store.goals.unmet(goal.id):
            owed += max(0, min(before, _cap(store, goal), held + ready) - held)
    agents = run.settings.tier.agents
    free = min(agents - working.total(), 2 * agents - len(store.attempts.open_of_run(run.id)))
    if owed > free:
        yield f"{event.action} takes slot {before + 1} of its goal, but {owed} are owed to others and {free} are free"


def _slots_taken(store: Store, run: Run) -> Counter[GoalId]:
    """Return how many attempts of each goal work, but for those that a human has not answered yet."""
    asked = {item.id for item in store.inbox.open_of_run(run.id)}
    working = [each for each in store.attempts.open_of_run(run.id) if each.phase in WORKING_PHASES]
    actions = (store.actions.get(each.action_id) for each in working if each.waits_for not in asked)
    return Counter(action.goal_id for action in actions if action is not None)


def _cap(store: Store, goal: Goal) -> int:
    """Return how many attempts the goal may run, which is less while its workers die."""
    if goal.deaths >= MANY_DEATHS or goal in store.goals.resting(goal.run_id):
        return 0
    return 1 if goal.deaths >= SOME_DEATHS else goal.worker_cap


def landing_keeps_up(store: Store, run: Run) -> Iterator[str]:
    """AL-13: no more candidates wait to land than twice the agents."""
    waiting = len(store.attempts.waiting_to_land(run.id))
    if waiting > 2 * run.settings.tier.agents:
        yield f"{waiting} candidates wait to land in a run with {run.settings.tier.agents} agents"


def one_attempt_at_a_time(store: Store, run: Run) -> Iterator[str]:
    """BX-8: an action has at most one open attempt."""
    counts = Counter(attempt.action_id for attempt in store.attempts.open_of_run(run.id))
    yield from (f"{count} attempts are open for {action}" for action, count in counts.items() if count > 1)


def replans_are_bounded(store: Store, run: Run) -> Iterator[str]:
    """OR-3: no more replans than allowed happen without a new fact."""
    for goal in store.goals.for_run(run.id):
        fruitless = store.turns.count_without_progress_of_goal(goal.id, "replan")
        if fruitless > run.settings.limits.replans:
            yield f"{goal.name} was replanned {fruitless} times without a new fact"


def nothing_starts_in_a_goal_that_is_not_active(store: Store, run: Run, event: AttemptQueued) -> Iterator[str]:
    """SC-16: a paused, cancelled or ended goal starts no attempt."""
    action = store.actions.by_key(run.id, event.action)
    goal = None if action is None else store.goals.get(action.goal_id)
    if goal is None or not isinstance(goal.state, Active):
        yield f"attempt {event.number} of {event.action} starts in a goal that is {goal and status_of(goal.state)}"


def nothing_starts_in_a_goal_whose_workers_die(store: Store, run: Run, event: AttemptQueued) -> Iterator[str]:
    """SC-16: after a death it rests; after six in a row it waits for a human."""
    action = store.actions.by_key(run.id, event.action)
    goal = None if action is None else store.goals.get(action.goal_id)
    if goal is not None and (goal.deaths >= MANY_DEATHS or goal in store.goals.resting(run.id)):
        yield f"attempt {event.number} of {event.action} starts after {goal.deaths} deaths, rest {goal.rest}"


def a_submitted_candidate_belongs_to_the_owner(event: AttemptEnded) -> Iterator[str]:
    """BX-8: a worker that has submitted cannot change how its attempt ends."""
    if event.outcome == "executor_failed":
        yield f"attempt {event.number} of {event.action} was submitted, but its worker ended it: {event.error}"


def reported_landings_are_on_the_branch(objects: Objects, run: Run, commit: str) -> Iterator[str]:
    """BX-2: a landing, or a fact, is reported only after its commit is on the session branch."""
    tip = objects.refs.get(f"refs/heads/{run.session_branch}")
    if tip is None or commit not in objects.commits or not objects.contains(tip, commit):
        yield f"{commit} is reported as landed, but is not on {run.session_branch}"


def the_branch_only_grows(objects: Objects, old: str | None, new: str | None) -> Iterator[str]:
    """BX-2, BX-3: landed commits stay; those that a rebase carried over stay reachable as they were."""
    kept = [tip for ref, tip in objects.refs.items() if ref.startswith("refs/scaffold/keep/")]
    if new is None or (old is not None and not any(objects.contains(tip, old) for tip in (new, *kept))):
        yield f"the session branch went from {old} to {new}"


class FinalState:
    """The state at the end of a run."""

    def __init__(
        self, store: Store, run: Run, objects: Objects, worktrees: SimulatedWorktrees, checker: InvariantChecker
    ) -> None:
        self.store = store
        self.run = run
        self.objects = objects
        self.worktrees = worktrees
        self.trace = checker.trace
        self.reported = checker.reported
        self.attempts = store.attempts.for_run(run.id)
        self.goals = store.goals.for_run(run.id)
        tip = objects.refs[f"refs/heads/{run.session_branch}"]
        self.branch = [commit for commit in objects.history(tip) if commit not in set(objects.history(run.base_sha))]
        self.moved = {
            commit.old: commit.new
            for move in store.branch_moves.done_of_run(run.id)
            if move.purpose == "rebase"
            for commit in move.commits
        }
        """Carried over by rebases: old commit -> new one, or the base that has the change already."""

    def now(self, commit: str) -> str:
        """Return the commit as rebases have carried it over."""
        while commit in self.moved:
            commit = self.moved[commit]
        return commit

    def violations(self) -> list[str]:
        """Return all violations."""
        checks = (
            facts_are_proven_by_landed_attempts,
            landings_match_the_branch,
            reported_landings_stay_on_the_branch,
            no_work_is_lost,
            every_goal_has_ended_with_a_reason,
            the_run_ends_as_its_goals_did,
            nothing_is_left_running,
            no_branch_move_is_half_done,
            what_is_completed_has_its_work,
            what_holds_was_proven_after_its_revert,
            events_match_the_rows,
            *AT_THE_END,
        )
        return [f"{check.__name__}: {each}" for check in checks for each in check(self)]


def what_is_completed_has_its_work(end: FinalState) -> Iterator[str]:
    """BX-2: an action is completed by an attempt, and no longer once its work is gone."""
    did = {each.action_id for each in end.attempts if each.outcome in {"landed", "recorded"}}
    for action in end.store.actions.for_run(end.run.id):
        if action.kind == "primitive" and isinstance(action.state, Completed) and action.id not in did:
            yield f"{action.key} is completed, but no attempt of it landed"


def no_branch_move_is_half_done(end: FinalState) -> Iterator[str]:
    """BX-15: whoever goes on with the run finds out whether the branch has moved."""
    yield from (f"left open: {move}" for move in end.store.branch_moves.open_of_run(end.run.id))


def what_holds_was_proven_after_its_revert(end: FinalState) -> Iterator[str]:
    """BX-1: the evidence of work that was undone proves nothing any more."""
    actions = {action.key: action for action in end.store.actions.for_run(end.run.id)}
    for event in reverted(end.trace):
        action = actions[event.action]
        for fact in end.store.facts.for_goal(action.goal_id):
            holds = fact.assertion in action.effects and fact.state == "holds"
            if holds and not end.objects.contains(fact.commit, end.now(event.commit)):
                yield f"{fact.assertion} holds at {fact.commit}, before {event.commit} undid it"


def facts_are_proven_by_landed_attempts(end: FinalState) -> Iterator[str]:
    """BX-2: each fact that holds was shown by an attempt that landed or had nothing to change, at a commit there."""
    attempts = {attempt.id: attempt for attempt in end.attempts}
    for goal in end.goals:
        for fact in end.store.facts.for_goal(goal.id):
            if fact.state != "holds":  # refuted, or not shown anew since a revert or rebase
                continue
            by = {attempts.get(each.attempt_id) for each in fact.evidence if each.attempt_id}
            if not any(_made(end, attempt, fact.assertion) for attempt in by):
                yield f"{fact.assertion} is a fact, but no landed attempt made it"
            if is_about_step(fact.assertion):
                continue
            if fact.commit not in {*end.branch, *end.objects.history(end.run.base_sha)}:
                yield f"{fact.assertion} is a fact at {fact.commit}, which is not on the branch"


def _made(end: FinalState, attempt: Attempt | None, assertion: str) -> bool:
    if attempt is None or attempt.outcome not in {"landed", "recorded"}:
        return False
    action = end.store.actions.get(attempt.action_id)
    return action is not None and assertion in action.effects


def landings_match_the_branch(end: FinalState) -> Iterator[str]:
    """BX-2, BX-8: one commit for each landed action, and each is recorded once; one more after each revert."""
    recorded = [each.head_sha for each in end.attempts if each.outcome == "landed" and each.head_sha]
    undone = {end.now(each.commit): each.action for each in reverted(end.trace)}
    reverts = {commit: key for commit, key in undone.items() if commit in end.branch}
    if sorted((*recorded, *reverts)) != sorted(end.branch):
        yield f"recorded {recorded} and the reverts {reverts}, but the branch has {end.branch}"
    keys = Counter(_trailer(end.objects.commits[commit].message) for commit in end.branch if commit not in reverts)
    keys.subtract(key.partition("/")[0] for key in reverts.values())
    yield from (f"{key} landed {count} times" for key, count in keys.items() if count > 1)


def _trailer(message: str) -> str:
    lines = (line.removeprefix("Scaffold-Action: ") for line in message.splitlines() if line.startswith("Scaffold-A"))
    return next(lines, "no action")


def reported_landings_stay_on_the_branch(end: FinalState) -> Iterator[str]:
    """BX-2: every reported landing has happened."""
    there = {*end.branch, *end.objects.history(end.run.base_sha)}
    left_out = {refs.rescue_ref(each.id) for each in end.attempts if each.outcome == "conflict"}
    kept = {each for ref in left_out & {*end.objects.refs} for each in end.objects.history(end.objects.refs[ref])}
    for commit in end.reported:
        if end.now(commit) not in there | kept:
            yield f"{commit} is no longer on the branch"


def no_work_is_lost(end: FinalState) -> Iterator[str]:
    """BX-2: all work of a worker is in the branch, or pinned by a ref."""
    kept = {commit for tip in end.objects.refs.values() for commit in end.objects.history(tip)}
    contents = {item for commit in kept for item in end.objects.files(commit).items()}
    for (attempt, path), content in end.worktrees.owed.items():
        if (path, content) not in contents and not was_replaced(end, attempt, path):
            yield f"{path} with {content!r} of {attempt} is lost"
    for attempt in end.attempts:
        rescued = end.objects.refs.get(refs.rescue_ref(attempt.id))
        if attempt.outcome == "landed" or is_part_of_a_landing(end, attempt):
            continue
        if attempt.head_sha and attempt.head_sha not in kept:
            yield f"the candidate {attempt.head_sha} of a {attempt.outcome} attempt has no ref; rescue ref: {rescued}"


def every_goal_has_ended_with_a_reason(end: FinalState) -> Iterator[str]:
    """OR-3: completed with its goal state, or failed, cancelled or paused with a reason."""
    for goal in end.goals:
        lacking = end.store.goals.unmet(goal.id)
        if isinstance(goal.state, Completed) and lacking:
            yield f"{goal.name} is completed without {lacking}"
        elif isinstance(goal.state, Failed | Paused) and not goal.state.reason:
            yield f"{goal.name} is {status_of(goal.state)} without a reason"
        elif isinstance(goal.state, Planning | Active):
            yield f"{goal.name} is still {status_of(goal.state)}"


def the_run_ends_as_its_goals_did(end: FinalState) -> Iterator[str]:
    """OR-3: failed with a failed goal, paused with a paused one; cancelled if goals were, or on request."""
    statuses = {status_of(goal.state) for goal in end.goals}
    if "paused" in statuses:
        expected = {"paused"}
    elif "failed" in statuses:
        expected = {"failed", "cancelled"} if "cancelled" in statuses else {"failed"}
    elif "completed" in statuses:
        expected = {"completed", "cancelled"} if "cancelled" in statuses else {"completed"}
    else:
        expected = {"cancelled"}
    # A user may pause or cancel it after its last goal is over and before its final gates have run.
    if end.run.state == Paused(PAUSE_REASONS["paused"]):
        expected.add("paused")
    if end.run.request_to_owner == "cancel" and "paused" not in statuses:
        expected.add("cancelled")
    if status_of(end.run.state) not in expected:
        yield f"the run is {end.run.state}, but its goals are {sorted(statuses)}"


def nothing_is_left_running(end: FinalState) -> Iterator[str]:
    """BX-17: no open attempt, intent or turn, no owner, no supervisor, no worktree."""
    store, run = end.store, end.run
    left = store.attempts.open_of_run(run.id), store.intents.open_of_run(run.id), store.turns.open_of_run(run.id)
    yield from (f"left open: {each}" for group in left for each in group)
    yield from (f"{goal.name} has a supervisor" for goal in end.goals if goal.supervisor is not None)
    # A command about an ended run that was killed stays its owner, which stops no other command: it is dead.
    if run.owner is not None and not isinstance(run.state, Completed | Failed | Cancelled):
        yield "the run has an owner"
    if not isinstance(run.state, Paused):
        busy = [action.key for action in store.actions.for_run(run.id) if status_of(action.state) in BUSY]
        yield from (f"{key} is still running" for key in busy)


def events_match_the_rows(end: FinalState) -> Iterator[str]:
    """BX-15: the state of everything can be derived from the events alone."""
    from_events: dict[tuple[str, str], tuple[str, str | None]] = {}
    for recorded in end.trace:
        match recorded.event:
            case RunStatusChanged(status=status, reason=reason):
                from_events["run", ""] = status, reason
            case GoalStatusChanged(goal=name, status=status, reason=reason):
                from_events["goal", name] = status, reason
            case ActionStatusChanged(action=key, status=status, reason=reason):
                from_events["action", key] = status, reason
            case AttemptEnded(action=key, number=number, outcome=outcome, error=error):
                from_events["attempt", f"{key} {number}"] = outcome, error
    rows = {("run", ""): (status_of(end.run.state), reason_of(end.run.state))}
    rows |= {("goal", goal.name): (status_of(goal.state), reason_of(goal.state)) for goal in end.goals}
    actions = end.store.actions.for_run(end.run.id)
    rows |= {("action", each.key): (status_of(each.state), reason_of(each.state)) for each in actions}
    keys = {action.id: action.key for action in actions}
    ended = [attempt for attempt in end.attempts if attempt.outcome is not None]
    rows |= {("attempt", f"{keys[each.action_id]} {each.number}"): (each.outcome, each.error) for each in ended}
    for thing, row in rows.items():
        if from_events.get(thing, ("pending", None)) != row and row[0] != "planning":
            yield f"{thing} is {row}, but the events say {from_events.get(thing)}"
