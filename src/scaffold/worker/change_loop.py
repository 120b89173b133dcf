"""Work that changes files: the agent iterates until its change passes and is good enough, or makes no progress."""

import asyncio
from collections.abc import Mapping
from contextlib import nullcontext
from typing import assert_never

import msgspec
from msgspec import Struct, structs

from scaffold.agent.agent_spec import TurnResult
from scaffold.core.conversation import KeptTurn
from scaffold.core.errors import BudgetExceeded, HumanDecisionRequired, ModelError
from scaffold.core.ids import Commit
from scaffold.core.printable_text import truncate_text
from scaffold.core.proof.contract import CheckResult, Contract, Verification
from scaffold.core.states import AttemptOutcome
from scaffold.git import commits, refs
from scaffold.git.checkouts import worktree
from scaffold.git.ignored_files import IgnoreRule
from scaffold.run.attempts.assignment import TESTING_ROLE
from scaffold.run.failures.attempt_end import AttemptEnd
from scaffold.run.failures.ladder import AGENT_SAID
from scaffold.run.failures.refused_work import safety_refusal_text, summarize_failures
from scaffold.verify.contract.check_runs import unchanged_result
from scaffold.worker.agent.capabilities import AgentCapabilities
from scaffold.worker.agent.continued_turn import REWORK, KeptWork, restore_rejected_change, take_up_turn
from scaffold.worker.agent.native_executor import watched_agent
from scaffold.worker.agent.prompt_learnings import last_failure, with_learnings, with_learnings_of_failure
from scaffold.worker.agent.watchdog import NoProgress, WatchedAgent
from scaffold.worker.attempt_records import AttemptRecords, CandidateReady
from scaffold.worker.extensions.attempt_extensions import accepted_by_hooks
from scaffold.worker.human.protected_review import approve_protected_change, blocking_losses, human_decision, named
from scaffold.worker.review.critic import Critic, improve_prompt
from scaffold.worker.review.critique import (
    HandIn,
    Improve,
    IterationResult,
    IterationState,
    LoopProgress,
    NextStep,
    StopFailed,
    decide_next_step,
    requests_end,
)
from scaffold.worker.review.learner import Learner
from scaffold.worker.second_review.judge import ChangeJudge
from scaffold.worker.second_review.review_agent import HAND_IN_RESERVE_S, second_reviewer
from scaffold.worker.story.criteria import failed_criteria
from scaffold.worker.story.edits import collect_edits, repeats_step
from scaffold.worker.story.first_prompt import first_prompt
from scaffold.worker.task_prompts import IGNORED_FILES, failure_prompt
from scaffold.worker.verification import AttemptVerifier
from scaffold.worker.workspace.attempt_worktree import rescue_work
from scaffold.worker.workspace.hook_fixes import HookFixes
from scaffold.worker.workspace.work_commit import WorkCommit, commit_work, hand_in, ignored_text, step_ended
from scaffold.worker.workspace.workplace import Workplace

WORDS_CHARS = 800
"""Limit for the agent's answer in the ending of an attempt that changed nothing."""


class StepsAdded(Struct, frozen=True):
    """The last step of a story has added others before itself: its work so far is theirs to go on with."""

    head: Commit


class Judges(Struct, frozen=True, kw_only=True):
    """Judges of the work: its checks, then agents if it passed them; without agents (None), passing is enough."""

    verifier: AttemptVerifier
    """Runs the checks and gates."""
    critic: Critic | None = None
    """Scores each version, so that it gets better."""
    second: ChangeJudge | None = None
    """Decides about the version to be handed in, if no program can."""
    learner: Learner | None = None
    """Says what was learned from work that passes and had failed; it judges nothing."""


async def make_change(
    place: Workplace, capabilities: AgentCapabilities, records: AttemptRecords
) -> CandidateReady | AttemptEnd:
    """Prepare the contract, then run the agent, whose work is verified and criticised in each iteration."""
    verifier = await AttemptVerifier.prepare(place, capabilities, records)
    workspace, settings = place.workspace, records.task.run.settings
    critic = Critic(workspace, records, capabilities.adviser("critic")) if settings.planning.critic else None
    # What earlier steps changed is part of the work, so it is verified even if nothing is added to it.
    inherits = workspace.start != workspace.base
    start = IterationResult(
        left="" if inherits else await commits.tree_of(workspace.git, workspace.base),
        verification=unchanged_result(workspace.base),
    )
    kept = await take_up_turn(place, records)
    agent = watched_agent(place, capabilities, records, kept)
    learner = Learner(workspace, capabilities, records) if settings.learning.extract else None
    reviewer, reviewing = second_reviewer(place, capabilities, records), settings.planning.reviewer
    second = ChangeJudge(workspace, records, reviewer, reviewing) if reviewer and reviewing else None
    judges = Judges(verifier=verifier, critic=critic, second=second, learner=learner)
    return await ChangeLoop(place, capabilities, records, agent, judges, start, kept).execute()


class ChangeLoop:
    """The loop around one agent. Work that passed is handed in even if a later improvement fails."""

    def __init__(
        self,
        place: Workplace,
        capabilities: AgentCapabilities,
        records: AttemptRecords,
        agent: WatchedAgent,
        judges: Judges,
        start: IterationResult,
        kept: KeptWork,
    ) -> None:
        """`start` is the unchanged base, which does not pass; `kept` is what an earlier attempt has done."""
        self._kept = kept
        self._place = place
        self._workspace = place.workspace
        self._capabilities = capabilities
        self._human = capabilities.human
        self._records = records
        self._agent = agent
        self._verifier = judges.verifier
        self._judges = judges
        self._start = start
        self._last = start
        self._passed: IterationResult | None = None
        """The latest iteration that passed."""
        self._hooks = HookFixes(place, records, judges.verifier.keep_hook_run)
        self._ignored: Mapping[str, IgnoreRule] = {}
        """The files of the present work that git ignores."""
        self._answers = [""]
        """The agent's answers, latest last."""
        self._failure: Verification | None = None
        """What the checks of this attempt showed when its work last failed."""
        self._iteration = 1
        self._pinned: Commit | None = None
        """What the attempt's work ref has."""

    async def execute(self) -> CandidateReady | AttemptEnd:
        """Run iterations until one decides the end; one that changes nothing is the last.

        The first one finishes the turn that an earlier attempt began, if any.
        """
        self._records.enter("executing")
        if self._kept.progress:
            self._resume(progress := msgspec.json.decode(self._kept.progress, type=LoopProgress))
            if progress.given_up is not None:
                return await self._last_passed_or(progress.given_up)
        prompt = self._kept.turn or await self._first_prompt()
        if not self._kept.progress:
            self._kept.note_next(self._progress())
        while (iteration := self._iteration) <= self._records.task.run.settings.tier.iterations:
            match move := await self._run_iteration(prompt, iteration):
                case AttemptEnd():
                    # An agent that gets stuck while it improves must not lose work that has passed.
                    return await self._last_passed_or(move)
                case HandIn():
                    return await self._hand_in(self._last.verification)
                case StopFailed():
                    return await self._end_failed(move, iteration)
                case StepsAdded(head=head):
                    ended = step_ended(head, "its agent added steps before it")
                    return await hand_in(self._workspace, self._records, ended)
                case Improve():
                    prompt = await self._next_prompt()
                case _:
                    assert_never(move)
        return AttemptEnd("contract_failed", "the tier allows no iterations")

    def _progress(self, given_up: AttemptEnd | None = None) -> LoopProgress:
        return LoopProgress(
            iteration=self._iteration,
            before=str(self._start.left),
            last=None if self._last is self._start else self._last,
            passed=self._passed,
            failure=self._failure,
            known=self._verifier.known,
            ignored=self._ignored,
            given_up=given_up,
        )

    def _resume(self, progress: LoopProgress) -> None:
        self._iteration = progress.iteration
        self._start = structs.replace(self._start, left=progress.before)
        self._last = progress.last or self._start
        self._passed, self._failure = progress.passed, progress.failure
        self._ignored = progress.ignored
        self._verifier.known.update(progress.known)

    async def _first_prompt(self) -> str:
        # A change that a human rejected is where the agent begins, not a fresh base.
        prompt = await first_prompt(self._place, self._records, self._verifier.contract)
        if (rejected := await restore_rejected_change(self._place, self._records)) is None:
            return with_learnings(self._records, prompt)
        # A human must not be asked about the same change twice, so it counts as unchanged.
        self._start = self._last = structs.replace(self._start, left=rejected)
        return with_learnings(self._records, f"{prompt}\n\n{REWORK}")

    async def _run_iteration(self, prompt: str | KeptTurn, iteration: int) -> NextStep | AttemptEnd | StepsAdded:
        # Without it, the deadline of the whole attempt would end an improvement
        # and the work that had already passed with it.
        limited = nullcontext() if self._passed is None else self._human.deadline(spare_s=HAND_IN_RESERVE_S)
        deadline: asyncio.Timeout | None = None
        try:
            async with limited as deadline:
                try:
                    finish = await self._agent.turn(prompt)
                except (BudgetExceeded, ModelError) as error:
                    # The budget and the model concern the improvement only, once something can be handed in.
                    if self._passed is None:
                        raise
                    return AttemptEnd("executor_failed", error.in_full)
                if isinstance(finish, NoProgress):
                    return AttemptEnd(finish.outcome, finish.cause)
                return await self._evaluate_turn(finish, iteration)
        except TimeoutError:
            if deadline is None or not deadline.expired():
                raise
            return AttemptEnd("timeout", "the attempt timed out")

    async def _evaluate_turn(self, finish: TurnResult, iteration: int) -> NextStep | StepsAdded:
        records, settings = self._records, self._records.task.run.settings
        edits = await collect_edits(self._place.shared, self._capabilities.asked_edits, records)
        records.answered(finish.text, iteration=iteration, edits=edits)
        self._answers.append(finish.text)
        work = await commit_work(self._place, self._records)
        if isinstance(work, WorkCommit):
            self._ignored = {**self._ignored, **work.ignored}
            # Before its checks: what they would find is perhaps what the steps are for.
            if edits is not None and repeats_step(records, edits):
                records.enter("verifying")
                return StepsAdded(work.head)
            work = await failed_criteria(records, "\n".join(self._answers), work.head) or work
        if isinstance(work, WorkCommit):
            work = await self._hooks.apply(work)
            self._pinned = work.head
        # Trees are compared, not commits: each commit of the same files has another time and another id.
        left = work.tree if isinstance(work, WorkCommit) else work
        changed = left != self._last.left
        if changed:
            records.enter("verifying")
            # `DONE` answers a critique; in a first answer it is just a word.
            asked = self._last.critique is not None and requests_end(finish.text)
            self._last = await self._judge_work(work, iteration, asked_for_end=asked)
        last, critique = self._last, self._last.critique
        state = IterationState(
            passed=last.passed,
            refused=changed and last.verification.is_safety_refusal,
            changed=changed,
            score=critique.total if critique else None,
            threshold=settings.tier.threshold,
            done=last.asked_for_end or (critique is not None and critique.done),
            iteration=iteration,
            maximum=settings.tier.iterations,
        )
        move = decide_next_step(state)
        if changed and critique is not None:
            done = isinstance(move, HandIn)
            score = critique.score(threshold=settings.tier.threshold)
            records.criticised(last.verification, iteration=iteration, score=score, done=done)
        return await self._after_second_review(state) if isinstance(move, HandIn) else move

    async def _after_second_review(self, state: IterationState) -> NextStep:
        if not state.changed:
            self._records.enter("verifying")
        verification = await self._second_reviewed(self._last.verification)
        if verification is self._last.verification:
            return decide_next_step(state)
        self._last = structs.replace(self._last, verification=verification, critique=None)
        # Earlier versions have not been judged, so none of them stands in for one that was rejected.
        self._passed = self._last if self._last.passed else None
        if not self._last.passed:
            await worktree.restore(self._workspace.git, verification.commit)
            self._records.enter("executing", verification=verification)
        return decide_next_step(structs.replace(state, passed=self._last.passed, reviewed=True))

    async def _second_reviewed(self, verification: Verification) -> Verification:
        if self._judges.second is None or not verification.passed:
            return verification
        return await self._judges.second.judged(verification, self._verifier.contract)

    async def _judge_work(
        self, work: WorkCommit | Verification, iteration: int, *, asked_for_end: bool
    ) -> IterationResult:
        if isinstance(work, Verification):
            return IterationResult(left=work, verification=work, asked_for_end=asked_for_end)
        verification = await self._verify_work(work.head)
        if detail := ignored_text(self._ignored):
            named_files = CheckResult(name=IGNORED_FILES, verdict="warn", detail=detail)
            verification = structs.replace(verification, results=(*verification.results, named_files))
        if verification.passed:
            verification = await self._verifier.strengthened(verification)
            self._kept.note(self._progress())
            verification = await accepted_by_hooks(
                self._capabilities.extensions, self._records.task.action, verification
            )
        judged = IterationResult(left=work.tree, verification=verification, asked_for_end=asked_for_end)
        if not judged.passed:
            return judged
        # Before the critic is asked: if it fails or takes too long, this work can still be handed in.
        self._passed = judged
        if self._judges.critic is None or asked_for_end:
            return judged
        self._records.enter("critiquing", verification=verification)
        critique = await self._judges.critic.critique(verification, self._verifier.contract, iteration)
        return IterationResult(left=work.tree, verification=verification, critique=critique)

    async def _verify_work(self, head: Commit) -> Verification:
        # If only lost tests block the work, the second reviewer may agree to their loss.
        found = await self._verify_and_keep(head)
        lost = blocking_losses(found)
        if not lost or self._judges.second is None:
            return found
        judged = await self._judges.second.judged_losses(found, self._verifier.contract, lost)
        # Each way leads out of the phase in which the reviewer was asked.
        self._records.verify_again()
        await worktree.restore(self._workspace.git, head)
        if not judged.accepted:
            return judged
        again = await self._verify_and_keep(head, accepted=lost)
        return structs.replace(again, review=judged.review)

    async def _verify_and_keep(self, head: Commit, *, accepted: tuple[str, ...] = ()) -> Verification:
        # Kept whatever it shows, and before anyone is asked about it: a second run prints other times and finds other
        # doubts, so that what was answered for money would not be an answer to what is asked then.
        found = await self._verifier.verify(head, accepted=accepted)
        self._workspace.require_present(confined=self._place.sandbox is not None)
        self._kept.note(self._progress())
        return found

    async def _left_to_human(self, found: Verification, lost: tuple[str, ...]) -> CandidateReady | AttemptEnd:
        records, workspace = self._records, self._workspace
        await worktree.restore(workspace.git, found.commit)
        decided = await human_decision(workspace, self._human, records, found, lost)
        if decided.state != "approved":
            why = f": {decided.answer}" if decided.answer else ""
            return AttemptEnd("gate_failed", f"a human rejected the loss of {named(lost)}{why}")
        records.verify_again()
        agreed = await self._verify_and_keep(found.commit, accepted=lost)
        if not agreed.passed:
            return AttemptEnd(_failed_outcome(agreed), summarize_failures(agreed))
        return await self._hand_in(structs.replace(agreed, reviewed=True))

    async def _next_prompt(self) -> str:
        last = self._last
        if last.passed:
            # The worktree keeps what the checks of passing work left behind, such as caches and reports.
            await worktree.restore(self._workspace.git, last.verification.commit)
        # Its agent goes on: from here on the worktree has the work.
        ref = refs.work_ref(self._records.task.attempt.id)
        await refs.delete(self._place.run_context.git, ref, old=last.verification.commit)
        self._pinned = None
        self._records.enter("executing", verification=last.verification)
        if last.critique is None:
            self._failure = last.verification
        self._iteration += 1
        self._verifier.known.clear()
        self._ignored = {}
        self._kept.note_next(self._progress())
        if last.critique is not None:
            return improve_prompt(last.critique)
        prompt = failure_prompt(last.verification, asked_for_end=last.asked_for_end)
        return with_learnings_of_failure(self._records, prompt, last.verification)

    async def _end_failed(self, move: StopFailed, iteration: int) -> CandidateReady | AttemptEnd:
        if self._passed is None:
            await self._verifier.require_programs(None if self._last is self._start else self._last.verification)
        if self._last is self._start:
            ending = await _end_unchanged(self._place, self._records, self._verifier.contract)
            if not isinstance(ending, AttemptEnd):
                return ending
            error = "\n".join(filter(None, (ending.error, ignored_text(self._ignored))))
            return _with_words(structs.replace(ending, error=error), self._answers[-1])
        failed = self._last.verification
        lost = blocking_losses(failed)
        if lost and self._passed is None and not self._records.task.run.settings.permissions.yolo:
            return await self._left_to_human(failed, lost)
        if move.reason == "nothing_changed":
            gave_up = _with_words(AttemptEnd(_failed_outcome(failed), _nothing_changed(failed)), self._answers[-1])
            return await self._last_passed_or(gave_up)
        why = safety_refusal_text(failed) if move.reason == "refused" else summarize_failures(failed)
        if self._passed is None:
            self._records.never_passed(failed, iterations=iteration, summary=why)
        return await self._last_passed_or(AttemptEnd(_failed_outcome(failed), why))

    async def _last_passed_or(self, gave_up: AttemptEnd) -> CandidateReady | AttemptEnd:
        if self._passed is None:
            return gave_up
        self._kept.note(self._progress(gave_up))
        records, task = self._records, self._records.task
        # The unfinished improvement gets a rescue ref; what is handed in is older.
        await rescue_work(records.run_context, task.run, task.attempt.id)
        self._pinned = None
        why = gave_up.error.partition("\n")[0]
        records.inform(f"{task.action.key} is submitted as it last passed; improving it further failed: {why}")
        records.verify_again()
        verification = await self._second_reviewed(self._passed.verification)
        if not verification.passed:
            return AttemptEnd(_failed_outcome(verification), summarize_failures(verification))
        return await self._hand_in(verification)

    async def _hand_in(self, verification: Verification) -> CandidateReady | AttemptEnd:
        # A change of protected paths needs a human's approval before anything is offered for landing.
        workspace, records, head = self._workspace, self._records, verification.commit
        try:
            rejected = await approve_protected_change(workspace, self._human, records, head, verification.review)
        except HumanDecisionRequired:
            # The rescue takes a snapshot of the worktree, and the approval is for
            # exactly this change: remove what the checks left.
            await worktree.restore(workspace.git, head)
            raise
        if rejected is not None:
            return rejected
        failed = self._failure or last_failure(records)
        if self._judges.learner is not None and failed is not None:
            await self._judges.learner.propose(failed, verification)
        return await hand_in(workspace, records, verification, self._ignored, pinned=self._pinned)


async def _end_unchanged(
    place: Workplace, records: AttemptRecords, contract: Contract | None
) -> CandidateReady | AttemptEnd:
    """Return the ending of an attempt that changed nothing.

    A tester hands in the base if the contract's checks pass on it: existing tests may already show the behaviour. So
    does the work of a round, also without a contract: whether nothing is left to do, gates or the next audit find out.
    """
    in_round, testing = records.task.action.method == "round", records.task.action.role == TESTING_ROLE
    if in_round and (contract is None or contract.empty):
        records.enter("verifying")
        ended = step_ended(place.workspace.base, "its agent changed nothing")
        records.hand_in(ended.commit, ended)
        return CandidateReady(ended.commit)
    if in_round or (testing and records.task.prerequisite_facts):
        records.enter("verifying")
        results = tuple(await place.results_at_base(contract))
        found = Verification(commit=place.workspace.base, results=results)
        if any(result.verdict == "pass" for result in results) and found.passed:
            records.hand_in(found.commit, found)
            return CandidateReady(found.commit)
        if not found.passed:
            return AttemptEnd("contract_failed", _nothing_changed(found))
    return AttemptEnd("contract_failed", "the agent said it was done, but nothing changed")


def _with_words(gave_up: AttemptEnd, words: str) -> AttemptEnd:
    # Without a change, what the agent said is the only clue why the task could not be done.
    if not words.strip():
        return gave_up
    return structs.replace(gave_up, error=f"{gave_up.error}{AGENT_SAID}{truncate_text(words.strip(), WORDS_CHARS)}")


def _nothing_changed(failed: Verification) -> str:
    return f"nothing changed after the checks failed: {summarize_failures(failed)}"


def _failed_outcome(failed: Verification) -> AttemptOutcome:
    return "contract_failed" if failed.failures else "gate_failed"
