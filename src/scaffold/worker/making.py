"""Work that changes files: the agent goes on until what it leaves passes and is good enough, or gets no further."""

import asyncio
from typing import assert_never

from msgspec import Struct

from scaffold.agent.agent import Finish
from scaffold.core.contract import CheckResult, Contract, Verification
from scaffold.core.errors import BudgetSpent, GitFailed, ModelTrouble, WaitsForHuman
from scaffold.core.ids import Commit
from scaffold.core.legible import legible
from scaffold.core.model import Attempt
from scaffold.core.ports import Model
from scaffold.core.states import Outcome
from scaffold.git import commit, refs, worktree
from scaffold.verify.contract import unchanged
from scaffold.worker.assignment import TESTING
from scaffold.worker.context import failure_prompt, summary, task_prompt
from scaffold.worker.critic import Critic
from scaffold.worker.critic_prompt import critique_prompt, improve_prompt
from scaffold.worker.critique import Critique, Done, Fail, Improve, Move, View, asks_for_end, decide
from scaffold.worker.native import watched_agent
from scaffold.worker.notice import inform
from scaffold.worker.outcome import GaveUp, Handed
from scaffold.worker.proving import Proof
from scaffold.worker.second_look import second_look
from scaffold.worker.station import Station
from scaffold.worker.taking_up import take_up
from scaffold.worker.watch import Stuck, Watched
from scaffold.worker.workspace import keep

DIFF_BYTES = 128 * 1024
"""Of a change that is criticised; what its critic is told is bounded further."""
HAND_IN_S = 2.0
"""What is kept of an attempt's time to hand in what has passed."""


class Work(Struct, frozen=True):
    """What an agent's turn has left: a commit on top of the base, and its tree."""

    head: Commit
    tree: str


class Judged(Struct, frozen=True, kw_only=True):
    """What one iteration has left, and what was found of it."""

    left: str | Verification
    """Its tree; where no commit could be had, why not. The same as before is no change."""
    verification: Verification
    critique: Critique | None = None
    """None where no critic was asked, or none had a usable answer."""
    asked_for_end: bool = False
    """Whether the agent asked for an end in answer to a critique."""

    @property
    def passed(self) -> bool:
        """Whether the work may land."""
        return self.verification.passed


async def make(station: Station, model: Model) -> Handed | GaveUp:
    """Have the work done: its contract first, then the agent, whose work is verified and criticised in turn."""
    proof = await Proof.begun(station, model)
    critic = Critic(station, model) if station.task.run.settings.critic else None
    base = station.workspace.base
    start = Judged(left=await commit.tree_of(station.workspace.git, base), verification=unchanged(base))
    return await Making(station, watched_agent(station, model), proof, critic, start).carry_out()


class Making:
    """The loop around one agent. Work that has passed is not lost to what was to improve it."""

    def __init__(self, station: Station, agent: Watched, proof: Proof, critic: Critic | None, start: Judged) -> None:
        """Begin with the base as the `start`, of which nothing passes; without a `critic` passing is enough."""
        self._station = station
        self._agent = agent
        self._proof = proof
        self._critic = critic
        self._start = start
        self._last = start
        self._passed: Judged | None = None
        """What has passed, the last of it."""

    async def carry_out(self) -> Handed | GaveUp:
        """Let the agent work, iteration by iteration; one that leaves the same as the one before is the last."""
        self._station.record.enter("executing")
        if (before := await take_up(self._station)) is not None:
            handed = await self._as_before(before)
            if handed is not None:
                return handed
        prompt = task_prompt(self._station.task, self._proof.contract)
        for iteration in range(1, self._station.task.run.settings.iterations + 1):
            move = await self._iteration(prompt, iteration)
            match move:
                case GaveUp():
                    return await self._otherwise(move)
                case Done():
                    if move.reason == "nothing_changed":
                        self._station.record.enter("verifying")
                    return await self._hand_in(self._last.verification)
                case Fail():
                    return await self._failed(move, iteration)
                case Improve():
                    prompt = await self._next_words()
                case _:
                    assert_never(move)
        return GaveUp("contract_failed", "the tier allows no iteration at all")

    async def _as_before(self, before: Attempt) -> Handed | GaveUp | None:
        """Hand in the work that waited for a human; None if it does not pass any more: it is done anew then."""
        record, workspace = self._station.record, self._station.workspace
        work = await _committed(self._station)
        if isinstance(work, Work):
            record.answered(before.result or "", iteration=before.iteration)
            record.enter("verifying")
            verification = await self._proof.of(work.head)
            if verification.passed:
                return await self._hand_in(verification)
        await worktree.restore(workspace.git, workspace.base)
        record.enter("executing")
        return None

    async def _iteration(self, prompt: str, iteration: int) -> Move | GaveUp:
        """Have one iteration made; once something has passed, no longer than leaves time to hand that in."""
        spare = None if self._passed is None else max(0.0, self._station.human.left_s - HAND_IN_S)
        deadline = asyncio.timeout(spare)
        try:
            async with deadline:
                finish = await self._turn(prompt)
                return finish if isinstance(finish, GaveUp) else await self._after(finish, iteration)
        except TimeoutError:
            if not deadline.expired():
                raise
            return GaveUp("timeout", "the attempt's time is over")

    async def _turn(self, prompt: str) -> Finish | GaveUp:
        try:
            finish = await self._agent.turn(prompt)
        except (BudgetSpent, ModelTrouble) as trouble:
            if self._passed is None:
                raise
            return GaveUp("executor_failed", trouble.in_full)
        return self._station.stuck(finish) if isinstance(finish, Stuck) else finish

    async def _after(self, finish: Finish, iteration: int) -> Move:
        """Judge what the turn has left, and return what follows."""
        record, settings = self._station.record, self._station.task.run.settings
        record.answered(finish.text, iteration=iteration)
        work = await _committed(self._station)
        left = work.tree if isinstance(work, Work) else work
        changed = left != self._last.left
        if changed:
            record.enter("verifying")
            asked = self._last.critique is not None and asks_for_end(finish.text)
            self._last = await self._judged(work, iteration, asked_for_end=asked)
        last, critique = self._last, self._last.critique
        move = decide(
            View(
                passed=last.passed,
                changed=changed,
                score=critique.total if critique else None,
                threshold=settings.threshold,
                done=last.asked_for_end or (critique is not None and critique.done),
                iteration=iteration,
                maximum=settings.iterations,
            )
        )
        if changed and critique is not None:
            done = isinstance(move, Done)
            score = critique.score(threshold=settings.threshold)
            record.criticised(last.verification, iteration=iteration, score=score, done=done)
        return move

    async def _judged(self, work: Work | Verification, iteration: int, *, asked_for_end: bool) -> Judged:
        """Verify the work and, if it passes, have it criticised; who asks for an end gets no further critique."""
        if isinstance(work, Verification):
            return Judged(left=work, verification=work, asked_for_end=asked_for_end)
        verification = await self._proof.of(work.head)
        if verification.passed:
            verification = await self._proof.strengthened(verification)
        judged = Judged(left=work.tree, verification=verification, asked_for_end=asked_for_end)
        if not judged.passed:
            return judged
        self._passed = judged
        if self._critic is None or asked_for_end:
            return judged
        self._station.record.enter("critiquing", verification=verification)
        critique = await self._critic.critique(await self._question(verification, iteration))
        return Judged(left=work.tree, verification=verification, critique=critique)

    async def _question(self, verification: Verification, iteration: int) -> str:
        git, base = self._station.workspace.git, self._station.workspace.base
        return critique_prompt(
            self._station.task.action,
            self._proof.contract,
            verification,
            await commit.diff_text(git, base, verification.commit, limit_bytes=DIFF_BYTES),
            iteration=iteration,
            maximum=self._station.task.run.settings.iterations,
        )

    async def _next_words(self) -> str:
        """Send the work back as it was committed, and return what the agent is told of it."""
        last = self._last
        if last.passed:
            await worktree.restore(self._station.workspace.git, last.verification.commit)
        self._station.record.enter("executing", verification=last.verification)
        if last.critique is not None:
            return improve_prompt(last.critique)
        return failure_prompt(last.verification, asked_for_end=last.asked_for_end)

    async def _failed(self, move: Fail, iteration: int) -> Handed | GaveUp:
        """Return how it ends with work that does not pass."""
        if self._last is self._start:
            return await _with_nothing_new(self._station, self._proof.contract)
        failed = self._last.verification
        if move.reason == "nothing_changed":
            return await self._otherwise(GaveUp(_outcome(failed), _nothing_changed(failed)))
        if self._passed is None:
            self._station.record.never_passed(failed, iterations=iteration, summary=summary(failed))
        return await self._otherwise(GaveUp(_outcome(failed), summary(failed)))

    async def _otherwise(self, gave_up: GaveUp) -> Handed | GaveUp:
        """Return how it ends without another iteration: with what has passed before, if anything has.

        What came after that is pinned.
        """
        if self._passed is None:
            return gave_up
        station, key = self._station, self._station.task.action.key
        await keep(station.site, station.task.run, station.task.attempt.id)
        why = gave_up.error.partition("\n")[0]
        text = f"{key} is handed in as it passed; what its critic asked for came to nothing: {why}"
        inform(station.site, station.task.run.id, text)
        station.record.enter("executing")
        station.record.enter("verifying")
        return await self._hand_in(self._passed.verification)

    async def _hand_in(self, verification: Verification) -> Handed | GaveUp:
        """Offer what has passed for landing; what is protected only once a human has agreed."""
        station, head = self._station, verification.commit
        try:
            rejected = await second_look(station, head)
        except WaitsForHuman:
            await worktree.restore(station.workspace.git, head)
            raise
        if rejected is not None:
            return rejected
        await refs.pin(station.site.git, refs.work_ref(station.task.attempt.id), head)
        station.record.hand_in(head, verification)
        return Handed(head)


async def _committed(station: Station) -> Work | Verification:
    """Commit everything git does not ignore, whether or not the agent committed by itself.

    Where no commit can be had, the verification says why; the agent is told, it may have caused it.
    """
    git, base, settings = station.workspace.git, station.workspace.base, station.task.run.settings
    message = f"Work on {station.task.action.key}"
    try:
        head = await commit.head_with_all(git, message, author=settings.author, committer=settings.committer)
        if await commit.contains(git, head, base):
            return Work(head.commit, head.tree)
    except GitFailed as trouble:
        return _uncommitted(base, f"{trouble.what}\n{trouble.fix}")
    there = f"Go back with `git checkout --detach {base}` and make your changes there."
    return _uncommitted(base, f"HEAD does not contain the commit this task starts from. {there}")


async def _with_nothing_new(station: Station, contract: Contract | None) -> Handed | GaveUp:
    """Return how an attempt ends whose agent has changed nothing at all.

    A tester may have found that the work it verifies passes as it stands: the checks say so, not its word.
    """
    if station.task.action.role == TESTING and station.task.grounds:
        station.record.enter("verifying")
        results = tuple(await station.results_at_base(contract))
        found = Verification(commit=station.workspace.base, results=results)
        if any(result.verdict == "pass" for result in results) and found.passed:
            station.record.hand_in(found.commit, found)
            return Handed(found.commit)
        if not found.passed:
            return GaveUp("contract_failed", _nothing_changed(found))
    return GaveUp("contract_failed", "the agent said it was done, but nothing changed")


def _uncommitted(base: Commit, why: str) -> Verification:
    problem = CheckResult(name="commit", verdict="error", detail=legible(why))
    return Verification(commit=base, results=(problem,))


def _nothing_changed(failed: Verification) -> str:
    return f"nothing changed after the checks failed: {summary(failed)}"


def _outcome(failed: Verification) -> Outcome:
    """Return what it is called that work does not pass: a gate's failure if nothing but gates failed."""
    return "contract_failed" if failed.failures else "gate_failed"
