"""A simulated worker: it writes to the store and to git like a real one, with every possible fault."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from msgspec import Struct

from scaffold.core.errors import BudgetExceeded, HumanDecisionRequired, ScaffoldError, StaleFence
from scaffold.core.ids import AttemptId, Commit
from scaffold.core.model import Action, Attempt, Run, Usage
from scaffold.core.proof.contract import CheckResult, Verification
from scaffold.core.spending import Spender
from scaffold.git import refs
from scaffold.git.checkouts import worktree
from scaffold.plan.budget import spending_limits
from scaffold.run.attempts.assignment import Assignment
from scaffold.run.context import RunContext
from scaffold.run.failures.attempt_end import AttemptEnd, end_attempt
from scaffold.store.spending.run_budget import RunBudgetAccount
from scaffold.store.spending.shared_budget import remaining
from scaffold.worker.activity_clock import attempt_activity
from scaffold.worker.attempt_records import AttemptRecords
from scaffold.worker.human.inbox_approval import InboxApprover
from scaffold.worker.story.rebase_step import REBASE_STEP
from scaffold.worker.workspace.attempt_worktree import pin_earlier_work, rescue_and_remove, rescue_work
from simulator.faults import FaultInjector
from simulator.memory_git import Objects
from simulator.plans import file_of
from simulator.processes import Process

STALE = 3
COST_USD = 0.1
SPENDER = Spender("implementation", "simulated")
QUESTION = "What now in"


class Asked(Struct, frozen=True, kw_only=True):
    """What an agent writes, and how it wants to change its story."""

    files: tuple[str, ...]
    edits: str | None = None


Behaviour = Literal[
    "good", "slow", "twice", "fails", "lies", "idles", "finds", "breaks", "dies", "early", "hangs", "mute", "asks"
]
OTHER_BEHAVIOURS: tuple[tuple[Behaviour, float], ...] = (
    ("good", 60),
    ("slow", 8),
    ("twice", 4),
    ("fails", 8),
    ("lies", 4),
    ("idles", 2),
    ("finds", 3),
    ("breaks", 4),
    ("dies", 5),
    ("early", 3),
    ("hangs", 0.4),
    ("mute", 0.4),
)
"""Works | takes a long time | submits twice | fails its contract | submits work that violates it | changes nothing |
finds the work done | has no model | is killed while it works | exits before it starts | never ends | never ends, and
sends no heartbeat; or, besides, asks a human."""


def behaviours(questions: float) -> tuple[tuple[Behaviour, float], ...]:
    """Return what workers do, and how often."""
    return *OTHER_BEHAVIOURS, ("asks", questions)


class SimulatedWorktrees:
    """The worktrees of all attempts, and the work in them that must be kept."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self.owed: dict[tuple[str, str], str] = {}
        """The last content written, by attempt and path, until its worktree is pinned."""
        self.written: dict[tuple[str, str], str] = {}
        """The same, also of what is pinned."""
        self._users: dict[Path, str] = {}

    def open(self, folder: Path, start: Commit, attempt: str) -> None:
        """Check out `start` for an attempt."""
        folder.mkdir(parents=True, exist_ok=True)
        self._objects.worktrees[folder] = dict(self._objects.files(start))
        self._objects.snapped.discard(folder)
        self._users[folder] = attempt

    def merge(self, folder: Path, start: Commit, tip: Commit) -> None:
        """Show both sides merged, and resolve what is in conflict."""
        files, conflicts = self._objects.merged(start, tip)
        both = {
            path: f"{self._objects.files(start).get(path)} and {self._objects.files(tip).get(path)}"
            for path in conflicts
        }
        self._objects.worktrees[folder] = {**files, **both}

    def write(self, folder: Path, path: str, content: str, *, shared: bool = False) -> None:
        """Write a file; one written into a removed worktree is lost with it. Later steps may replace a `shared` one."""
        if folder.is_dir():
            self._objects.worktrees[folder][path] = content
            self.written[self._users[folder], path] = content
            if folder not in self._objects.snapped and not shared:
                self.owed[self._users[folder], path] = content

    def commit(self, folder: Path, parents: tuple[Commit, ...], message: str) -> Commit:
        """Commit all that is in the worktree."""
        tree = self._objects.tree(self._objects.worktrees[folder])
        return Commit(self._objects.commit(tree, parents, message))

    def close(self, folder: Path) -> None:
        """Delete the files; important work is pinned."""
        self._objects.worktrees.pop(folder, None)


class SimulatedWorker:
    """Executes one attempt, well or badly."""

    def __init__(
        self,
        context: RunContext,
        process: Process,
        faults: FaultInjector,
        worktrees: SimulatedWorktrees,
        behaviour: Behaviour,
        asks: Callable[[Action], Asked] = lambda action: Asked(files=action.files),
    ) -> None:
        """`asks` returns what the agent of an action writes, and what it asks for."""
        self._context = context
        self._process = process
        self._faults = faults
        self._worktrees = worktrees
        self._behaviour = behaviour
        self._asks = asks

    async def execute(self, attempt_id: AttemptId) -> int:
        """Return the exit code of the worker process."""
        await self._work(0.01, 0.3)
        if self._behaviour == "early":
            return 1
        store = self._context.store
        attempt = store.attempts.get(attempt_id)
        run = None if attempt is None else store.runs.get(attempt.run_id)
        action = None if attempt is None else store.actions.get(attempt.action_id)
        if attempt is None or run is None or action is None:
            raise LookupError(attempt_id)
        try:
            await self._execute_claimed(run, attempt, action)
        except StaleFence:
            return STALE
        return 0

    async def _execute_claimed(self, run: Run, attempt: Attempt, action: Action) -> None:
        folder = self._context.worktree_of(attempt)
        with self._context.store.transaction():
            self._context.store.attempts.claim(
                attempt.id, fence=attempt.fence, worker=self._process.identity, worktree=str(folder), log_file=""
            )
        try:
            failure = await self._attempt(run, attempt, action, folder)
        except StaleFence:
            raise
        except BudgetExceeded as spent:
            failure = AttemptEnd("budget", spent.what)
        except HumanDecisionRequired as waits:
            failure = AttemptEnd("waiting", waits.what, waits.item)
        except ScaffoldError as error:
            failure = AttemptEnd("executor_failed", error.in_full)
        if failure is None and attempt.kind == "step":
            return  # the next one works there
        if failure is None:
            await worktree.remove(self._context.repository, folder)
            self._worktrees.close(folder)
        else:
            await self._give_up(run, attempt, failure)

    async def _give_up(self, run: Run, attempt: Attempt, ending: AttemptEnd) -> None:
        rescue = rescue_work if attempt.workspace else rescue_and_remove
        pinned = await rescue(self._context, run, attempt.id)
        end_attempt(self._context.store, run, attempt.id, ending, head=pinned, fence=attempt.fence)

    async def _attempt(self, run: Run, attempt: Attempt, action: Action, folder: Path) -> AttemptEnd | None:
        """Return None once a candidate is submitted."""
        record = self._records(run, attempt, action)
        await pin_earlier_work(self._context, attempt)
        self._worktrees.open(folder, attempt.start, attempt.id)
        record.enter("executing")
        parents = await self._parents(run, attempt, action, folder)
        self._pay(run, attempt)
        asked = self._asks(action)
        await self._make(run, attempt, action, folder, asked.files)
        record.answered(f"made {action.key}", iteration=1, edits=asked.edits)
        head = self._worktrees.commit(folder, parents, f"Work on {action.key}")
        if not action.files and head != attempt.base_sha:
            record.changed(asked.files, head)
        record.enter("verifying")
        await self._work(0.05, 1.0)
        if self._behaviour in {"fails", "idles"}:
            return AttemptEnd("contract_failed", "it does not pass")
        if self._behaviour == "finds":
            head = attempt.start
        await refs.pin(self._context.git, refs.work_ref(attempt.id), head)
        passed = CheckResult(name="change", verdict="pass", detail="says the worker")
        record.hand_in(head, Verification(commit=head, results=(passed,)))
        if self._behaviour == "twice":
            await self._work(0.0, 1.0)
            record.hand_in(head, Verification(commit=head, results=(passed,)))
        return None

    async def _parents(self, run: Run, attempt: Attempt, action: Action, folder: Path) -> tuple[Commit, ...]:
        """Return the commits that the work follows; a step that resolves conflicts finds both sides merged."""
        tip = await refs.resolve(self._context.git, run.session_ref) if action.role == REBASE_STEP else None
        if tip is None or attempt.kind != "step":
            return (attempt.start,)
        self._worktrees.merge(folder, attempt.start, tip)
        return attempt.start, tip

    async def _make(self, run: Run, attempt: Attempt, action: Action, folder: Path, files: tuple[str, ...]) -> None:
        """Write the action's files one after another, with the faults of its behaviour."""
        await self._work(0.1, 2.0)
        store = self._context.store
        content = f"{action.key} by attempt {attempt.number}"
        for path in () if self._behaviour in {"idles", "finds"} else files:
            own = path == file_of(action.key)
            written = "scratch.txt" if own and self._behaviour in {"fails", "lies"} else path
            self._worktrees.write(folder, written, content, shared=bool(attempt.workspace) and not own)
            with store.transaction():
                store.attempts.record_heartbeat(
                    attempt.id, fence=attempt.fence, at=self._context.clock.monotonic(), ends_at=0.0
                )
            await self._work(0.1, 1.5)
        match self._behaviour:
            case "breaks":
                raise ScaffoldError("the model gives no reply", "Ask another one.")
            case "dies":
                self._faults.kill(self._process)
            case "slow":
                await self._work(5.0, 15.0)
            case "asks":
                await self._ask(run, attempt, action)
            case "hangs":
                await self._hang(attempt)
            case "mute":
                await self._work(10_000.0, 10_000.0)

    def _records(self, run: Run, attempt: Attempt, action: Action) -> AttemptRecords:
        goal = self._context.store.goals.get(action.goal_id)
        if goal is None:
            raise LookupError(action.goal_id)
        task = Assignment(run=run, goal=goal, action=action, attempt=attempt)
        activity = attempt_activity(self._context.clock, task)
        return AttemptRecords(run_context=self._context, task=task, activity=activity)

    async def _ask(self, run: Run, attempt: Attempt, action: Action) -> None:
        """Ask a human as a real worker does, and go on after the answer."""
        human = InboxApprover(self._records(run, attempt, action))
        await human.answer(f"{QUESTION} {attempt.id}", ())
        await self._work(0.1, 1.5)

    async def _hang(self, attempt: Attempt) -> None:
        """Send heartbeats forever."""
        while True:
            with self._context.store.transaction():
                self._context.store.attempts.record_heartbeat(
                    attempt.id, fence=attempt.fence, at=self._context.clock.monotonic(), ends_at=0.0
                )
            await self._work(10.0, 20.0)

    def _pay(self, run: Run, attempt: Attempt) -> None:
        store = self._context.store
        account = RunBudgetAccount(store, run.id, spending_limits(run.settings.limits))
        with store.transaction():
            remaining(account)
            store.attempts.check(attempt.id, fence=attempt.fence)
            account.book(attempt.id, SPENDER, Usage(cost_usd=COST_USD, requests=1))

    async def _work(self, least_s: float, most_s: float) -> None:
        await asyncio.sleep(self._faults.rng.uniform(least_s, most_s))
