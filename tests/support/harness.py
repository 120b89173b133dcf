"""Runs in one process: real git, real SQLite, real checks; workers are tasks with a scripted model."""

import asyncio
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from builders import machine_sandbox, make_settings
from scaffold.core.events import NoticeRaised
from scaffold.core.ids import ActionKey, AttemptId, GoalId
from scaffold.core.model import Action, Attempt, Goal, ProcessIdentity, Run
from scaffold.core.plan import ActionSpec, GoalSpec, Plan
from scaffold.core.ports import Model
from scaffold.core.proof.contract import Check, Contract
from scaffold.core.run_settings import Signature
from scaffold.core.states import Active, Paused, Planning, status_of
from scaffold.git.client.command_line import Git
from scaffold.git.repository import checkout_status, open_repository
from scaffold.host.clock import SystemClock
from scaffold.host.process.command_runner import run_command
from scaffold.landing.facts.landing_record import session_tip
from scaffold.llm.cassette_model import (
    Cassette,
    CassetteEntry,
    CassetteModel,
    CassettePrices,
    CassetteToolCall,
    CassetteUsage,
    RequestMatcher,
)
from scaffold.orchestrator.dispatch import queue_attempt
from scaffold.orchestrator.owner.recovery.interrupted_run import ensure_session_branch
from scaffold.orchestrator.owner.run_lease import take_over_run
from scaffold.orchestrator.owner.run_loop import RunEnding, RunOwner, recover_run_owner
from scaffold.orchestrator.supervisor.goal_process import supervise_goals
from scaffold.orchestrator.user_control.open_run import RunInput, open_run
from scaffold.run.attempts.assignment import read_assignment
from scaffold.run.context import RunContext
from scaffold.run.failures.attempt_end import AttemptEnd
from scaffold.store.database import Store
from scaffold.worker.attempt import Worker
from scaffold.worker.attempt_records import CandidateReady
from support.samples import folder_until_exit, place_empty_store
from support.scenario import PATIENCE_S
from support.task_engine import TaskEngine

DEAD_PROCESS = ProcessIdentity(1, "never", "another boot")
"""A process that is not alive; tasks claim their attempts in its name."""
AUTHOR = Signature("Zoë Author", "zoe@example.org")
COMMITTER = Signature("Carl Committer", "carl@example.org")
UNSANDBOXED = {"sandbox": "off", "yolo": True}
"""Settings of a run without a sandbox and without approvals."""

Turns = Sequence[str]
"""The turns of an agent: one shell command each, then a final text; an empty command does nothing."""


def goal(name: str, *actions: ActionSpec, wants: Sequence[str] | None = None) -> GoalSpec:
    """Return a goal that desires `wants`, or every effect of its actions."""
    every = dict.fromkeys(effect for action in actions for effect in action.effects)
    return GoalSpec(
        name=name, description=f"Have {name}.", goal_state=tuple(every if wants is None else wants), actions=actions
    )


def act(key: str, *, needs: Sequence[str] = (), check: str | None = None, **fields: Any) -> ActionSpec:
    """Return an action that makes `KEY_done` true; its contract, if any, is one command."""
    contract = Contract(commands=(Check(command=check),)) if check else None
    given: dict[str, Any] = {"description": f"Do {key}.", "effects": (f"{key}_done",), "contract": contract}
    return ActionSpec(key=ActionKey(key), preconditions=tuple(needs), **(given | fields))


def scripted_model(turns_of: Mapping[str, Turns], *, usd: float = 0.0) -> CassetteModel:
    """Return a model that executes the commands of `turns_of` for each action, at `usd` a request."""
    entries = []
    for key, turns in turns_of.items():
        replies: list[dict[str, Any]] = []
        for command in turns:
            call = CassetteToolCall("shell", {"command": command, "timeout_s": 30})
            replies += [{"tool_calls": (call,)}] if command else []
            replies.append({"text": f"done with {key}"})
        usage = CassetteUsage(input_tokens=1_000_000)
        entries += [
            CassetteEntry(when=RequestMatcher(action=key, turn=at), usage=usage, **said)
            for at, said in enumerate(replies, 1)
        ]
        entries.append(CassetteEntry(when=RequestMatcher(action=key), text="nothing more to do"))
    return CassetteModel(
        Cassette(path=Path("script"), digest="", entries=tuple(entries), prices=CassettePrices(input_per_mtok=usd))
    )


class NoPlanner:
    """A planner for runs whose supervisors never call it; any call fails the test."""

    async def decompose(self, goal_id, compound):
        raise AssertionError(f"nobody was to break {compound} down")

    async def replan(self, goal_id, compound, unmet, why):
        raise AssertionError(f"nobody was to replan: {why}")

    async def judge(self, goal_id, why, dispatch):
        raise AssertionError(f"nobody was to judge: {why}")


_sample: list[Path] = []
"""The repository that each harness copies; the first one makes it."""


async def _make_sample(repo: Path, environ: Mapping[str, str]) -> None:
    git = Git(repo, environ=environ)
    await git("init", "--quiet")
    (repo / "README").write_text("sample\n")
    (repo / "list").write_text("one\ntwo\nthree\n")
    await git("add", "--all")
    await git("commit", "--quiet", "--message", "first")


class Harness:
    """One repository with its store; open it with `await Harness.build(folder)`."""

    def __init__(self, folder: Path, context: RunContext) -> None:
        self.repo = folder / "my räpo"
        self.context = context
        self.store = context.store
        self.clock = context.clock

    @classmethod
    async def build(cls, folder: Path) -> "Harness":
        """Make a repository with one commit of two files, and a user's home beside it."""
        repo, home = folder / "my räpo", folder / "home"
        home.mkdir()
        environ = {"PATH": os.environ["PATH"], "HOME": str(home)}
        (home / ".gitconfig").write_text(
            "[user]\n\tname = Ann\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n"
        )
        if not _sample:
            whole = folder_until_exit()
            (whole / "repo").mkdir()
            await _make_sample(whole / "repo", environ)
            _sample.append(whole / "repo")
        shutil.copytree(_sample[0], repo, symlinks=True)
        place_empty_store(repo / ".git" / "scaffold" / "state.db")
        await Git(repo, environ=environ)("update-index", "--refresh", "-q")
        context = await open_context(repo, cache=folder / "cache", environ=environ)
        return cls(folder, context)

    async def sh(self, command: str, cwd: Path | None = None) -> str:
        """Run a shell command as the user would; return its output without the last newline."""
        environ = self.context.environ
        finished = await run_command(["sh", "-ec", command], cwd=cwd or self.repo, env=environ, timeout_s=30)
        assert finished.exit_code == 0, finished
        return os.fsdecode(finished.stdout).rstrip("\n")

    async def open_run(self, *goals: GoalSpec, **settings: Any) -> Run:
        """Store a run of a plan, without an owner.

        On a machine without a sandbox its agents need no approval for commands: nobody would answer. A test that is
        about approvals gives `sandbox` or `yolo`.
        """
        given = {"repository": str(self.repo), "model": "script", "author": AUTHOR, "committer": COMMITTER}
        if "sandbox" not in settings and (await machine_sandbox()).level == "none":
            given["yolo"] = True
        return open_run(
            self.store,
            RunInput(request="the plan", source="plan", plan=Plan(goals=goals)),
            survey=await checkout_status(self.context.repository),
            settings=make_settings(**(given | settings)),
            now=self.clock.now(),
        )

    async def own(self, *goals: GoalSpec, **settings: Any) -> Run:
        """Store a run and own it, with everything active."""
        return await self.take(await self.open_run(*goals, **settings))

    async def take(self, run: Run) -> Run:
        """Take a run over and make it active, as an owner does at its start."""
        taken = take_over_run(self.context, run.id)
        await ensure_session_branch(self.context, taken)
        with self.store.transaction():
            if not isinstance(taken.state, Active):
                self.store.runs.move(run.id, Active())
            for each in self.store.goals.for_run(run.id):
                if isinstance(each.state, Planning | Paused):
                    self.store.goals.move(each.id, Active())
        return self.store.runs.get(run.id)

    def orphan(self, run: Run) -> Run:
        """Replace the owner by a dead process."""
        fence = self.store.runs.get(run.id).fence
        with self.store.transaction():
            self.store.runs.take(run.id, DEAD_PROCESS, expected_fence=fence)
        return self.store.runs.get(run.id)

    async def queue(self, run: Run, key: str) -> Attempt:
        """Open an attempt of an action."""
        action = self.action(run, key)
        attempt = await queue_attempt(self.context, run, action.goal_id, action.id)
        assert attempt is not None, "no slot is free"
        return attempt

    async def work(self, run: Run, key: str, *turns: str, usd: float = 0.0) -> CandidateReady | AttemptEnd:
        """Run an attempt of an action, up to its candidate."""
        return await self.run_attempt(await self.queue(run, key), {key: turns}, usd=usd)

    async def run_attempt(
        self, attempt: Attempt, turns_of: Mapping[str, Turns], *, usd: float = 0.0
    ) -> CandidateReady | AttemptEnd:
        """Run the worker of an attempt, up to its candidate."""
        return await self.execute(attempt, scripted_model(turns_of, usd=usd))

    async def execute(
        self, attempt: Attempt, model: Model, *, watch: Callable[[Store], None] | None = None, **helpers: Any
    ) -> CandidateReady | AttemptEnd:
        """Run the worker of an attempt with this model, with its own store as in a separate process.

        `watch` gets that store before the worker begins.
        """
        context = await open_context(self.repo, cache=self.context.cache, environ=self.context.environ)
        try:
            if watch is not None:
                watch(context.store)
            task = read_assignment(context.store, attempt.id)
            log_file = str(context.journal(task.goal.name, task.action.key))
            return await Worker(context, task, model, **helpers).execute(DEAD_PROCESS, log_file=log_file)
        finally:
            context.store.close()

    def claim(self, attempt: Attempt, *phases: str, worktree: str = "", worker: ProcessIdentity = DEAD_PROCESS) -> None:
        """Claim an attempt for a process, a dead one unless given, and advance it through these phases."""
        attempts = self.store.attempts
        with self.store.transaction():
            attempts.claim(attempt.id, fence=attempt.fence, worker=worker, worktree=worktree, log_file="")
            for phase in phases:
                attempts.advance(attempt.id, fence=attempt.fence, phase=phase)

    def engine(self, turns_of: Mapping[str, Turns], *, usd: float = 0.0) -> TaskEngine:
        """Return an engine whose workers run the commands of `turns_of`."""

        async def work(attempt: Attempt) -> int:
            await self.run_attempt(attempt, turns_of, usd=usd)
            return 0

        return TaskEngine(work, self.supervise)

    async def supervise(self, goals: Sequence[GoalId]) -> int:
        """Run the supervisors of goals without a planner, with their own store as in a separate process."""
        context = await open_context(self.repo, cache=self.context.cache, environ=self.context.environ)
        try:
            run = context.store.runs.get(context.store.goals.get(goals[0]).run_id)
            return await supervise_goals(context, run, goals, NoPlanner(), raise_error)
        finally:
            context.store.close()

    async def recover_owner(self, run: Run, turns_of: Mapping[str, Turns], *, usd: float = 0.0) -> RunOwner:
        """Own the run, recover what is left over, and return its owner."""
        return await recover_run_owner(
            self.context, take_over_run(self.context, run.id), self.engine(turns_of, usd=usd)
        )

    async def run_to_end(self, run: Run, *, usd: float = 0.0, **turns_of: Turns) -> RunEnding:
        """Execute a run as far as possible."""
        return await (await self.recover_owner(run, turns_of, usd=usd)).execute()

    def action(self, run: Run, key: str) -> Action:
        found = self.store.actions.by_key(run.id, ActionKey(key))
        assert found is not None
        return found

    def goal(self, run: Run, name: str = "g") -> Goal:
        found = self.store.goals.by_name(run.id, name)
        assert found is not None
        return found

    def attempts(self, run: Run, key: str) -> tuple[Attempt, ...]:
        return self.store.attempts.for_action(self.action(run, key).id)

    def attempt(self, attempt_id: AttemptId) -> Attempt:
        found = self.store.attempts.get(attempt_id)
        assert found is not None
        return found

    def statuses(self, run: Run) -> dict[str, str]:
        """Return the status of every action by its key."""
        return {action.key: status_of(action.state) for action in self.store.actions.for_run(run.id)}

    def move(self, item: Goal | Action, *states: Any) -> None:
        """Bring a goal or an action into these states, one after another."""
        items = self.store.goals if isinstance(item, Goal) else self.store.actions
        with self.store.transaction():
            for state in states:
                items.move(item.id, state)

    def events(self, run: Run, kind: type = object) -> list[Any]:
        """Return the events of a run, those of one kind if it is given, in order."""
        return [each.event for each in self.store.events.since(run.id, 0) if isinstance(each.event, kind)]

    def notices(self, run: Run) -> list[str]:
        """Return the texts of the notices of a run, in order."""
        return [event.text for event in self.events(run, NoticeRaised)]

    def prompts(self, role: str | None = None, *, goal: str = "g", key: str = "a") -> list[str]:
        """Return the prompts in the journal of an action: those of its own agent, or of another `role`."""
        lines = map(json.loads, self.context.journal(goal, key).path.read_text().splitlines())
        return [each["text"] for each in lines if each["type"] == "prompt" and each.get("role") == role]

    def status(self, run: Run) -> str:
        return status_of(self.store.runs.get(run.id).state)

    def facts(self, run: Run) -> set[str]:
        """Return the assertions that hold in any goal."""
        return {fact for each in self.store.goals.for_run(run.id) for fact in self.store.facts.holding(each.id)}

    async def tip(self, run: Run) -> str:
        return await session_tip(self.context, run)

    async def landed(self, run: Run) -> list[str]:
        """Return the keys of the landed actions, read from the branch, oldest first."""
        keys = "%(trailers:key=Scaffold-Action,valueonly,separator=)"
        return (await self.sh(f"git log --reverse --format='{keys}' {run.base_sha}..{run.session_branch}")).split()

    async def show(self, name: str) -> str:
        """Return the content of `REVISION:PATH`."""
        return await self.sh(f"git show '{name}'")

    async def worktrees(self, *, spare: bool = True) -> int:
        """Return the number of worktrees beside the user's own; without `spare`, only those in use."""
        lines = (await self.sh("git worktree list")).splitlines()[1:]
        return len([line for line in lines if spare or "/attempts/spare-" not in line])


def raise_error(error: Exception) -> None:
    """Raise an error of a supervisor, which a process would have printed."""
    raise error


async def poll_until(condition: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    """Return once `condition` holds; TimeoutError if it does not within `seconds`."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what other processes do rings no bell here
            await asyncio.sleep(0.01)


async def open_context(repo: Path, *, cache: Path, environ: Mapping[str, str]) -> RunContext:
    """Open a repository as a separate process would."""
    clock = SystemClock()
    store = Store.open(repo / ".git" / "scaffold" / "state.db", clock=clock)
    repository = await open_repository(repo, environ=environ)
    return RunContext(repository=repository, store=store, clock=clock, cache=cache, environ=environ)
