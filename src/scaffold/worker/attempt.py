"""One attempt, from its workspace to a candidate."""

import asyncio
from collections.abc import Mapping

import msgspec

from scaffold.agent.journal import JournalFile
from scaffold.core.errors import (
    BudgetExceeded,
    ContextOverflow,
    GitError,
    HookUnusable,
    HumanDecisionRequired,
    ModelAccessDenied,
    ModelUnavailable,
    ScaffoldError,
    StaleFence,
    StoreUnavailable,
)
from scaffold.core.model import Attempt, ProcessIdentity
from scaffold.core.ports import Model
from scaffold.core.proof.gates import CheckEnvironment
from scaffold.core.states import COUNTED_FAILURES, Escalation, Failed
from scaffold.host.sandbox.confinement import SandboxSpec
from scaffold.plan.failures.recurrence import first_same
from scaffold.run.activity_recorder import ActivityRecorder
from scaffold.run.attempts.assignment import Assignment
from scaffold.run.context import RunContext
from scaffold.run.failures.attempt_end import AttemptEnd, end_attempt
from scaffold.run.failures.ladder import failure_text
from scaffold.run.failures.refused_work import first_failure
from scaffold.run.notices import warn
from scaffold.run.resources.attempt_resources import AttemptResources
from scaffold.run.resources.candidate_environment import environment_at
from scaffold.run.resources.held_resources import held_resources
from scaffold.run.resources.sandbox import open_sandbox, remove_temporary_folder
from scaffold.run.shared_notes import SCRATCH, UnusableNotes, add_notes
from scaffold.verify.environment.check_env import with_shown_folders
from scaffold.verify.environment.provisioning import provision_checkout
from scaffold.worker.activity_clock import ActivityClock, attempt_activity
from scaffold.worker.agent.native_executor import watched_agent
from scaffold.worker.attempt_context import AttemptContext
from scaffold.worker.attempt_record import AttemptRecorder, CandidateReady
from scaffold.worker.change_loop import make_change
from scaffold.worker.declaration_review import DeclarationReviewer, no_reviewer
from scaffold.worker.extensions.hooks import worker_hooks
from scaffold.worker.extensions.mcp_servers import server_tools
from scaffold.worker.extensions.plugins import worker_plugins
from scaffold.worker.human.continued_turn import take_up_turn
from scaffold.worker.human.file_requests import grant_approved_requests
from scaffold.worker.human.soft_timeout_question import SoftTimeout
from scaffold.worker.inbox_approval import InboxApprover
from scaffold.worker.review.review_loop import run_review
from scaffold.worker.second_review.path_request import declaration_reviewer
from scaffold.worker.step_loop import run_step
from scaffold.worker.story.edits import collect_left_edits, keep_edits_of_failed
from scaffold.worker.workspace.attempt_worktree import (
    AttemptWorkspace,
    give_back_shared,
    open_workspace,
    release_workspace,
    rescue_and_release,
)
from scaffold.worker.workspace.rescue_diff import write_rescue_diff
from scaffold.worker.workspace.shared_folder import merge_shared_folder, open_shared_folder


class Worker:
    """Executes one assignment; each phase is in the store before it begins."""

    def __init__(
        self,
        run_context: RunContext,
        task: Assignment,
        model: Model,
        *,
        reviewer: DeclarationReviewer = no_reviewer,
        activity: ActivityClock | None = None,
        side_models: Mapping[str, Model] | None = None,
    ) -> None:
        """Take the `reviewer` of requests for files that judge the work; without its decision a human is asked.

        `side_models` are those of agents that advise on the work, by role, where they are not `model`.

        `activity` records when the model waits for its endpoint; the default is a new one.
        """
        self._run_context = run_context
        self._reviewer = reviewer
        self._task = task
        self._model = model
        self._side_models = side_models or {}
        self._activity = activity or attempt_activity(run_context.clock, task)
        self._human = InboxApprover(run_context, task, self._activity)
        self._activities = ActivityRecorder(run_context, task.run, attempt_id=task.attempt.id)
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
        ending = await self._run_with_timeout()
        match ending:
            # The attempt's outcome is the owner's to write from here on.
            case CandidateReady():
                await release_workspace(run_context, run, attempt, ending.head)
            case AttemptEnd():
                await self._conclude(ending)
        # A folder with thousands of cache files would block the event loop, and with it the heartbeats.
        await asyncio.to_thread(remove_temporary_folder, run_context, run, name=attempt.id)
        return ending

    async def _conclude(self, ending: AttemptEnd) -> None:
        run_context, run, attempt = self._run_context, self._task.run, self._task.attempt
        # The pin comes first: once the attempt has ended, its worktree may be removed or given to another attempt.
        pinned = await rescue_and_release(run_context, run, attempt)
        end_attempt(
            run_context.store,
            run,
            attempt.id,
            msgspec.structs.replace(ending, error=run_context.redactor.clean(ending.error)),
            head=pinned,
            fence=attempt.fence,
        )
        await write_rescue_diff(run_context, attempt.id)
        ended = run_context.store.attempts.get(attempt.id)
        if ended is not None and ended.escalation is not None:
            self._note_failure(ended, ended.escalation)
        if ended is not None and ending.outcome != "waiting":
            keep_edits_of_failed(run_context, self._task, ended)
        action = run_context.store.actions.get(attempt.action_id)
        if action is not None and isinstance(action.state, Failed):
            await give_back_shared(run_context, attempt)
            if action.method == "story":
                text = f"{action.key} failed: {first_failure(action.state.reason)}"
                written = await add_notes(run_context, SCRATCH, f"- {text}")
                if isinstance(written, UnusableNotes):
                    warn(run_context, run.id, f"{text}. The notes of all agents do not say so: {written.why}.")

    def _note_failure(self, ended: Attempt, escalation: Escalation) -> None:
        """Write into the agent's journal how its attempt failed, and what follows."""
        run_context, task = self._run_context, self._task
        same = first_same(run_context.store.attempts.of_action(ended.action_id), ended)
        journal = JournalFile(
            run_context.journal(*task.journal_names),
            clock=run_context.clock,
            fields={"run": ended.run_id, "action": task.action.key, "attempt": ended.number},
            redactor=run_context.redactor,
        )
        journal.note("notice", text=failure_text(ended, escalation, same))

    async def _run_with_timeout(self) -> CandidateReady | AttemptEnd:
        ending = await self._ended()
        # Its checks found nothing, its commands had no folder, and its agent may have made a new one.
        failed = isinstance(ending, AttemptEnd) and ending.outcome in COUNTED_FAILURES
        if failed and self._workspace is not None and self._workspace.is_gone:
            return AttemptEnd("lost", f"the worktree {self._workspace.path} was removed")
        return ending

    async def _ended(self) -> CandidateReady | AttemptEnd:
        limit = self._activity.limit
        soft = SoftTimeout(self._run_context, self._task, limit)
        try:
            async with soft.watched():
                return await self._work()
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

    async def _work(self) -> CandidateReady | AttemptEnd:
        """Run the work with what the attempt has for itself on this machine."""
        with held_resources(self._run_context, self._task.run.id, self._task.attempt.id, noted=True) as resources:
            return await self._work_with(resources)

    async def _work_with(self, resources: AttemptResources) -> CandidateReady | AttemptEnd:
        """Open the worktree, the sandbox and what else the attempt has, and run its work."""
        task = self._task
        self._workspace = workspace = await open_workspace(self._run_context, task.attempt)
        baseline = self._run_context.store.baselines.of_run(task.run.id)
        environment = baseline.environment if baseline else None
        if environment is not None:
            found = await environment_at(
                self._run_context, task.run, environment, workspace.base, during=self._activities.during
            )
            environment = found.environment
        async with open_sandbox(self._run_context, task.run, workspace.path, name=task.attempt.id) as sandbox:
            story = task.parent.key if task.parent and task.parent.method == "story" else None
            shared = open_shared_folder(self._run_context, task, sandbox, story)
            context = msgspec.structs.replace(
                self._context(workspace, sandbox, environment), resources=resources, shared=shared
            )
            await provision_checkout(environment, workspace.path)
            grant_approved_requests(context)
            ending = None
            try:
                async with worker_hooks(context) as hooks, worker_plugins(context) as plugins:
                    more = await server_tools(context)
                    context = msgspec.structs.replace(context, plugins=plugins, hooks=hooks, server_tools=more)
                    ending = await self._execute(context)
            finally:
                await merge_shared_folder(self._run_context, task, shared)
                if not isinstance(ending, CandidateReady):
                    await collect_left_edits(context)
            return ending

    async def _execute(self, context: AttemptContext) -> CandidateReady | AttemptEnd:
        """Run the kind of work that the action requires."""
        if self._task.attempt.kind == "review":
            continued = await take_up_turn(context)
            return await run_review(context, watched_agent(context, self._model, continued), continued)
        if self._reviewer is no_reviewer:
            context = msgspec.structs.replace(context, reviewer=declaration_reviewer(context, self._model))
        return await (run_step if self._task.attempt.kind == "step" else make_change)(context, self._model)

    def _context(
        self, workspace: AttemptWorkspace, sandbox: SandboxSpec | None, environment: CheckEnvironment | None = None
    ) -> AttemptContext:
        baseline = self._run_context.store.baselines.of_run(self._task.run.id)
        return AttemptContext(
            run_context=self._run_context,
            task=self._task,
            workspace=workspace,
            sandbox=with_shown_folders(environment, sandbox),
            human=self._human,
            activity=self._activity,
            record=AttemptRecorder(self._run_context, self._task.attempt, self._task.action),
            activities=self._activities,
            baseline=baseline,
            environment=environment,
            reviewer=self._reviewer,
            side_models=self._side_models,
        )


def _ending_of(error: ScaffoldError) -> AttemptEnd:
    match error:
        case BudgetExceeded():
            return AttemptEnd("budget", error.what)
        case HumanDecisionRequired():
            return AttemptEnd("waiting", error.what, error.item)
        case ModelUnavailable():
            is_denied = isinstance(error, ModelAccessDenied)
            return AttemptEnd("no_access" if is_denied else "unavailable", error.in_full)
        # Every attempt would begin with the same prompt, or the same hook, and end in the same way.
        case ContextOverflow() | HookUnusable():
            return AttemptEnd("executor_failed", error.in_full, permanent=True)
        # The machine failed, which says nothing about the work.
        case GitError() | StoreUnavailable():
            return AttemptEnd("lost", error.in_full)
        case _:
            return AttemptEnd("executor_failed", error.in_full)
