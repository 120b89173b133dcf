"""What the merge queue costs: candidates that land together, forecasts, and a landing late in a run."""

import os
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from msgspec import Struct

from row import Row, row
from scaffold.core.ids import ActionKey, AttemptId, Commit
from scaffold.core.model import Attempt, Run, Usage
from scaffold.core.plan import ActionSpec, GoalSpec, Plan
from scaffold.core.proof.contract import Check, CheckResult, Contract, Verification
from scaffold.core.proof.gates import Gate
from scaffold.core.run_settings import GateSettings, ModelSettings, RunIdentity, RunSettings, Signature
from scaffold.core.states import Active, Landing, Running, Verifying
from scaffold.git import commits, refs
from scaffold.git.client.command_line import Git
from scaffold.git.repository import checkout_status, open_repository
from scaffold.host.clock import SystemClock
from scaffold.host.process.async_runner import run_async
from scaffold.host.process.command_runner import run_command
from scaffold.host.process_identity import own_identity
from scaffold.host.random_ids import new_id
from scaffold.host.slots import usable_cores
from scaffold.landing.facts.landing_record import session_tip
from scaffold.landing.queue.forecast import Forecaster
from scaffold.landing.queue.merge_queue import MergeQueue
from scaffold.landing.queue.step_result import QueueIdle
from scaffold.orchestrator.owner.recovery.interrupted_run import ensure_session_branch
from scaffold.orchestrator.owner.run_baseline import ensure_baseline
from scaffold.orchestrator.owner.run_lease import take_over_run
from scaffold.orchestrator.user_control.open_run import RunInput, open_run
from scaffold.run.context import RunContext
from scaffold.store.database import Store

ADA = Signature("Ada", "ada@example.org")
CHECK_S, GATE_S = 1.0, 3.0
CANDIDATES, BRANCHES, LANDINGS = 20, 20, 1_000
WINDOW = 20
FORECAST_LIMIT_S = 1.0
TOGETHER_GOAL, LATE_GOAL = 1.3, 1.3
PASSED = CheckResult(name="true", verdict="pass", exit_code=0)


def rows(*, quick: bool) -> Iterator[Row]:
    """Yield: candidates that land together against their bound and one by one; forecasts; a late landing.

    Forecasts are of candidates that git merges, and of those whose conflicts the queue resolves itself.
    """
    count, share = (3, 0.1) if quick else (CANDIDATES, 1.0)
    together_s, alone_s, bound_s = run_async(_side_by_side(count, CHECK_S * share, GATE_S * share))
    yield row("landing-together", together_s, bound_s, unit="s", goal=20.0 if quick else TOGETHER_GOAL)
    yield row("landing-one-by-one", together_s, alone_s, unit="s", goal=1.0)
    forecast_s, resolved_s = run_async(_forecasts(4 if quick else BRANCHES))
    yield row("landing-forecast", forecast_s, FORECAST_LIMIT_S, unit="s", goal=1.0)
    yield row("landing-forecast-resolved", resolved_s, FORECAST_LIMIT_S, unit="s", goal=1.0)
    early_s, late_s = run_async(_landings(2 * WINDOW if quick else LANDINGS))
    yield row("landing-late", late_s, early_s, unit="s", goal=20.0 if quick else LATE_GOAL)


class Repository(Struct, frozen=True, kw_only=True):
    """A run of many actions in a new repository, whose candidates are made here and not by agents."""

    context: RunContext
    run: Run

    async def hand_in(self, number: int, *, content: str = "x\n", path: str = "") -> Attempt:
        """Make the candidate of an action: one file on the branch's tip."""
        store, git, key = self.context.store, self.context.git, ActionKey(f"a{number}")
        action, base = store.actions.by_key(self.run.id, key), await session_tip(self.context, self.run)
        if action is None:
            raise LookupError(key)
        head = await self._commit(base, path or f"{key}.txt", content)
        attempt = Attempt(
            id=AttemptId(new_id()), run_id=self.run.id, action_id=action.id, number=1, fence=self.run.fence,
            status="queued", phase="workspace", model="none", base_sha=base, usage=Usage(),
            queued_at=self.context.clock.now(),
        )  # fmt: skip
        await refs.pin(git, refs.work_ref(attempt.id), head)
        with store.transaction():
            store.attempts.open(attempt)
            store.actions.move(action.id, Running())
            store.attempts.claim(
                attempt.id, fence=attempt.fence, worker=own_identity(), worktree="/none", log_file="/none"
            )
            store.actions.move(action.id, Verifying())
            verification = Verification(commit=head, results=(PASSED,))
            store.attempts.advance(
                attempt.id, fence=attempt.fence, phase="candidate", head_sha=head, verification=verification
            )
            store.actions.move(action.id, Landing())
        return store.attempts.get(attempt.id) or attempt

    async def _commit(self, base: Commit, path: str, content: str) -> Commit:
        git, index = self.context.git, {"GIT_INDEX_FILE": str(self.context.cache / "index")}
        blob = (await git("hash-object", "-w", "--stdin", stdin=content.encode())).line
        await git("read-tree", base, env=index)
        await git("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}", env=index)
        tree = (await git("write-tree", env=index)).line
        return await commits.commit_tree(git, tree, parents=[base], message=path, author=ADA, committer=ADA)

    async def land_all(self) -> float:
        """Let everything land that was handed in, and return how long it took."""
        queue, begun = MergeQueue(self.context, self.run), perf_counter()
        while not isinstance(await queue.step(), QueueIdle):
            pass
        taken_s = perf_counter() - begun
        await queue.close()
        if self.context.store.attempts.waiting_to_land(self.run.id):
            raise RuntimeError("something did not land")
        return taken_s


async def _repository(folder: Path, actions: int, *, contract: Contract | None = None, gate: str = "") -> Repository:
    repo, cache = folder / "repo", folder / "cache"
    repo.mkdir(parents=True)
    cache.mkdir()
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    git = Git(repo, environ=environ)
    await git("init", "--quiet")
    first = (await git("hash-object", "-t", "tree", "-w", "--stdin", stdin=b"")).line
    base = await commits.commit_tree(git, first, parents=[], message="start", author=ADA, committer=ADA)
    await git("reset", "--hard", "--quiet", base)
    context = RunContext(
        repository=await open_repository(repo, environ=environ),
        store=Store.open(repo / ".git" / "scaffold" / "state.db", clock=SystemClock()),
        clock=SystemClock(),
        cache=cache,
        environ=environ,
    )
    specs = tuple(
        ActionSpec(key=ActionKey(f"a{number}"), description="Do it.", effects=(f"d{number}",), contract=contract)
        for number in range(actions)
    )
    goal = GoalSpec(name="g", description="Have all.", goal_state=("d0",), actions=specs)
    given = (Gate(kind="test", command=gate, runner="exit"),) if gate else ()
    settings = RunSettings(
        identity=RunIdentity(repository=str(repo), author=ADA, committer=ADA),
        model=ModelSettings(name="none"),
        gates=GateSettings(enabled=bool(gate), given=given),
    )
    work = RunInput(request="bench", source="bench", plan=Plan(goals=(goal,)))
    survey = await checkout_status(context.repository)
    opened = open_run(context.store, work, survey=survey, settings=settings, now=context.clock.now())
    run = take_over_run(context, opened.id)
    with context.store.transaction():
        context.store.runs.move(run.id, Active(), fence=run.fence)
        for each in context.store.goals.for_run(run.id):
            context.store.goals.move(each.id, Active())
    await ensure_session_branch(context, run)
    await ensure_baseline(context, run)
    return Repository(context=context, run=run)


async def _side_by_side(count: int, check_s: float, gate_s: float) -> tuple[float, float, float]:
    """Return how long candidates take that land together, that land one by one, and the bound of the former."""
    check, gate = _busy(check_s), _busy(gate_s)
    contract = Contract(commands=(Check(command=check),))
    with TemporaryDirectory(prefix="scaffold-bench-") as folder:
        made = await _repository(Path(folder) / "together", count, contract=contract, gate=gate)
        for number in range(count):
            await made.hand_in(number)
        together_s = await made.land_all()
        alone = await _repository(Path(folder) / "alone", count, contract=contract, gate=gate)
        alone_s = 0.0
        for number in range(count):
            await alone.hand_in(number)
            alone_s += await alone.land_all()
        bound_s = count * await _taken_s(check, folder) / usable_cores() + await _taken_s(gate, folder)
    return together_s, alone_s, bound_s


async def _taken_s(command: str, folder: str) -> float:
    begun = perf_counter()
    await run_command(["/bin/sh", "-c", command], cwd=Path(folder), env={"PATH": os.environ["PATH"]}, timeout_s=60)
    return perf_counter() - begun


def _busy(seconds: float) -> str:
    """Return a command that computes for so long."""
    text = f"import time; end = time.process_time() + {seconds}; any(time.process_time() > end for _ in iter(int, 1))"
    return f'{sys.executable} -c "{text}"'


async def _forecasts(count: int) -> tuple[float, float]:
    """Return how long the forecasts for candidates of one file take: of lines apart, and of functions in one place."""
    lines = [f"line {number}\n" for number in range(40 * count)]
    apart = [[*lines[: 40 * each], "changed\n", *lines[40 * each + 1 :]] for each in range(count)]
    code = [f"def old_{number}():\n    return {number}\n\n\n" for number in range(10 * count)]
    added = [[*code, f"def new_{each}():\n    return {each}\n"] for each in range(count)]
    return await _forecast("shared.txt", lines, apart), await _forecast("shared.py", code, added)


async def _forecast(path: str, before: list[str], versions: list[list[str]]) -> float:
    """Return how long the forecasts for candidates take that have these versions of one file."""
    with TemporaryDirectory(prefix="scaffold-bench-") as folder:
        made = await _repository(Path(folder), len(versions) + 1)
        await made.hand_in(len(versions), content="".join(before), path=path)
        await made.land_all()
        texts = enumerate(map("".join, versions))
        candidates = [await made.hand_in(number, content=text, path=path) for number, text in texts]
        tip, cache = await session_tip(made.context, made.run), made.context.cache
        forecaster = Forecaster(made.context.git, folder=cache, is_union=lambda _: False)
        begun = perf_counter()
        conflicts = await forecaster.conflicts(candidates, tip)
        taken_s = perf_counter() - begun
        pairs = len(versions) * (len(versions) - 1)
        if sum(map(len, conflicts.values())) == pairs:
            raise RuntimeError("these do not conflict")
    return taken_s


async def _landings(count: int) -> tuple[float, float]:
    """Return how long one of the first landings of a run takes, and one of the last of a long run.

    They take turns, so that a busy moment of the machine hits both.
    """
    early, late = list[float](), list[float]()
    with TemporaryDirectory(prefix="scaffold-bench-") as folder:
        new, long = [await _repository(Path(folder) / name, count) for name in ("new", "long")]
        first, last = [MergeQueue(each.context, each.run) for each in (new, long)]
        before = count - WINDOW
        for number in range(before):
            await _land_one(long, last, number)
        for number in range(WINDOW):
            early.append(await _land_one(new, first, number))
            late.append(await _land_one(long, last, before + number))
        await first.close()
        await last.close()
    return statistics.median(early), statistics.median(late)


async def land_apart(folder: Path, count: int, seen: Callable[[], AbstractContextManager[None]]) -> None:
    """Land so many candidates, each before the next is handed in; only the landings are `seen`."""
    made = await _repository(folder, count)
    queue = MergeQueue(made.context, made.run)
    for number in range(count):
        await made.hand_in(number)
        with seen():
            await queue.step()
    await queue.close()


async def _land_one(made: Repository, queue: MergeQueue, number: int) -> float:
    """Hand in a candidate and return how long its landing takes."""
    await made.hand_in(number)
    begun = perf_counter()
    await queue.step()
    return perf_counter() - begun
