"""One attempt, from its workspace to a candidate."""

import asyncio
from collections.abc import Mapping

from msgspec import structs

from scaffold.core.errors import (
    BudgetExceeded,
    ContextOverflow,
    EnvironmentNotReady,
    GitError,
    HookUnusable,
    HumanDecisionRequired,
    ModelAccessDenied,
    ModelUnavailable,
    PermanentGitError,
    ScaffoldError,
    ShareUsed,
    StaleFence,
    StoreUnavailable,
)
from scaffold.core.model import ProcessIdentity
from scaffold.core.ports import Model
from scaffold.core.states import COUNTED_FAILURES, Failed
from scaffold.plan.failures.recurrence import first_same
from scaffold.run.attempts.assignment import Assignment, action_of_work, read_declaration
from scaffold.run.attempts.contracts import contract_in_force
from scaffold.run.context import RunContext
from scaffold.run.failures.attempt_end import AttemptEnd, end_attempt
from scaffold.run.failures.ladder import failure_text
from scaffold.run.failures.refused_work import first_failure
from scaffold.run.failures.rescue_diff import write_rescue_diff
from scaffold.run.resources.attempt_resources import AttemptResources
from scaffold.run.resources.held_resources import held_resources
from scaffold.run.resources.sandbox import remove_temporary_folder
from scaffold.run.shared_notes import SCRATCH, UnusableNotes, add_notes
from scaffold.verify.environment.provisioning import provision_checkout
from scaffold.worker.activity_clock import ActivityClock, attempt_activity
from scaffold.worker.agent.agent_source import AgentSource
from scaffold.worker.agent.capabilities import AgentCapabilities
from scaffold.worker.agent.continued_turn import take_up_turn
from scaffold.worker.agent.native_executor import watched_agent
from scaffold.worker.attempt_records import AttemptRecords, CandidateReady
from scaffold.worker.change_loop import make_change
from scaffold.worker.contract.drafting import check_on_base
from scaffold.worker.extensions.attempt_extensions import attempt_extensions
from scaffold.worker.human.file_requests import DeclarationReviewer, grant_approved_requests, no_reviewer
from scaffold.worker.human.inbox_approval import InboxApprover
from scaffold.worker.human.soft_timeout_question import SoftTimeout
from scaffold.worker.review.review_loop import run_review
from scaffold.worker.second_review.review_agent import declaration_reviewer
from scaffold.worker.step_loop import run_step
from scaffold.worker.story.edits import collect_left_edits, keep_edits_of_failed
from scaffold.worker.workspace.attempt_worktree import (
    AttemptWorkspace,
    give_back_shared,
    open_workspace,
    release_workspace,
    rescue_and_release,
)
from scaffold.worker.workspace.shared_folder import merge_shared_folder
from scaffold.worker.workspace.workplace import Workplace, open_workplace


class Worker:
    """Executes one assignment; each phase is in the store before it begins."""

    def __init__(
        self,
        run_context: RunContext,
        task: Assignment,
        model: Model | None,
        *,
        reviewer: DeclarationReviewer = no_reviewer,
        activity: ActivityClock | None = None,
        advisers: Mapping[str, AgentSource] | None = None,
    ) -> None:
        """`reviewer` decides requests for files that judge the work; without its decision a human is asked.

        `model` is None if a program does the work. `advisers` take the turns of agents that advise, by role, where
        `model` does not. `activity` records when the model waits for its endpoint; the default is a new one.
        """
        self._run_context = run_context
        self._task = task
        activity = activity or attempt_activity(run_context.clock, task)
        self._records = AttemptRecords(run_context=run_context, task=task, activity=activity)
        self._capabilities = AgentCapabilities(
            model=model, advisers=advisers or {}, human=InboxApprover(self._records), reviewer=reviewer
        )
        self._workspace: AttemptWorkspace | None = None

    async def execute(self, identity: ProcessIdentity, *, log_file: str) -> CandidateReady | AttemptEnd:
        """Claim the attempt and run it to its end; StaleFence if another process ended it meanwhile."""
        run_context, run, attempt = self._run_context, self._task.run, self._task.attempt
        folder = run_context.worktree_of(attempt)
        # The claim comes before anything is created: a second process for the same attempt fails here.
        with run_context.store.transaction():
            run_context.store.attempts.claim(
                attempt.id, fence=attempt.fence, worker=identity, worktree=str(folder), log_file=log_file
            )
        ending = await self._run_in_time()
        if isinstance(ending, AttemptEnd) and ending.outcome in COUNTED_FAILURES and self._workspace is not None:
            try:
                # Its checks found nothing, its commands had no folder, and its agent may have made a new one.
                self._workspace.require_present()
            except GitError as gone:
                ending = _ending_of(gone)
        match ending:
            # The attempt's outcome is the owner's to write from here on.
            case CandidateReady():
                await release_workspace(run_context, run, attempt, ending.head)
            case AttemptEnd():
                await self._end_attempt(ending)
        # A folder with thousands of cache files would block the event loop, and with it the heartbeats.
        await asyncio.to_thread(remove_temporary_folder, run_context, run, name=attempt.id)
        return ending

    async def _end_attempt(self, ending: AttemptEnd) -> None:
        run_context, run, attempt = self._run_context, self._task.run, self._task.attempt
        # The pin comes first: once the attempt has ended, its worktree may be removed or given to another attempt.
        pinned = await rescue_and_release(run_context, run, attempt)
        end_attempt(
            run_context.store,
            run,
            attempt.id,
            structs.replace(ending, error=run_context.redactor.clean(ending.error)),
            head=pinned,
            fence=attempt.fence,
        )
        await write_rescue_diff(run_context, attempt.id)
        ended = run_context.store.attempts.get(attempt.id)
        if ended is not None and ended.escalation is not None:
            same = first_same(run_context.store.attempts.for_action(ended.action_id), ended)
            self._records.open_journal().note("notice", text=failure_text(ended, ended.escalation, same))
        if ended is not None and ending.outcome != "waiting":
            keep_edits_of_failed(run_context, self._task, ended)
        action = run_context.store.actions.get(attempt.action_id)
        if action is not None and isinstance(action.state, Failed):
            await give_back_shared(run_context, attempt)
            if action.method == "story":
                text = f"{action.key} failed: {first_failure(action.state.reason)}"
                written = await add_notes(run_context, SCRATCH, f"- {text}")
                if isinstance(written, UnusableNotes):
                    self._records.warn(f"{text}. The notes of all agents do not say so: {written.why}.")

    async def _run_in_time(self) -> CandidateReady | AttemptEnd:
        limit = self._records.activity.limit
        soft = SoftTimeout(self._records)
        try:
            async with soft.watched():
                # Ports and names that no other attempt on this machine has meanwhile.
                with held_resources(self._run_context, self._task.run.id, self._task.attempt.id, noted=True) as held:
                    return await self._run_in_workplace(held)
        except TimeoutError:
            if soft.killed:
                return AttemptEnd("timeout", soft.killed)
            # A TimeoutError of something inside is an error of its own, not the end of the attempt's time.
            if limit.left_s > 0:
                raise
            return AttemptEnd("timeout", f"not finished after {limit.limit_s:g} s")
        # It is a ScaffoldError, too, and must not be recorded: the attempt belongs to another process by now.
        except StaleFence:
            raise
        except ScaffoldError as error:
            return _ending_of(error)

    async def _run_in_workplace(self, resources: AttemptResources) -> CandidateReady | AttemptEnd:
        run_context, task, records = self._run_context, self._task, self._records
        self._workspace = workspace = await open_workspace(run_context, task.attempt)
        async with open_workplace(run_context, task, workspace, resources) as place:
            shared, asked = place.shared, self._capabilities.asked_edits
            await provision_checkout(place.environment, workspace.path)
            grant_approved_requests(records)
            await _require_programs(place, records)
            ending = None
            try:
                async with attempt_extensions(place, records, self._capabilities.human) as extensions:
                    more = await extensions.tools()
                    capabilities = structs.replace(self._capabilities, extensions=extensions, extension_tools=more)
                    ending = await self._run_kind(place, capabilities)
            finally:
                if shared is not None:
                    await merge_shared_folder(run_context, task, shared)
                if not isinstance(ending, CandidateReady):
                    await collect_left_edits(shared, asked, records)
            return ending

    async def _run_kind(self, place: Workplace, capabilities: AgentCapabilities) -> CandidateReady | AttemptEnd:
        records = self._records
        if self._task.attempt.kind == "review":
            kept = await take_up_turn(place, records)
            return await run_review(place, records, watched_agent(place, capabilities, records, kept), kept.turn)
        if capabilities.reviewer is no_reviewer:
            reviewer = declaration_reviewer(place, capabilities, records)
            capabilities = structs.replace(capabilities, reviewer=reviewer)
        return await (run_step if self._task.attempt.kind == "step" else make_change)(place, capabilities, records)


async def _require_programs(place: Workplace, records: AttemptRecords) -> None:
    """Raise EnvironmentNotReady if a check of the contract could not run here, whatever the agent does."""
    # The steps of a story are checked as a whole, by its own contract.
    judged = action_of_work(records.store, records.task.action)
    contract = contract_in_force(records.store, judged.id) or judged.contract
    files = read_declaration(records.store, judged).files
    missing = await place.missing_program(contract, files)
    if missing is not None:
        raise place.not_ready(missing)
    # The final review would find only after all others what its checks cannot start.
    begins = records.task.attempt.kind == "step" and place.workspace.start == place.workspace.base
    if begins and contract is not None and not contract.empty:
        await place.require_started(contract, (await check_on_base(place, contract)).red_runs, files)


def _ending_of(error: ScaffoldError) -> AttemptEnd:
    match error:
        case BudgetExceeded():
            return AttemptEnd("budget", error.what, others_first=isinstance(error, ShareUsed))
        case HumanDecisionRequired():
            return AttemptEnd("waiting", error.what, error.item)
        case ModelUnavailable():
            is_denied = isinstance(error, ModelAccessDenied)
            return AttemptEnd("no_access" if is_denied else "unavailable", error.in_full)
        # Every attempt would begin with the same prompt, hook or missing program, and end in the same way.
        case ContextOverflow() | HookUnusable() | EnvironmentNotReady():
            return AttemptEnd("executor_failed", error.in_full, permanent=True)
        # The machine failed, which says nothing about the work.
        case GitError() | StoreUnavailable():
            return AttemptEnd("lost", error.in_full, permanent=isinstance(error, PermanentGitError))
        case _:
            return AttemptEnd("executor_failed", error.in_full)
